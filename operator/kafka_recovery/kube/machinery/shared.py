"""Reading once for all who ask at the same time, and never older than the question of any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

LONG = 1.0
"""Seconds after which the next read begins beside one that is under way: that one may hang."""

Key = TypeVar("Key", bound=Hashable)
Read = TypeVar("Read")


class SharedReads(Generic[Key, Read]):
    """One read of a key serves all who asked before it began; who asks while it is under way gets the one after it.

    So nobody waits for more than two reads; behind one that takes long, not even for that. What a read raises, all who
    asked for it get.
    """

    def __init__(self, read: Callable[[Key], Awaitable[Read]]) -> None:
        self._read = read
        self._begun: dict[Key, asyncio.Task[Read]] = {}
        self._next: dict[Key, asyncio.Task[Read]] = {}

    async def __call__(self, key: Key) -> Read:
        """What is there now."""
        task = self._next.get(key)
        if task is None:
            task = self._next[key] = asyncio.create_task(self._in_turn(key), name=f"reading {key}")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # all who asked may be gone
        return await asyncio.shield(task)

    async def _in_turn(self, key: Key) -> Read:
        if earlier := self._begun.get(key):
            await asyncio.wait([earlier], timeout=LONG)
        self._begun[key] = task = self._next.pop(key)
        try:
            return await self._read(key)
        finally:
            if self._begun.get(key) is task:
                del self._begun[key]
