"""Wave after wave: while the new leaders of one come up, the next is prepared and the one before is ended.

A broker takes up to some milliseconds for each partition that it is to lead, one after the other. Whatever else a wave
needs is done meanwhile, so that the brokers hardly ever wait for us. No election is held before the wave before it
verified; a wave that was prepared in vain gets its orders back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta

from kafka_recovery.domain.election import Answer, Lead
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ledger import Ledger
from kafka_recovery.recovery.verification import Settled
from kafka_recovery.recovery.wave import Prepared, Wave, WaveResult

AHEAD = timedelta(seconds=1)
"""How long before a wave's last leader is expected the next wave is prepared: looked at, and its orders set."""

SMALL = 100
"""Of so few the last is expected at any moment, however long the others took."""


class Pipeline:
    """One plan's waves; outcomes go to the ledger. `halt` says whether, and why, no further wave may begin."""

    def __init__(self, wave: Wave, ledger: Ledger, numbers: Iterator[int], halt: Callable[[], Reason | None]) -> None:
        self._wave = wave
        self._ledger = ledger
        self._numbers = numbers
        self._halt = halt
        self._again: dict[TopicPartition, Reason] = {}
        self._ahead: asyncio.Task[Prepared] | None = None
        self._ending: asyncio.Task[WaveResult] | None = None

    async def run(self, waves: Sequence[Sequence[Decision]]) -> dict[TopicPartition, Reason]:
        """Elect wave after wave; returns the partitions that the cluster changed meanwhile."""
        try:
            for place, members in enumerate(waves, 1):
                halted = self._halted(members)
                if halted and self._ahead is None:
                    self._refuse(members, halted)
                    continue
                prepared = await self._prepared(members)
                halted = self._halted(members)
                if halted:
                    await self._call_off(prepared, halted)
                    self._refuse(members, halted)
                    continue
                self._wave.observer.wave_started(place, len(waves), len(members))
                await self._run_one(prepared, waves[place] if place < len(waves) else ())
        finally:
            if self._ahead:  # only if an error ends the run: the journal knows of it, and a resume restores its orders
                self._ahead.cancel()
                await asyncio.gather(self._ahead, return_exceptions=True)
            await self._ended()
        return self._again

    async def _prepared(self, members: Sequence[Decision]) -> Prepared:
        ahead, self._ahead = self._ahead, None
        return await (ahead or self._prepare(members))

    async def _prepare(self, members: Sequence[Decision]) -> Prepared:
        prepared = await self._wave.prepare(members, self._numbers)
        self._ledger.begun |= prepared.go.keys()
        return prepared

    async def _run_one(self, prepared: Prepared, following: Sequence[Decision]) -> None:
        self._again |= prepared.changed
        if not prepared.go:
            return
        asked = await self._wave.elect(prepared)
        for id, answer in asked.answers.items():
            if answer.answer in (Answer.ACCEPTED, Answer.UNANSWERED):
                self._ledger.elected(prepared.go[id], self._wave.evidence[id])

        def progress(leading: int, took: timedelta) -> None:
            coming = len(prepared.go) - leading
            soon = leading and (coming <= SMALL or coming * took <= leading * AHEAD)
            if following and soon and self._ahead is None:
                self._ahead = asyncio.create_task(self._prepare(following))

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

    def _halted(self, members: Sequence[Decision]) -> Reason | None:
        """Why these must not be elected: told to stop, out of time, or an earlier wave that did not verify."""
        stopped = self._halt()
        if stopped:
            self._ledger.postponed.update(decision.id for decision in members)
            return stopped
        failed = self._ledger.first_failed()
        return Reason("EarlierWaveFailed", f"{failed.id} did not verify ({failed.reason})") if failed else None


def _sound(go: Mapping[TopicPartition, Decision], settled: Mapping[TopicPartition, Settled]) -> bool:
    """Whether every designated leader answered with all of its log, so that nothing can stop the next wave."""
    return all(
        isinstance(end, Lead) and end.leader == go[id].leader and end.log_end >= (go[id].log_end or 0)
        for id, end in settled.items()
    )
