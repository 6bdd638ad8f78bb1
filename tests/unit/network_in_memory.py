"""An event loop with a network of its own: streams between coroutines of one loop, on a clock that jumps.

A packet takes a moment of that clock. Nothing is the machine's: no socket is connected, no thread works, no second is
waited for. So a busy machine changes nothing of what a deadline is about, and who waits for what never comes is told by
a `Standstill`, at once.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from errno import ECONNREFUSED
from itertools import count
from typing import Any

from kafka_recovery.simulator.host.loop import VirtualLoop
from unit.virtual import NothingElse

A_MOMENT = 0.0002
"""Seconds."""

Protocols = Callable[[], asyncio.Protocol]
Place = tuple[str, int]


class End(asyncio.Transport):
    """One end of a connection. What it writes arrives a moment later, in order."""

    def __init__(self, loop: LoopInMemory, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._loop = loop
        self._protocol = protocol
        self._closed = False
        self.other: End

    def begin(self, other: End) -> None:
        self.other = other
        self._protocol.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closed:
            self._loop.carry(self.other.arrive, self, bytes(data))

    def arrive(self, sender: End, data: bytes) -> None:
        if self._closed:
            sender.end(ConnectionResetError("Connection reset by peer"))
        else:
            self._protocol.data_received(data)

    def is_closing(self) -> bool:
        return self._closed

    def abort(self) -> None:
        self.end(None)

    def close(self) -> None:
        self.end(None)

    def end(self, error: Exception | None) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.call_soon(self._protocol.connection_lost, error)
        self._loop.carry(self.other.hear_the_end)

    def hear_the_end(self) -> None:
        if not self._closed and not self._protocol.eof_received():
            self.close()


@dataclass(frozen=True)
class Listening:
    """What `asyncio.start_server` gives; and for who asks, the one socket of it."""

    place: Place
    listeners: dict[Place, Protocols]

    @property
    def sockets(self) -> tuple[Listening]:
        return (self,)

    def getsockname(self) -> Place:
        return self.place

    def close(self) -> None:
        self.listeners.pop(self.place, None)

    async def wait_closed(self) -> None:
        """Nothing is left."""


class LoopInMemory(VirtualLoop):
    """Servers and connections without TLS, by address. Names are the business of threads, and of other tests."""

    def __init__(self) -> None:
        super().__init__(NothingElse())
        self._listeners: dict[Place, Protocols] = {}
        self._ports = count(20_000)
        self._meant: dict[socket.socket, Place] = {}
        self._latest = 0.0
        self.vanished: set[Place] = set()
        """Where no packet arrives of those who ask for a connection; asked again for it, a second later and so on."""

    def carry(self, arrive: Callable[..., object], *what: object) -> None:
        """A packet: it arrives a moment from now, and not before those that were sent before it."""
        self._latest = max(self.time() + A_MOMENT, self._latest + 1e-7)
        self.call_at(self._latest, arrive, *what)

    async def create_server(  # type: ignore[override] # typeshed's takes all that a kernel's does
        self, protocol_factory: Protocols, host: str, port: int, *, ssl: None = None, **more: Any
    ) -> Listening:
        place = host, port or next(self._ports)
        self._listeners[place] = protocol_factory
        return Listening(place, self._listeners)

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        pause = 1
        while address[:2] in self.vanished:
            await asyncio.sleep(pause)
            pause *= 2
        await asyncio.sleep(2 * A_MOMENT)
        if address[:2] not in self._listeners:
            raise ConnectionRefusedError(ECONNREFUSED, "Connection refused")
        self._meant[sock] = address[:2]

    async def create_connection(  # type: ignore[override] # here too
        self, protocol_factory: Protocols, host: None, port: None, *, sock: socket.socket, ssl: None = None, **more: Any
    ) -> tuple[End, asyncio.Protocol]:
        sock.close()  # it was never connected
        ours, theirs = protocol_factory(), self._listeners[self._meant.pop(sock)]()
        one, other = End(self, ours), End(self, theirs)
        other.begin(one)
        one.begin(other)
        return one, ours
