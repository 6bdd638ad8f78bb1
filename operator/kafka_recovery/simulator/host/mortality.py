"""An engine's process: it may die between any two of its IO steps, and then nothing of it has any effect any more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from kafka_recovery.simulator.host.loop import VirtualClock


class Killed(BaseException):
    """The process ends here, without another word to anybody; no `except Exception` may stop it."""


class Process:
    """One run of an engine on one machine.

    `kill_at`: the number of the IO step at which it dies; None: it lives until somebody kills it. `tell` hears every
    step, for the timeline.
    """

    def __init__(self, name: str, kill_at: int | None = None, tell: Callable[[str, str], object] | None = None) -> None:
        self.name = name
        self.steps = 0
        self.dead = False
        self.died_at: str | None = None
        self._kill_at = kill_at
        self._tell = tell
        self._when_dead: list[Callable[[], object]] = []

    def step(self, what: str) -> None:
        """One IO step is about to begin, or has just ended. Raises Killed if the process does not live to see it."""
        self.steps += 1
        if self.steps == self._kill_at and not self.dead:
            self.kill(f"at its IO step {self.steps}, {what}")
        if self.dead:
            raise Killed(what)

    def kill(self, how: str) -> None:
        """It dies now, wherever it is; what it has sent is sent."""
        if self.dead:
            return
        self.dead, self.died_at = True, how
        if self._tell:
            self._tell(self.name, f"is killed {how}")
        for action in self._when_dead:
            action()

    def when_dead(self, action: Callable[[], object]) -> None:
        """Do this the moment it dies."""
        self._when_dead.append(action)


class MortalClock:
    """Port `Clock` of one process: its machine's clock, whose sleeps are IO steps."""

    def __init__(self, process: Process, clock: VirtualClock) -> None:
        self._process = process
        self._clock = clock

    def now(self) -> datetime:
        """UTC instant by the machine's wall clock."""
        return self._clock.now()

    def monotonic(self) -> timedelta:
        """Time since some fixed point."""
        return self._clock.monotonic()

    async def sleep(self, duration: timedelta) -> None:
        """Wait; the process may die before, meanwhile and after."""
        self._process.step("sleep")
        await self._clock.sleep(duration)
        self._process.step("woke up")
