"""Threads of a cluster's own, for what would stop the event loop: name lookups, stores on a disk, rounds of hashing.

The process's default threads are few (6 on two cores) and everybody's: a name server that is silent about one cluster's
brokers would keep them all, and every other cluster's lookups and journal would wait behind.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import Any, TypeVar
from weakref import WeakValueDictionary

LOOKUPS = 8
"""Lookups at a time. None can be called off: each keeps its thread until the resolver gives up, perhaps minutes."""

LOOKUPS_OF_A_NAME = 2
"""One that hangs must not keep all places. Not 1: if a packet is lost, the next lookup is done before the first."""

CALLS = 4
"""What else is done at a time. Not in the places of lookups: sessions are renewed, whatever the name server does."""

Endpoint = tuple[socket.AddressFamily, Any]
"""What a TCP socket is made of, and where it is to connect."""

T = TypeVar("T")


class Threads:
    """Each call has a thread of its own, once there is a place. Who is cancelled while waiting for one leaves nothing.

    A place is free again when its thread ends, not when nobody waits any more: so many of these may hang, not more.
    Nobody waits for them at the end of the process, as one would for the threads of the loop or a ThreadPoolExecutor.
    """

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._lookups = asyncio.Semaphore(LOOKUPS)
        self._names: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._calls = asyncio.Semaphore(CALLS)

    async def lookup(self, host: str, port: int) -> Sequence[Endpoint]:
        """Where a name leads, in the order to try; an IP address takes no thread. Raises OSError."""
        if literal := _literal(host, port):
            return [literal]
        name = self._names.setdefault(host, asyncio.Semaphore(LOOKUPS_OF_A_NAME))  # gone with the last who holds it
        look = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        return [(family, place) for family, _, _, _, place in await self._apart(look, name, self._lookups)]

    async def call(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises."""
        return await self._apart(work, self._calls)

    async def _apart(self, work: Callable[[], T], *places: asyncio.Semaphore) -> T:
        with ExitStack() as waiting:
            for place in places:
                await place.acquire()
                waiting.callback(place.release)
            taken = waiting.pop_all()
        found: Future[T] = Future()
        found.set_running_or_notify_cancel()  # so nobody can take it back, and the thread may always answer
        leave = partial(asyncio.get_running_loop().call_soon_threadsafe, taken.close)
        whole = partial(_answer, found, partial(copy_context().run, work), leave)
        try:
            Thread(target=whole, name=f"Kafka {self._cluster}", daemon=True).start()
        except RuntimeError:  # no thread can be started
            taken.close()
            raise
        return await asyncio.wrap_future(found)


def _answer(found: Future[T], work: Callable[[], T], leave: Callable[[], object]) -> None:
    try:
        found.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it is raised where the answer is waited for
        found.set_exception(error)
    with suppress(RuntimeError):  # the loop is closed: the process ends
        leave()


def _literal(host: str, port: int) -> Endpoint | None:
    """The endpoint of a host that is an IP address."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError):
            socket.inet_pton(family, host)
            return family, (host, port)
    return None
