"""Tests that wait for minutes and take none: asyncio on a clock that jumps to the next thing to do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from kafka_recovery.simulator.host.loop import VirtualLoop

T = TypeVar("T")
P = ParamSpec("P")


class NothingElse:
    """A world in which only our own coroutines do things."""

    def __init__(self) -> None:
        self.now = 0.0

    def next_time(self) -> float | None:
        return None

    def step(self, until: float = float("inf")) -> bool:
        return False

    def run_until(self, time: float) -> None:
        self.now = time


class LoopInNoTime(VirtualLoop):
    """No time passes on it but by waiting. What would be done in a thread is done at once."""

    def __init__(self) -> None:
        super().__init__(NothingElse())

    def run_in_executor(  # type: ignore[override] # typeshed's is for any arguments
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        done = self.create_future()
        done.set_result(func(*args))
        return done


async def awaited(so: Callable[[], object], within: float = 100) -> None:
    """Wait (virtual seconds) until that is so. What takes minutes is looked for less often: each look is real work."""
    pause = 0.05
    async with asyncio.timeout(within):
        while not so():
            await asyncio.sleep(pause)
            pause = min(pause * 1.02, 0.5)


def in_no_time(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns. Whatever it started and did not wait for is cancelled."""
    return LoopInNoTime().finish(main)


def taking_no_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """The same test, in no time."""

    @wraps(test)
    def told(*given: P.args, **named: P.kwargs) -> T:
        return in_no_time(test(*given, **named))

    return told
