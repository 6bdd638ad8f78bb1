"""People who say something about a plan while its waves go on: they are heard, however many they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kafka_recovery.kube.recoveries.pauses import BREATH


class Hearing:
    """Of one recovery. What several say at a time is listed by one after the other."""

    def __init__(self) -> None:
        self._unheard = False
        self._listening: asyncio.Task[None] | None = None

    def somebody_spoke(self, hear: Callable[[], Awaitable[object]], *, at_once: bool) -> None:
        """`hear` lists what was said. Not `at_once`: it is heard together with what comes later."""
        self._unheard = True
        if at_once and (self._listening is None or self._listening.done()):
            self._listening = asyncio.create_task(self._hear(hear), name="hearing what was said")

    def stop(self) -> None:
        """Nobody is heard any more."""
        if self._listening:
            self._listening.cancel()

    async def _hear(self, hear: Callable[[], Awaitable[object]]) -> None:
        while self._unheard:
            self._unheard = False
            await hear()
            await asyncio.sleep(BREATH.total_seconds())
