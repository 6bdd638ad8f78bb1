"""How long a recovery waits between two tries: until it is told of a change, or for so long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

SHORTEST_PAUSE = timedelta(seconds=2)
LONGEST_PAUSE = timedelta(minutes=5)
"""Between two tries while nobody tells of a change, doubling."""

LONGEST_HOLD = timedelta(seconds=15)
"""The same while nothing may be done for a cause of which nobody tells when it is over."""

BREATH = timedelta(milliseconds=500)
"""Between two tries however much changes: each of them asks every replica."""

LOOK = timedelta(seconds=5)
"""How often what is known without asking the API server is judged again."""

SHORTEST_BACKSTOP = timedelta(minutes=10)
LONGEST_BACKSTOP = timedelta(minutes=15)
"""How long what was read of a waiting recovery is taken to hold while no watch tells of a change: one may be missed."""


GONE_WITHIN = timedelta(minutes=4)
"""Until it is seen that one is gone that was deleted while no watch was open: the list after that does not tell.

In a namespace of thousands it takes longer, by READ_A_SECOND.
"""

READ_A_SECOND = 5
"""For how many recoveries of one namespace it is asked a second at most whether they are still there."""


def backstop() -> timedelta:
    """A pause between the two, drawn: recoveries that began together do not all ask together."""
    return _drawn(SHORTEST_BACKSTOP, LONGEST_BACKSTOP)


def presence_pause(beside: int = 1) -> timedelta:
    """A pause until it is read whether a recovery is still there, drawn as well.

    `beside`: how many are asked for in its namespace. Thousands of them must not keep the API server from the others.
    """
    shortest = max(GONE_WITHIN / 2, timedelta(seconds=beside / READ_A_SECOND))
    return _drawn(shortest, 2 * shortest)


def _drawn(shortest: timedelta, longest: timedelta) -> timedelta:
    return timedelta(seconds=random.uniform(shortest.total_seconds(), longest.total_seconds()))


class Pauses:
    """Of one recovery. What wakes it while it tries counts afterwards."""

    def __init__(self) -> None:
        self._next = SHORTEST_PAUSE
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Something changed: try again now."""
        self._next = SHORTEST_PAUSE
        self._woken.set()

    def over(self) -> None:
        """A try begins, which sees whatever changed until now."""
        self._woken.clear()

    async def longer(self, longest: timedelta) -> None:
        """Twice as long as the last one, until it is woken."""
        pause, self._next = min(self._next, longest), min(self._next * 2, LONGEST_PAUSE)
        await self._woken_within(pause - BREATH)

    async def until(self, may_go_on: Callable[[], bool]) -> None:
        """Until it is woken, or may go on by what is known without asking anybody; at the latest to the backstop."""
        loop = asyncio.get_running_loop()
        last = loop.time() + backstop().total_seconds()
        while loop.time() < last and not await self._woken_within(LOOK) and not may_go_on():
            pass

    async def seldom(self, changed: Callable[[], Awaitable[bool]]) -> None:
        """Until it is woken, or what a person has to mend has changed, for which it is seldom looked.

        Some tries come first, each after twice as long: what is read while something goes away may be whole soon. No
        pause is longer than the backstop.
        """
        if self._next < GONE_WITHIN / 2:
            await self.longer(LONGEST_PAUSE)
            return
        loop = asyncio.get_running_loop()
        last = loop.time() + backstop().total_seconds()
        while loop.time() < last and not await self._woken_within(presence_pause()) and not await changed():
            pass

    async def _woken_within(self, pause: timedelta) -> bool:
        with suppress(TimeoutError):
            # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with the event.
            async with asyncio.timeout(pause.total_seconds()):
                await self._woken.wait()
        return self._woken.is_set()
