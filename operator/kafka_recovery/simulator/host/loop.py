"""Asyncio on virtual time: where a real loop would wait for the network, this one lets the model go on.

The engine's own code runs on it unchanged: sleeping, deadlines, gathering, tasks. Nothing here reads a real clock,
opens a socket or starts a thread, so the same model and the same coroutines give the same history.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from kafka_recovery.simulator.model.scheduler import FIRST_INSTANT

T = TypeVar("T")


_RESOLUTION = 1e-9
"""Seconds that count as the same moment. An event loop takes it from the host's clock, which must not matter here."""


class Happenings(Protocol):
    """What is going to happen, in order of virtual time (seconds)."""

    now: float

    def step(self, until: float = math.inf) -> bool:
        """Go to the next thing and let it happen; False if there is none up to that moment."""
        ...

    def run_until(self, time: float) -> None:
        """Go to this moment, and let happen what happens until then."""
        ...


class Standstill(Exception):
    """Everybody waits for somebody, and nothing will ever happen: a lost wake-up."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose time is the model's. Close it when done."""

    _ready: deque[asyncio.Handle]
    _clock_resolution: float

    def __init__(self, model: Happenings) -> None:
        super().__init__()
        self._model = model
        self._clock_resolution = _RESOLUTION
        self._selector = self  # where BaseEventLoop would ask the kernel, it asks this

    def time(self) -> float:
        """Virtual seconds."""
        return self._model.now

    def select(self, timeout: float | None) -> list[Any]:
        """Let things happen until one of them wakes somebody up, at most for so many seconds. Raises Standstill."""
        model, ready = self._model, self._ready
        step = model.step
        until = math.inf if timeout is None else model.now + timeout
        while not ready:
            if step(until):
                continue
            if timeout is None:
                raise Standstill("nobody has anything left to do, and something is still waited for")
            model.run_until(until)
            break
        return []

    def finish(self, main: Coroutine[Any, Any, T]) -> T:
        """Run to the end of `main`; whatever it started and did not wait for is cancelled."""
        try:
            return self.run_until_complete(main)
        finally:
            left = sorted(asyncio.all_tasks(self), key=_as_they_began)
            for task in left:
                task.cancel()
            if left:
                self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self.close()

    def _process_events(self, event_list: list[Any]) -> None:
        """Nothing is ever read from the kernel."""

    def _write_to_self(self) -> None:
        """There is no other thread to wake this one up."""


def _as_they_began(task: asyncio.Task[Any]) -> tuple[int, str]:
    """Unnamed tasks are numbered."""
    return len(task.get_name()), task.get_name()


class VirtualClock:
    """Port `Clock`. The wall clock may jump at any moment; the monotonic one can't."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.jumped = timedelta(0)

    def now(self) -> datetime:
        """UTC instant, as far as this wall clock is to be believed."""
        return FIRST_INSTANT + self.jumped + self.monotonic()

    def monotonic(self) -> timedelta:
        """Virtual time since the beginning."""
        return timedelta(seconds=self._loop.time())

    async def sleep(self, duration: timedelta) -> None:
        """Wait."""
        await asyncio.sleep(max(duration.total_seconds(), 0))
