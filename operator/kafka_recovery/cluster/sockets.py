"""Opening TCP connections: names are looked up in a cluster's own threads, addresses tried one after the other."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, Protocol, Self

from kafka_recovery.cluster.threads import Threads
from kafka_recovery.cluster.together import together

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host:port` or `[v6]:port`; raises ValueError naming the text and the form that is right."""
        host, _, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(f"{text!r} is not an address; write it as host:port, for example kafka-0:9092")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Dial(Protocol):
    """The way to a broker, below everything that Kafka's protocol says: TCP, or a simulated network."""

    async def __call__(self, address: Address, tls: ssl.SSLContext | None) -> Streams:
        """An open connection, after the TLS handshake if there is a context. Raises OSError: why there is none."""
        ...

    async def is_deaf(self, address: Address, within: timedelta) -> bool:
        """Whether nothing comes back to who asks for a connection, for so long after the name was looked up.

        A process that stands still is not deaf: its host's kernel takes the connection. Nor is who refuses.
        """
        ...


@dataclass(frozen=True, slots=True)
class Sockets:
    """TCP, as asyncio's own `create_connection`, which would look the name up in everybody's threads."""

    threads: Threads

    async def __call__(self, address: Address, tls: ssl.SSLContext | None) -> Streams:
        """To the first of the name's endpoints that takes a connection. The certificate has to be for that name."""
        sock = await self._connected(address)
        return await asyncio.open_connection(sock=sock, ssl=tls, server_hostname=address.host if tls else None)

    async def is_deaf(self, address: Address, within: timedelta) -> bool:
        """All of the name's endpoints are asked at once: one that gives any sign of life is enough."""
        try:
            endpoints = await self.threads.lookup(*address)
        except OSError:
            return False
        return not any(await together(*(_answers(*endpoint, within) for endpoint in endpoints)))

    async def _connected(self, address: Address) -> socket.socket:
        failures = []
        for endpoint in await self.threads.lookup(*address):
            try:
                return await _socket(*endpoint)
            except OSError as failure:
                failures.append(failure)
        if len({str(failure) for failure in failures}) == 1:
            raise failures[0]
        refused = failures and all(isinstance(failure, ConnectionRefusedError) for failure in failures)
        kind = ConnectionRefusedError if refused else OSError
        raise kind(f"Multiple exceptions: {', '.join(map(str, failures))}")


async def _socket(family: socket.AddressFamily, place: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, place)
    except BaseException:
        sock.close()
        raise
    return sock


async def _answers(family: socket.AddressFamily, place: Any, within: timedelta) -> bool:
    """Whether anything came back, be it a refusal."""
    try:
        async with asyncio.timeout(within.total_seconds()):
            with suppress(OSError):
                (await _socket(family, place)).close()
    except TimeoutError:
        return False
    return True
