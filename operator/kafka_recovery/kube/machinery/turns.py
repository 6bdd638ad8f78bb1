"""How many calls are under way at once. Who waits for a turn waits for us, and must not blame the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """At most `at_once` at a time, first come, first served. Belongs to one event loop."""

    def __init__(self, at_once: int) -> None:
        self._free = asyncio.Semaphore(at_once)
        self._answered_at = time.monotonic()

    def answered(self) -> None:
        """The server said something, to whomever: those who wait see that it goes on."""
        self._answered_at = time.monotonic()

    @asynccontextmanager
    async def one(self, patience: float) -> AsyncIterator[float]:
        """A turn for the length of an `async with` block; yields the seconds for which it was waited.

        Raises TimeoutError once nobody was answered for `patience` seconds: then it is the server that all wait for.
        """
        began = time.monotonic()
        await self._wait(began, patience)
        try:
            yield time.monotonic() - began
        finally:
            self._free.release()

    async def _wait(self, began: float, patience: float) -> None:
        if not self._free.locked():
            await self._free.acquire()
            return
        turn = asyncio.create_task(self._free.acquire(), name="turn")  # it keeps its place while we look at the clock
        mine = False
        try:
            while not turn.done():
                left = max(began, self._answered_at) + patience - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"all connections are in use, and nobody was answered for {patience:.1f} s")
                await asyncio.wait([turn], timeout=left)
            mine = True
        finally:
            if not mine and not turn.cancel():
                self._free.release()  # it came in the very moment in which we were cancelled
