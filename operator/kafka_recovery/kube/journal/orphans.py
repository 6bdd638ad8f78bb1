"""Journals whose PartitionRecovery is gone: what is to be restored all the same, and what only lies about.

A recovery that was deleted in an emergency, its finalizer removed by hand, leaves its RecoveryRecords behind: nobody
owns them. `orphaned` finds those with an unfinished run, for `Engine.undo`; `prune` removes what has nothing left to
undo once it is old enough that nobody asks what happened: finished orphans, and plans that never began.

A RecoveryRecord that is damaged, or only looks like ours, is in nobody's way but its own recovery's: see `altered`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.facts import (
    FACT_LABEL,
    NAME,
    OWNED_LABEL,
    PART,
    PLAN,
    Fact,
    Facts,
    RecordsApi,
    RecoveryRef,
)
from kafka_recovery.kube.journal.notes import WaveStart, by_plan, is_unfinished
from kafka_recovery.kube.journal.record_journal import LeftJournal
from kafka_recovery.kube.machinery.api import NotFound, Object
from kafka_recovery.kube.resources.kinds import RECORDS, RECOVERIES
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, PLAN_LABEL, RECOVERY_UID_LABEL, label_value
from kafka_recovery.recovery.ports import JournalUnwritable, Run


@dataclass(slots=True)
class _Found:
    """What lies about of one recovery: facts, oldest first, and what is wrong with a RecoveryRecord that is none.

    `of_damaged`: the plans that such RecoveryRecords name, as facts name them; None: one of them names none.
    """

    facts: list[Fact] = field(default_factory=list)
    damage: InvalidDocument | None = None
    of_damaged: set[str | None] = field(default_factory=set)

    @property
    def unfinished(self) -> set[str | None]:
        """Plans whose run has not ended, as far as can be read."""
        return self.of_damaged | {each[0].plan for each in by_plan(self.facts) if is_unfinished(each)}


class OrphanedJournal(LeftJournal):
    """Port `Journal` for undoing only. Once finished its RecoveryRecords stay, as a record, until they are pruned."""

    def __init__(self, api: RecordsApi, namespace: str, recovery: RecoveryRef, cluster_id: str, found: _Found) -> None:
        super().__init__(api, namespace, recovery.name, recovery.uid, cluster_id)
        self._found = found

    async def unfinished(self) -> Sequence[Run]:
        """See the port. Raises InvalidDocument also for what only looks like a RecoveryRecord of this journal."""
        if self._found.damage:
            raise self._found.damage
        return await super().unfinished()

    async def oldest(self) -> datetime | None:
        """When the first of its RecoveryRecords was made; None: there is none any more."""
        return await self._facts.oldest()

    async def altered(self) -> frozenset[TopicPartition]:
        """The partitions whose order may be altered: of a damaged journal all that are named in what is left of it.

        Raises InvalidDocument if nothing names them: they may be any.
        """
        try:
            return frozenset(id for run in await self.unfinished() for id in run.begun)
        except InvalidDocument as damage:
            named: set[TopicPartition] = set()
            for plan in self._found.unfinished:
                if plan is None or not self.recovery.name or not self.recovery.uid:
                    raise
                named.update(await self._elected_by(plan) or await self._begun_by(plan, damage))
            return frozenset(named)

    async def _elected_by(self, plan: str) -> Collection[TopicPartition]:
        """Whatever a plan would have altered; none if it can't be read."""
        try:
            return (await self._plan(await self._fact_of_plan(plan), plan))[1].elections.keys()
        except InvalidDocument:
            return ()

    async def _begun_by(self, plan: str, damage: InvalidDocument) -> Collection[TopicPartition]:
        """What the waves of a plan altered. Raises InvalidDocument where one that ended is not there, or none is."""
        facts = {fact.name: fact for fact in await self._notes() if fact.plan == plan}
        starts = {name for name in facts if name.endswith("-started")}
        ended = {name.replace("-ended", "-started") for name in facts if name.endswith("-ended")}
        if not starts or ended - starts:
            raise damage
        waves = [await self._read(WaveStart, facts[name]) for name in starts]
        return {id for wave in waves for id in wave.ids()}

    async def record(self, plan: Plan) -> str:
        """Never: there is no recovery to make a plan for."""
        raise JournalUnwritable(f"PartitionRecovery {self.recovery.name} is gone: its runs can only be undone")

    async def approved(self, digest: str, by: str | None) -> None:
        """Never."""
        raise JournalUnwritable(f"PartitionRecovery {self.recovery.name} is gone: its runs can only be undone")

    async def settle(self) -> None:
        """Hold nothing of ended plans back from deletion; there is no owner to hand them over to."""
        for of_plan in by_plan(await self._notes()):
            if not is_unfinished(of_plan):
                await self._facts.release(of_plan[0].plan)


async def orphaned(
    api: RecordsApi, namespace: str, cluster_id: str, living_uids: Collection[str]
) -> list[OrphanedJournal]:
    """Journals of this cluster with an unfinished run, or a damaged one, and without their recovery; oldest first.

    `living_uids` spares questions only: who is not among them is looked up again, for it may be younger than they are.
    Any note that nobody owns will do: that it began may be labelled as owned, which says nothing (see `is_unfinished`).
    """
    found = await _unowned(api, namespace, cluster_id, f",{FACT_LABEL} notin (plan,{PART})")
    return [
        OrphanedJournal(api, namespace, recovery, cluster_id, each)
        for recovery, each in found.items()
        if each.unfinished
        if recovery.uid not in living_uids and await _is_gone(api, namespace, recovery)
    ]


async def prune(
    api: RecordsApi, namespace: str, cluster_id: str, living_uids: Collection[str], before: datetime
) -> int:
    """Delete unowned RecoveryRecords of this cluster whose recovery is gone; returns how many.

    Of a plan all or nothing: none if its run is unfinished or any of them was written after `before` (API server's
    clock). What is damaged stays: a person looks at it. Raises JournalUnwritable.
    """
    deleted = 0
    for recovery, found in (await _unowned(api, namespace, cluster_id)).items():
        facts = [] if found.damage else found.facts
        old = [each for each in by_plan(facts) if _youngest(each) < before]
        if old and recovery.uid not in living_uids and await _is_gone(api, namespace, recovery):
            kept = Facts(api, namespace, recovery, cluster_id)
            whole = by_plan([*facts, *(note for note in await kept.notes() if note.owned)])
            open_ = {each[0].plan for each in whole if is_unfinished(each)}
            for of_plan in (each for each in old if each[0].plan not in open_):
                await kept.remove(of_plan[0].plan)
                deleted += len(of_plan)
    return deleted


async def _unowned(api: RecordsApi, namespace: str, cluster_id: str, selector: str = "") -> dict[RecoveryRef, _Found]:
    """What lies about, by its recovery, oldest first."""
    params = {"labelSelector": f"{CLUSTER_LABEL}={label_value(cluster_id)},{FACT_LABEL},!{OWNED_LABEL}{selector}"}
    facts: list[Fact] = []
    recoveries: dict[RecoveryRef, _Found] = {}
    for head in await api.list_all(RECORDS.path(namespace), params=params):
        try:
            facts.append(Fact.of(head))
        except InvalidDocument as damage:
            found = recoveries.setdefault(_named_by(head), _Found())
            found.damage = damage
            plan = head["metadata"]["labels"].get(PLAN_LABEL, "")
            found.of_damaged.add(plan if PLAN.fullmatch(plan) else None)
    for fact in sorted(facts, key=lambda fact: fact.written):
        recoveries.setdefault(fact.recovery, _Found()).facts.append(fact)
    return recoveries


def _named_by(head: Object) -> RecoveryRef:
    """Whose RecoveryRecord this says it is, though it is damaged; empty where it says nothing that can be a name."""
    name = ((head.get("spec") or {}).get("recovery") or {}).get("name", "")
    uid = head["metadata"]["labels"].get(RECOVERY_UID_LABEL, "")
    return RecoveryRef(name if NAME.fullmatch(name) else "", uid)


async def _is_gone(api: RecordsApi, namespace: str, recovery: RecoveryRef) -> bool:
    if not recovery.name:
        return True
    try:
        seen = await api.get(RECOVERIES.path(namespace, recovery.name))
    except NotFound:
        return True
    return bool(seen["metadata"]["uid"] != recovery.uid)


def _youngest(facts: Collection[Fact]) -> datetime:
    return datetime.fromisoformat(max(fact.written for fact in facts)[0])
