"""Wave after wave: while the new leaders of one come up, the next is prepared and the one before is ended.

A broker takes up to some milliseconds for each partition that it is to lead, one after the other. Whatever else a wave
needs is done meanwhile, so that the brokers hardly ever wait for us. No election is held before the wave before it
verified; a wave that was prepared in vain gets its orders back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import count

from kafka_recovery.domain.election import Answer, Lead
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.recovery.consent import Consent
from kafka_recovery.recovery.ledger import Ledger
from kafka_recovery.recovery.supervision import Mandate, beyond_limit, outruled
from kafka_recovery.recovery.verification import Settled
from kafka_recovery.recovery.wave import Prepared, Wave, WaveResult

AHEAD = timedelta(seconds=1)
"""How long before a wave's last leader is expected the next wave is prepared: looked at, and its orders set."""

SMALL = 100
"""Of so few the last is expected at any moment, however long the others took."""


class Pipeline:
    """One plan's waves; outcomes go to the ledger.

    `mandate` says what is allowed, `consent` who approved it: both are read before a wave's orders are set, and again
    before its elections are held.
    """

    def __init__(
        self,
        wave: Wave,
        ledger: Ledger,
        numbers: Iterator[int],
        mandate: Callable[[], Awaitable[Mandate]],
        consent: Consent,
    ) -> None:
        self._wave = wave
        self._ledger = ledger
        self._numbers = numbers
        self._mandate = mandate
        self._consent = consent
        self._planned = wave.plan.elections.keys()
        self._rest: deque[Sequence[Decision]] = deque()
        self._begun = 0
        self._again: dict[TopicPartition, Reason] = {}
        self._ahead: asyncio.Task[Prepared | Reason] | None = None
        self._ending: asyncio.Task[WaveResult] | None = None

    async def run(self, waves: Sequence[Sequence[Decision]]) -> dict[TopicPartition, Reason]:
        """Elect wave after wave; returns the partitions that the cluster changed meanwhile."""
        self._rest = deque(waves)
        places = count(1)
        try:
            while self._rest:
                prepared = await self._prepared()
                place, members = next(places), self._rest.popleft()
                if isinstance(prepared, Reason):
                    self._refuse(members, prepared)
                    continue
                now = await self._mandate()
                halted = self._halted(members, now)
                if halted:
                    await self._call_off(prepared, halted)
                    self._refuse(members, halted)
                    continue
                barred = await self._barred(tuple(prepared.go.values()), now)
                if _elects(prepared, barred):  # what is barred to the last partition is no election, and starts nothing
                    self._wave.observer.wave_started(place, place + len(self._rest), len(members))
                await self._run_one(prepared, now, barred)
        except ClusterFault:
            if self._ahead:  # what it has designated by then is begun, and must not be reported as untouched
                await asyncio.wait([self._ahead])
            raise
        finally:
            if self._ahead:  # only if an error ends the run: the journal knows of it, and a resume restores its orders
                self._ahead.cancel()
                await asyncio.gather(self._ahead, return_exceptions=True)
            await self._ended()
        return self._again

    async def _prepared(self) -> Prepared | Reason:
        """The next wave, ready for election, or why it may not be begun; what halted it ahead of its time may be over.

        It is the first of the rest until then.
        """
        ahead, self._ahead = self._ahead, None
        prepared = await ahead if ahead else None
        return prepared if isinstance(prepared, Prepared) else await self._prepare()

    async def _prepare(self) -> Prepared | Reason:
        now = await self._mandate()
        halted = self._halted(self._rest[0], now)
        if halted:
            return halted
        self._cut(now.policy.limits.wave_sizes)
        self._begun += 1
        members = self._rest[0]
        barred = await self._barred(members, now)
        for id, reason in barred.items():
            self._ledger.refuse(id, reason)
        allowed = [decision for decision in members if decision.id not in barred]
        prepared = await self._wave.prepare(allowed, self._numbers, now.policy)
        self._ledger.begun |= prepared.go.keys()
        return prepared

    def _cut(self, sizes: Sequence[int]) -> None:
        """Split the waves that are left where their owners want other sizes by now than when they were planned."""
        if tuple(sizes) == self._wave.plan.policy.limits.wave_sizes:
            return
        cut: deque[Sequence[Decision]] = deque()
        for members in self._rest:
            begin = 0
            while begin < len(members):
                size = sizes[min(self._begun + len(cut), len(sizes) - 1)]
                cut.append(members[begin : begin + size])
                begin += size
        self._rest = cut

    async def _run_one(self, prepared: Prepared, now: Mandate, barred: Mapping[TopicPartition, Reason]) -> None:
        self._again |= prepared.changed
        if not prepared.go:
            return
        asked = await self._wave.elect(prepared, now.policy, barred)
        for id, answer in asked.answers.items():
            if answer.answer in (Answer.ACCEPTED, Answer.UNANSWERED):
                self._ledger.elected(prepared.go[id], self._wave.evidence[id])

        def progress(leading: int, took: timedelta) -> None:
            coming = len(prepared.go) - leading
            soon = leading and (coming <= SMALL or coming * took <= leading * AHEAD)
            if self._rest and soon and self._ahead is None:
                self._ahead = asyncio.create_task(self._prepare())

        settled = await self._wave.verify(prepared.go, asked, progress)
        await self._ended()
        self._ending = asyncio.create_task(self._wave.end(prepared.number, prepared.go, settled))
        if not _sound(prepared.go, settled):
            await self._ended()

    async def _call_off(self, prepared: Prepared, why: Reason) -> None:
        """End a wave that was prepared and must not be elected: its orders are restored, or said to be not."""
        if not prepared.go:
            return
        await self._ended()
        if any(answer.answer is Answer.UNANSWERED for answer in prepared.answers.values()):
            await self._wave.quarantine(self._wave.timing.quarantine)
        result = await self._wave.end(prepared.number, prepared.go, dict.fromkeys(prepared.go, why))
        for outcome in result.outcomes:
            self._ledger.conclude(outcome)

    def _refuse(self, members: Sequence[Decision], why: Reason) -> None:
        for decision in members:
            if decision.id not in self._ledger:
                self._ledger.refuse(decision.id, why)

    async def _ended(self) -> None:
        """Wait until the wave before has its orders restored and its outcomes written down."""
        if self._ending is None:
            return
        ending, self._ending = self._ending, None
        result = await ending
        self._again |= result.changed
        for outcome in result.outcomes:
            self._ledger.conclude(outcome)

    def _halted(self, members: Sequence[Decision], now: Mandate) -> Reason | None:
        """Why these must not be elected: told to stop, out of time, or an earlier wave that did not verify."""
        ids = {decision.id for decision in members if decision.id not in self._ledger}
        self._ledger.postponed -= ids  # a halt that was met when they were to be prepared may be over
        if now.halted:
            self._ledger.postponed |= ids
            return now.halted
        failed = self._ledger.first_failed()
        return Reason("EarlierWaveFailed", f"{failed.id} did not verify ({failed.reason})") if failed else None

    async def _barred(self, members: Sequence[Decision], now: Mandate) -> dict[TopicPartition, Reason]:
        """Those that may not be elected though they were planned, and what changed; an approval may still come."""
        outlawed = {d.id: reason for d in members if (reason := outruled(d, now.policy))}
        left = [decision for decision in members if decision.id not in outlawed]
        denied = await self._consent.denied(self._wave.plan, self._wave.digest, left, now)
        self._ledger.postponed |= denied.keys()
        left = [decision for decision in left if decision.id not in denied]
        begun = self._ledger.begun & self._planned - {decision.id for decision in members}
        return outlawed | denied | beyond_limit(left, len(begun), now.policy)


def _elects(prepared: Prepared, barred: Mapping[TopicPartition, Reason]) -> bool:
    """Whether an election of this wave may be held."""
    return any(answer.answer is Answer.ACCEPTED and id not in barred for id, answer in prepared.answers.items())


def _sound(go: Mapping[TopicPartition, Decision], settled: Mapping[TopicPartition, Settled]) -> bool:
    """Whether every designated leader answered with all of its log, so that nothing can stop the next wave."""
    return all(
        isinstance(end, Lead) and end.leader == go[id].leader and end.log_end >= (go[id].log_end or 0)
        for id, end in settled.items()
    )
