"""Calls into storages that may hang for ever, apart from everything else and from each other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import timedelta
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from kafka_recovery.recovery.own_threads import OwnThreads

THREADS = 2
"""Into one storage at a time."""
ALL_THREADS = 64
"""Into all of them: so many may hang."""

T = TypeVar("T")


class Apart:
    """Each call has a thread of its own: one that hangs keeps its storage's place, and nobody waits for it at exit."""

    def __init__(self) -> None:
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._all = asyncio.Semaphore(ALL_THREADS)

    async def call(self, url: str, look: Callable[[], T], patience: timedelta) -> T:
        """What `look` finds in the storage of a URL. Raises TimeoutError, also where no thread came free in time."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(patience.total_seconds()):  # not wait_for: before 3.12 it swallows a cancellation
            taken = await self._taken(url)
            try:
                looking = loop.run_in_executor(
                    _THREADS, _and_then, look, partial(loop.call_soon_threadsafe, taken.close)
                )
            except RuntimeError:  # no thread can be started
                taken.close()
                raise
            return await looking

    async def _taken(self, url: str) -> ExitStack:
        """A place in the URL's storage and one among all, until it is closed."""
        place = self._places.setdefault(storage_of(url), asyncio.Semaphore(THREADS))  # gone with the last who holds it
        with ExitStack() as taken:
            for each in (place, self._all):
                await each.acquire()
                taken.callback(each.release)
            return taken.pop_all()


def storage_of(url: str) -> str:
    """The server or, on disk, the mount that a URL most likely leads to: what hangs as one."""
    parts = urlsplit(url)
    on_disk = "" if parts.netloc else "/".join(parts.path.split("/")[:3])
    return f"{parts.scheme}://{parts.netloc}{on_disk}?{parts.query}"


_THREADS = OwnThreads("fleet-results")


def _and_then(look: Callable[[], T], then: Callable[[], object]) -> T:
    try:
        return look()
    finally:
        with suppress(RuntimeError):  # the loop is closed: the process ends
            then()
