"""Tests that wait for minutes and take none: asyncio on a clock that jumps to the next thing to do."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from kafka_recovery.simulator.host.loop import VirtualLoop

T = TypeVar("T")


class NothingElse:
    """A world in which only our own coroutines do things."""

    def __init__(self) -> None:
        self.now = 0.0

    def next_time(self) -> float | None:
        return None

    def step(self) -> bool:
        return False

    def run_until(self, time: float) -> None:
        self.now = time


def in_no_time(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns. Whatever it started and did not wait for is cancelled."""
    return VirtualLoop(NothingElse()).finish(main)
