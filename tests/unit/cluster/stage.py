"""A broker on a stage: an asyncio server that speaks Kafka's frames with the same codec and plays what a test wants.

As a real one it works on one request of a connection at a time.
"""

from __future__ import annotations

import asyncio
import inspect
import ssl
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from io import BytesIO
from types import TracebackType
from typing import Any, Self

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from kafka_recovery.cluster.connection import Connection
from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest, GetReplicaLogInfoRequest
from kafka_recovery.cluster.sockets import Address

SPOKEN = {
    request.API_KEY: request
    for request in (
        AlterPartitionReassignmentsRequest,
        ApiVersionsRequest,
        DescribeClusterRequest,
        DescribeConfigsRequest,
        DescribeLogDirsRequest,
        DescribeQuorumRequest,
        DescribeTopicPartitionsRequest,
        ElectLeadersRequest,
        FetchRequest,
        ListOffsetsRequest,
        ListPartitionReassignmentsRequest,
        MetadataRequest,
        SaslAuthenticateRequest,
        SaslHandshakeRequest,
    )
}

OFFERED = {key: request.max_version for key, request in SPOKEN.items()}
"""The newest version of each request that a released broker knows."""
OFFERED[ElectLeadersRequest.API_KEY] = 2


@dataclass(frozen=True, slots=True)
class Heard:
    """One request, and the ways to react to it. What a role returns is sent as the answer; None sends nothing."""

    name: str
    version: int
    message: Any
    correlation_id: int
    connection: int
    writer: asyncio.StreamWriter

    def frame(self, response: Any, version: int | None = None) -> bytes:
        """The answer as bytes, in the version that was asked for unless told otherwise."""
        response.API_VERSION = self.version if version is None else version
        response.with_header(correlation_id=self.correlation_id)
        return bytes(response.encode(header=True, framed=True))

    def say(self, data: bytes) -> None:
        """Send bytes as they are."""
        self.writer.write(data)

    def cut(self) -> None:
        """Reset the connection."""
        self.writer.transport.abort()


Role = Callable[[Heard], Any]


def versions(**newest: int) -> Role:
    """A role for ApiVersions: the newest version of each request by name; all begin at 0."""

    def role(heard: Heard) -> Any:
        keys = {request.name.removesuffix("Request"): key for key, request in SPOKEN.items()}
        offers = {keys[name]: newest.get(name, OFFERED.get(keys[name], -1)) for name in keys}
        offers = {key: version for key, version in offers.items() if version >= 0}
        return api_versions(offers)

    return role


def api_versions(offers: dict[int, int], **more: Any) -> Any:
    """An ApiVersionsResponse that offers v0 up to a version for each API key."""
    kind = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(
        api_keys=[kind(api_key=key, min_version=0, max_version=newest) for key, newest in offers.items()], **more
    )


def after(seconds: float, role: Role) -> Role:
    """Plays this role, so much later."""

    async def late(heard: Heard) -> Any:
        await asyncio.sleep(seconds)
        return role(heard)

    return late


@dataclass
class StagedBroker:
    """Plays `roles` by request name; ApiVersions has one of its own. Requests without a role meet silence."""

    roles: dict[str, Role] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    heard: list[Heard] = field(default_factory=list)
    connections: int = 0

    def __post_init__(self) -> None:
        self.roles = {"ApiVersions": versions()} | self.roles
        self._writers: set[asyncio.StreamWriter] = set()
        self._plays: set[asyncio.Task[Any]] = set()
        self._arrival = asyncio.Event()

    @property
    def address(self) -> Address:
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    def names(self) -> list[str]:
        """What was heard, in order, without ApiVersions."""
        return [heard.name for heard in self.heard if heard.name != "ApiVersions"]

    async def hears(self, name: str, times: int = 1) -> None:
        """Wait until a request was heard so often."""
        while sum(heard.name == name for heard in self.heard) < times:
            self._arrival.clear()
            await self._arrival.wait()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._play, self.host, 0, ssl=self.tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for play in list(self._plays):
            play.cancel()
        await asyncio.gather(*self._plays, return_exceptions=True)
        await self._server.wait_closed()

    async def _play(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._plays.add(task)
        self._writers.add(writer)
        self.connections += 1
        number = self.connections
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                await self._react(understood(await reader.readexactly(size), writer, number))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has left, or the curtain fell
        finally:
            self._plays.discard(task)
            writer.transport.abort()

    async def _react(self, heard: Heard) -> None:
        self.heard.append(heard)
        self._arrival.set()
        role = self.roles.get(heard.name)
        answer = role(heard) if role else None
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, bytes):
            heard.say(answer)
        elif answer is not None:
            heard.say(heard.frame(answer))


async def call(connection: Connection, request: Any, version: int, deadline: timedelta) -> Any:
    """Ask over this very connection, as `Brokers` does over one of its own; TimeoutError after the deadline."""
    async with asyncio.timeout(deadline.total_seconds()):
        await connection.ready()
        return await connection.send(request, version)


def understood(frame: bytes, writer: asyncio.StreamWriter, connection: int = 1) -> Heard:
    """A frame without its length, as a broker hears it."""
    key, version = struct.unpack_from(">hh", frame)
    kind = SPOKEN.get(key, GetReplicaLogInfoRequest)  # the one whose key is open
    data = BytesIO(frame)
    header = RequestHeader.decode(data, flexible=kind.flexible_version_q(version))
    message = kind.decode(data.read(), version=version)
    return Heard(kind.name.removesuffix("Request"), version, message, header.correlation_id, connection, writer)
