"""Virtual time: a heap of events, run one after the other; equal times in the order they were asked for."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

FIRST_INSTANT = datetime(2026, 11, 21, tzinfo=UTC)
"""What wall clocks show at virtual second 0, as long as they do not jump."""


class Timer:
    """An event to come; `cancel` makes it not happen."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], Any]) -> None:
        self.action: Callable[[], Any] | None = action

    def cancel(self) -> None:
        """Twice, or too late, is harmless."""
        self.action = None


class Scheduler:
    """Virtual seconds since the history began. Nothing in the model takes time but what is scheduled."""

    __slots__ = ("_heap", "_sequence", "events_run", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.events_run = 0
        self._heap: list[tuple[float, int, Timer]] = []
        self._sequence = 0

    def at(self, time: float, action: Callable[[], Any]) -> Timer:
        """Run `action` at `time`, or now if that has passed."""
        timer = Timer(action)
        self._sequence += 1
        heapq.heappush(self._heap, (time if time > self.now else self.now, self._sequence, timer))
        return timer

    def after(self, delay: float, action: Callable[[], Any]) -> Timer:
        """Run `action` in `delay` seconds."""
        timer = Timer(action)
        self._sequence += 1
        heapq.heappush(self._heap, (self.now + delay if delay > 0 else self.now, self._sequence, timer))
        return timer

    def next_time(self) -> float | None:
        """When the next event is due; None: nothing will ever happen again."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def step(self, until: float = math.inf) -> bool:
        """Run the next event and advance to its time; False if there is none before or at `until`."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            time, _, timer = heapq.heappop(heap)
            action = timer.action
            if action is not None:
                self.now = time
                self.events_run += 1
                action()
                return True
        return False

    def run_until(self, time: float) -> None:
        """Run everything that is due up to `time`, which then is now."""
        heap, pop = self._heap, heapq.heappop
        while heap and heap[0][0] <= time:
            due, _, timer = pop(heap)
            action = timer.action
            if action is not None:
                self.now = due
                self.events_run += 1
                action()
        self.now = max(self.now, time)
