"""The journal in the cluster: every fact of a PartitionRecovery's plans is an immutable RecoveryRecord next to it.

The order of writing is what a crash can't break. A run begins: our finalizers on the recovery, on its WatchedCluster
and on the plan, the plan's digest in the status, the approval, `begun`. It ends: `finished`, the owner references, the
finalizers away. Until the end nobody owns the records and nobody can delete them, not with their namespace either; what
is owned has ended.

Facts of a plan that the status does not name as begun are nobody's word: see `shown_plans`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar
from uuid import uuid4

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument, canonical, digest_of_canonical, read
from kafka_recovery.kube.journal.broken_records import damaged, unwritable
from kafka_recovery.kube.journal.facts import Fact, Facts, RecordsApi, RecoveryRef
from kafka_recovery.kube.journal.finalizer import OrderFinalizer
from kafka_recovery.kube.journal.notes import (
    Approval,
    Doubt,
    WaveEnd,
    WaveStart,
    by_plan,
    is_begun,
    is_unfinished,
    never_shown,
    prefix_of,
    was_vain,
)
from kafka_recovery.kube.journal.shown_plans import ShownPlans
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.resources.kinds import RECOVERIES
from kafka_recovery.recovery.ports import JournalClosed, JournalUnwritable, PlanFinished, Run

BLANK = 1.0
"""Seconds for which a journal that had no notes is known to have none, unless this one writes some. A list takes up to
0.1 s if anything at all was written just before: the API server waits until its cache is as new (KEP-2340)."""


VAIN_KEPT = 3
"""Runs that ended without an election are kept so many of: enough to read what was tried, and no flood."""


class JournalWriterConflict(JournalUnwritable):
    """Another process keeps this journal as well, so this one changes nothing more; whoever looks again goes on."""


_Note = TypeVar("_Note", WaveStart, Doubt, WaveEnd)


class RecordJournal:
    """Port `Journal` for one PartitionRecovery.

    What is written says no time (a record has its own), so that writing it again after a lost answer meets the same
    content. Writing raises JournalUnwritable, reading ApiError, both InvalidDocument for what was tampered with.

    `cluster`: holds the WatchedCluster from before a run begins; whoever watches that one takes it off again.
    """

    def __init__(
        self,
        api: RecordsApi,
        namespace: str,
        name: str,
        uid: str,
        cluster_id: str,
        cluster: OrderFinalizer | None = None,
    ) -> None:
        self.recovery = recovery = RecoveryRef(name, uid)
        self._facts = Facts(api, namespace, recovery, cluster_id)
        self._finalizer = OrderFinalizer(api, RECOVERIES, namespace, name, uid)
        self._cluster = cluster
        self._shown = ShownPlans(api, namespace, recovery)
        self._digests: Collection[str] = ()
        """Of plans that were begun, as far as the status was seen to name them: it may be gone since."""
        self._kept: frozenset[str] | None = None
        """The plans of which facts were found last, as facts name them."""
        self._writer = uuid4().hex
        self._begun = False
        self._under_way: set[tuple[str, int]] = set()
        self._strangers: frozenset[str] = frozenset()
        """Plans with an unfinished run that the status does not name; their records may be all that tells of orders."""
        self.finished_here: set[str] = set()
        """Plans whose run this process itself has finished: of others a record says so, whoever wrote it."""
        self._blank_until = 0.0
        self.never_shown: Reason | None = None
        """Why nobody may be elected, if facts tell of a run whose plan the status does not name as begun."""

    @property
    def begun(self) -> bool:
        """Whether a run of this recovery was ever begun, as far as was written or read here."""
        return self._begun

    @property
    def waves_under_way(self) -> bool:
        """Whether a wave was begun here that has not come to its end."""
        return bool(self._under_way)

    async def record(self, plan: Plan) -> str:
        """Keep the plan; returns its digest. Raises PlanFinished for one that has ended."""
        raw = await asyncio.to_thread(canonical, plan)
        digest = await asyncio.to_thread(digest_of_canonical, raw)
        earlier = await self._facts.keep(digest, "plan", raw)
        if earlier is not None:
            if earlier != raw:
                raise InvalidDocument(damaged(self._facts.record(digest, "plan"), "it holds another plan"))
            if await self._facts.find(digest, "finished"):
                raise PlanFinished(f"plan {digest[:12]} has been executed to its end; make a new plan for what is left")
        return digest

    async def approved(self, digest: str, by: str | None) -> None:
        """Keep that the run begins, and who approved it; the first approval stands.

        Raises InvalidDocument if the plan was deleted or replaced while somebody read it: a run without its plan could
        never be undone.
        """
        await self._raw_plan(await self._fact_of_plan(digest), digest)
        self._blank_until = 0.0
        await self._finalizer.put_on()  # first: who takes off the cluster's asks which recoveries have this one
        if self._cluster:
            await self._cluster.put_on()
        await self._facts.hold(digest)
        kept = self._kept
        self._digests = await self._shown.begin(digest, lambda each: kept is None or prefix_of(each) in kept)
        if by is not None:
            await self._facts.keep(digest, "approval", canonical(Approval(by)))
        await self._facts.keep(digest, "begun", b"{}")
        self._kept = None if kept is None else kept | {prefix_of(digest)}
        self._begun = True

    async def wave_started(self, digest: str, wave: int, partitions: Sequence[TopicPartition]) -> None:
        """Keep that the wave's requests may be sent from now on.

        Raises JournalWriterConflict if another process began it.
        """
        self._blank_until = 0.0
        raw = canonical(WaveStart(wave, tuple(map(str, partitions)), self._writer))
        earlier = await self._facts.keep(digest, f"wave-{wave:04}-started", raw)
        if earlier not in (None, raw):
            raise JournalWriterConflict(
                f"wave {wave} of plan {digest[:12]} was begun by another process (are two operators running without "
                "their Lease?), or by a try of this one that was answered late; it is looked at again"
            )
        self._under_way.add((digest, wave))

    async def in_doubt(self, digest: str, wave: int, relay: BrokerId) -> None:
        """Keep through which broker a request went that was not answered."""
        await self._facts.keep(digest, f"wave-{wave:04}-doubt-{relay}", canonical(Doubt(wave, relay)))

    async def wave_ended(self, digest: str, wave: int, outcomes: Sequence[PartitionOutcome]) -> None:
        """Keep what became of the wave. Without outcomes any earlier end will do: it closes what a dead process left.

        Raises JournalWriterConflict if another process ended it. In a namespace that is being deleted nothing is kept:
        whoever goes on takes the wave to be under way still, and only waits longer.
        """
        raw = canonical(WaveEnd(wave, tuple(outcomes)))
        try:
            earlier = await self._facts.keep(digest, f"wave-{wave:04}-ended", raw)
        except JournalClosed:
            return
        finally:
            self._under_way.discard((digest, wave))
        if outcomes and earlier not in (None, raw):
            raise JournalWriterConflict(
                f"wave {wave} of plan {digest[:12]} was ended by another process, which took this run over; "
                "it is looked at again"
            )

    async def stage_entered(self, digest: str, stage: str) -> None:
        """Keep that a stage may have begun."""
        await self._facts.keep(digest, f"stage-{stage}-entered", b"{}")

    async def stage_left(self, digest: str, stage: str) -> None:
        """Keep that all of a stage is done."""
        await self._facts.keep(digest, f"stage-{stage}-left", b"{}")

    async def finished(self, digest: str) -> None:
        """Keep that nothing is left to do or undo; the plan's RecoveryRecords then go with their recovery.

        In a namespace that is being deleted that they go with it says it all.
        """
        try:
            await self._facts.keep(digest, "finished", b"{}")
        except JournalClosed:
            await self._facts.hand_over(digest, held=True)
        self.finished_here.add(digest)
        await self.settle()

    async def unfinished(self) -> Sequence[Run]:
        """Runs that began and did not end, oldest first; none that the status does not name, see `never_shown`."""
        return [await self._run(of_plan) for of_plan in by_plan(await self._named()) if is_unfinished(of_plan)]

    async def versions(self) -> frozenset[tuple[str, str]]:
        """What tells whether any record was written, changed or deleted since, without reading what it says."""
        return await self._facts.versions()

    async def check_whole(self) -> None:
        """Raise InvalidDocument if the plan that was begun last is gone: without it nobody knows what it altered."""
        last = await self._shown.altering()
        if last and await self._facts.find(last, "plan") is None:
            name = self._facts.record(last, "plan")
            raise InvalidDocument(damaged(name, "it is missing, though status.begun names its plan: it was deleted"))

    async def ended(self) -> Mapping[str, Plan]:
        """Plans whose runs came to their end, by digest."""
        notes = by_plan(await self._named())
        begun = [of_plan[0].plan for of_plan in notes if not is_unfinished(of_plan) and any(map(is_begun, of_plan))]
        return dict([await self._plan(await self._fact_of_plan(each), self._digest(each)) for each in begun])

    async def outcomes(self) -> Sequence[PartitionOutcome]:
        """What became of the waves of all of this recovery's plans, oldest first."""
        plans = by_plan(await self._named())
        ends = [fact for of_plan in plans for fact in of_plan if fact.name.endswith("-ended")]
        return [outcome for fact in ends for outcome in (await self._read(WaveEnd, fact)).outcomes]

    async def kept(self, digest: str) -> Plan | None:
        """A recorded plan that may still be carried out; None if there is none of this digest, or its time is over.

        A status that was restored from a backup may name a plan of an earlier recovery: that is none of this one's.
        """
        fact = await self._facts.own(digest, "plan")
        if fact is None or fact.owned or await self._facts.find(digest, "finished"):
            return None
        return (await self._plan(fact, digest))[1]

    async def plan(self, digest: str) -> Plan:
        """A recorded plan, wherever its run stands. Raises InvalidDocument if it is not whole and as it was."""
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise InvalidDocument(f"{digest!r} is not a plan's digest (64 hexadecimal digits)")
        return (await self._plan(await self._fact_of_plan(digest), digest))[1]

    async def plans(self) -> list[Plan]:
        """Every plan of this recovery that its status names, oldest first, whatever became of it."""
        found = await self._facts.plans()
        named = await self._shown.named() if found else None
        digests = {prefix_of(each): each for each in (*named.begun, named.shown) if each} if named else {}
        ours = [fact for fact in found if fact.plan in digests]
        return [(await self._plan(fact, digests[fact.plan]))[1] for fact in ours]

    async def begun_plans(self) -> Mapping[str, Plan]:
        """The plans that the status names as begun, by digest, whatever facts say of them; not those that are gone."""
        named = (await self._shown.named()).begun
        found = {digest: await self._facts.find(digest, "plan") for digest in named}
        return dict([await self._plan(fact, digest) for digest, fact in found.items() if fact])

    async def discard(self, digest: str) -> None:
        """Let a plan that will never begin go with its recovery; until then it can be read."""
        await self._never_begun(digest)
        await self._facts.hand_over(digest)

    async def forget(self, digest: str) -> None:
        """Delete a recorded plan that never began and that another one took the place of: there may be many."""
        await self._never_begun(digest)
        await self._shown.forget(digest)  # who began it may have failed between its name there and its first fact
        await self._facts.remove(digest)

    async def forget_vain(self) -> Sequence[str]:
        """Delete all but the newest of the runs that ended without an election: who is refused tries for days.

        Returns the digests of their plans, which can't be read any more.
        """
        vain = [of_plan[0].plan for of_plan in by_plan(await self._named()) if await self._was_vain(of_plan)]
        for prefix in vain[:-VAIN_KEPT]:
            await self._facts.remove(prefix)
        return [self._digest(prefix) for prefix in vain[:-VAIN_KEPT]]

    async def _was_vain(self, of_plan: Sequence[Fact]) -> bool:
        if all(fact.name != "finished" for fact in of_plan):
            return False
        return was_vain(of_plan, [await self._read(WaveEnd, each) for each in of_plan if each.name.endswith("-ended")])

    async def has_begun(self, digest: str) -> bool:
        """Whether a run of this plan was begun, be it in vain."""
        return await self._facts.find(digest, "begun") is not None

    async def _never_begun(self, digest: str) -> None:
        if await self.has_begun(digest):
            how = f"plan {digest[:12]} has begun, and only labels say that it ended: others wrote them"
            raise InvalidDocument(damaged(self._facts.record(digest, "begun"), how))

    async def settle(self) -> None:
        """Do what is left of ended plans: owner references, then our finalizer away if no run is unfinished.

        Needed after a crash in `finished` or before `begun`; harmless at any time, and due before the recovery is
        marked finished or when it is being deleted.
        """
        try:
            plans = by_plan(await self._named())
        except ApiError as error:
            raise unwritable(f"the journal of PartitionRecovery {self.recovery.name}", error) from error
        for of_plan in plans:
            finished = [fact for fact in of_plan if fact.name == "finished"]
            if any(not fact.owned for fact in finished):
                await self._facts.hand_over(of_plan[0].plan)
            elif not finished and not is_unfinished(of_plan):
                await self._facts.release(of_plan[0].plan)
        if not any(map(is_unfinished, plans)):
            await self._facts.release_plans(self._strangers)
            await self._finalizer.take_off()

    async def let_go(self) -> None:
        """Take our finalizer off though a run may be unfinished; its journal is then an orphan's."""
        await self._finalizer.take_off()

    async def _notes(self) -> list[Fact]:
        if time.monotonic() < self._blank_until:
            return []
        notes = await self._facts.notes()
        self._blank_until = 0.0 if notes else time.monotonic() + BLANK
        self._kept = frozenset(fact.plan for fact in notes)
        return notes

    async def _named(self) -> list[Fact]:
        """Notes about plans that the status names as begun; those about others are told of, and not read."""
        notes = await self._notes()
        plans = {fact.plan for fact in notes}
        if plans - set(map(prefix_of, self._digests)):
            self._digests = {*self._digests, *(await self._shown.named()).begun}
        strangers = plans - set(map(prefix_of, self._digests))
        unnamed = [fact for fact in notes if fact.plan in strangers]
        unfinished = [each for each in by_plan(unnamed) if is_unfinished(each)]
        self.never_shown = never_shown(unfinished)
        self._strangers = frozenset(each[0].plan for each in unfinished)
        ours = [fact for fact in notes if fact.plan not in strangers]
        self._begun = self._begun or any(map(is_begun, ours))
        return ours

    def _digest(self, prefix: str) -> str:
        """The whole digest of a plan that was begun, of which facts name the beginning."""
        return next((each for each in self._digests if prefix_of(each) == prefix), prefix)

    async def _run(self, facts: Sequence[Fact]) -> Run:
        """The run that the facts about one plan tell of."""
        by_name = {fact.name: fact for fact in facts}
        ends = [await self._read(WaveEnd, fact) for fact in facts if fact.name.endswith("-ended")]
        started: dict[int, frozenset[TopicPartition]] = {}
        for each in facts:
            if each.name.endswith("-started"):  # one after the other: they may be large
                start = await self._read(WaveStart, each)
                started[start.wave] = start.ids()
        ended = {end.wave: end.outcomes for end in ends}
        prefix = facts[0].plan
        for wave in ended.keys() - started.keys():
            name = self._facts.record(prefix, f"wave-{wave:04}-started")
            raise InvalidDocument(damaged(name, "it is missing, though the wave's end is there"))
        if "begun" not in by_name:
            raise InvalidDocument(damaged(self._facts.record(prefix, "begun"), "it is missing, though waves began"))
        fact = await self._facts.find(prefix, "plan")
        if fact is None:
            name = self._facts.record(prefix, "plan")
            raise InvalidDocument(damaged(name, "it is missing, and with it the original assignment orders of a run"))
        digest, plan = await self._plan(fact, self._digest(prefix))
        doubts = [await self._read(Doubt, each) for each in facts if "-doubt-" in each.name]
        return Run.of_waves(digest, plan, started, ended, [(d.wave, d.broker) for d in doubts], by_name)

    async def _fact_of_plan(self, digest: str) -> Fact:
        fact = await self._facts.find(digest, "plan")
        if fact is None:
            name = self._facts.record(digest, "plan")
            raise InvalidDocument(
                f"RecoveryRecord {name} is not there: plan {digest[:12]} was never recorded, or deleted"
            )
        return fact

    async def _plan(self, fact: Fact, wanted: str) -> tuple[str, Plan]:
        """The plan and its digest, which begins with `wanted`."""
        digest, raw = await self._raw_plan(fact, wanted)
        return digest, await asyncio.to_thread(read, Plan, raw, fact.record)

    async def _raw_plan(self, fact: Fact, wanted: str) -> tuple[str, bytes]:
        raw = await self._facts.content(fact)
        digest = await asyncio.to_thread(digest_of_canonical, raw)
        if not digest.startswith(wanted):
            raise InvalidDocument(damaged(fact.record, f"it was replaced: it holds plan {digest}, not {wanted}"))
        return digest, raw

    async def _read(self, kind: type[_Note], fact: Fact) -> _Note:
        return read(kind, await self._facts.content(fact), fact.record)


class LeftJournal(RecordJournal):
    """A journal whose recovery has no status to ask: it is gone. Whoever reads it decides what it is worth."""

    async def _named(self) -> list[Fact]:
        return await self._notes()
