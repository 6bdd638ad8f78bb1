"""Wave after wave: while the new leaders of one come up, the next is looked at and the one before is ended.

A broker takes milliseconds for each partition that it is to lead, one after the other. Whatever else a wave needs is
done meanwhile, so that the brokers hardly ever wait for us. No election is held before the wave before it verified.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta

from kafka_recovery.domain.election import Lead
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ledger import Ledger
from kafka_recovery.recovery.verification import Settled
from kafka_recovery.recovery.wave import Wave, WaveResult

FRESH = timedelta(seconds=1)
"""A re-check that began longer ago than this is done again before its wave is elected."""


class Pipeline:
    """One plan's waves; outcomes go to the ledger. `halt` says whether, and why, no further wave may begin."""

    def __init__(self, wave: Wave, ledger: Ledger, numbers: Iterator[int], halt: Callable[[], Reason | None]) -> None:
        self._wave = wave
        self._ledger = ledger
        self._numbers = numbers
        self._halt = halt
        self._again: dict[TopicPartition, Reason] = {}
        self._ahead: tuple[timedelta, asyncio.Task[dict[TopicPartition, Reason]]] | None = None
        self._ending: asyncio.Task[WaveResult] | None = None

    async def run(self, waves: Sequence[Sequence[Decision]]) -> dict[TopicPartition, Reason]:
        """Elect wave after wave; returns the partitions that the cluster changed meanwhile."""
        try:
            for place, members in enumerate(waves, 1):
                halted = self._halted(members)
                if halted:
                    for decision in members:
                        self._ledger.refuse(decision.id, halted)
                    continue
                self._wave.observer.wave_started(place, len(waves), len(members))
                await self._run_one(members, waves[place] if place < len(waves) else ())
        finally:
            if self._ahead:
                self._ahead[1].cancel()
            await self._ended()
        return self._again

    async def _run_one(self, members: Sequence[Decision], following: Sequence[Decision]) -> None:
        changed = await self._recheck(members)
        self._again |= changed
        go = {decision.id: decision for decision in members if decision.id not in changed}
        if not go:
            return
        number = next(self._numbers)
        asked = await self._wave.elect(number, go)
        if following:
            self._ahead = self._wave.clock.monotonic(), asyncio.create_task(self._wave.recheck(following))
        settled = await self._wave.verify(go, asked)
        await self._ended()
        self._ending = asyncio.create_task(self._wave.end(number, go, settled))
        if not _sound(go, settled):
            await self._ended()

    async def _recheck(self, members: Sequence[Decision]) -> dict[TopicPartition, Reason]:
        """What changed since the plan, from the look ahead if that is fresh."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            began, task = ahead
            changed = await task
            if self._wave.clock.monotonic() - began <= FRESH:
                return changed
        return await self._wave.recheck(members)

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
        failed = self._ledger.first_failed(id for earlier in self._wave.plan.waves for id in earlier)
        return Reason("EarlierWaveFailed", f"{failed.id} did not verify ({failed.reason})") if failed else None


def _sound(go: Mapping[TopicPartition, Decision], settled: Mapping[TopicPartition, Settled]) -> bool:
    """Whether every designated leader answered with all of its log, so that nothing can stop the next wave."""
    return all(
        isinstance(end, Lead) and end.leader == go[id].leader and end.log_end >= (go[id].log_end or 0)
        for id, end in settled.items()
    )
