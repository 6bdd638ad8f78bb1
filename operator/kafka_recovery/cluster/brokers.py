"""Asking brokers: connections are opened, reused and replaced here, versions chosen, and reads tried again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar
from weakref import WeakValueDictionary

from kafka.protocol.metadata import ApiVersionsRequest
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential, wait_random

from kafka_recovery.cluster.connection import Connection
from kafka_recovery.cluster.errors import (
    BrokerTimeout,
    BrokerUnreachable,
    ClusterError,
    ConnectionsClosed,
    InvalidAnswer,
    NotPermitted,
    NotSent,
    Unanswered,
    UnsupportedRequest,
    error_name,
)
from kafka_recovery.cluster.identity import Identity
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.security import Security
from kafka_recovery.cluster.sockets import Address, Dial, Sockets
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.cluster.versions import ApiVersions, choose_version, request_name, require_carried, require_safe
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason

__all__ = ["Address", "ApiVersions", "Brokers"]

CONNECTIONS_PER_BROKER = 4
"""A broker works on one request of a connection at a time; so many may be slow before they hold up each other."""

ATTEMPTS = 3
"""How often a read is sent while connections fail: a dead broker must not cost the whole deadline each time.

Callers that try again do so for other causes (silence, another controller or broker), and not where this gave up.
"""

AT_MOST_ONCE = frozenset({"ElectLeaders", "AlterPartitionReassignments"})
"""Requests that are never sent twice, whatever the caller says: the first may still take effect."""

SOFTWARE = {"client_software_name": "kafka-recovery-operator", "client_software_version": "0"}
"""Kafka counts clients by these; it wants them, and takes letters, digits, dots and dashes."""

_UNSUPPORTED_VERSION = 35

Permit = Callable[[], Reason | None]
"""Asked whether a change may be made at this moment: why not, or None."""

T = TypeVar("T")


class Brokers:
    """All connections to a cluster's brokers. One that is slow or silent holds up nobody who asks another.

    An `async with` block, or `aclose`, ends them.
    """

    def __init__(
        self,
        security: Security,
        client_id: str = "kafka-recovery",
        threads: Threads | None = None,
        dial: Dial | None = None,
    ) -> None:
        self._security = security
        self._client_id = client_id
        self._threads = threads or Threads(client_id)
        self._dial = dial or Sockets(self._threads)
        self._pools: dict[Address, _Pool] = {}
        self._closed = False

    async def ask(
        self,
        address: Address,
        request: Any,
        versions: tuple[int, int],
        deadline: timedelta,
        *,
        idempotent: bool = True,
        ignorable: Collection[str] = frozenset(),
        attempts: int = ATTEMPTS,
        sent_within: timedelta | None = None,
        permit: Permit | None = None,
        of: BrokerId | None = None,
    ) -> Any:
        """Send one request in the highest version both sides speak and return the answer, error codes and all.

        `versions`: lowest and highest that will do. `deadline`: for all of it, connecting and trying again included.
        `ignorable`: dotted paths (`topics.partitions.current_leader_epoch`) of fields that an older version may drop.

        Idempotent requests are sent up to `attempts` times while the deadline lasts, if connections fail. Raises
        BrokerTimeout, BrokerUnreachable, AuthenticationFailed, TlsFailed, InvalidAnswer, InvalidConfiguration,
        UnsupportedRequest. `of`: the broker that is to answer; AnotherBroker is raised if another one does, which it
        takes DESCRIBE_CONFIGS on the cluster to know. It costs a request on each connection, and no round trip.

        Others (and ElectLeaders and AlterPartitionReassignments, always) are sent at most once, over a connection of
        their own. Raises UnsupportedRequest or NotSent: nothing has changed; Unanswered: it may still take effect. Who
        cancels such a call does not know either. `sent_within`: what is not sent by then is not sent at all.
        `permit` is asked in the line before it is written; if it says why not, NotPermitted is raised, and nothing has
        changed either.
        """
        require_safe(address, request)
        question = _Question(
            address, request, versions, frozenset(ignorable), deadline, attempts, sent_within, permit, of
        )
        if idempotent and request_name(request) not in AT_MOST_ONCE:
            return await self._ask_until_answered(question)
        return await self._ask_once(question)

    async def version_for(self, address: Address, request: Any, versions: tuple[int, int], deadline: timedelta) -> int:
        """The version `ask` would send this request (or request class) in, for callers whose fields depend on it.

        Raises as `ask` does for idempotent requests.
        """
        pool = self._pool(address)
        line = await _until_done(lambda _: pool.line(), address, deadline)
        return choose_version(address, request, versions, line.versions)

    async def api_versions(self, address: Address, deadline: timedelta, attempts: int = ATTEMPTS) -> ApiVersions:
        """What the broker says of itself now, never from memory. Raises as `ask` does for idempotent requests."""
        answer = await self.ask(
            address,
            ApiVersionsRequest(**SOFTWARE),
            (0, ApiVersionsRequest.max_version),
            deadline,
            ignorable=SOFTWARE,
            attempts=attempts,
        )
        return _understood(address, answer)

    async def is_deaf(self, address: Address, within: timedelta) -> bool:
        """Whether its host gives no sign of life to who asks for a connection; see `Dial`."""
        return await self._dial.is_deaf(address, within)

    async def aclose(self) -> None:
        """Close every connection; nothing can be asked any more."""
        self._closed = True
        await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _pool(self, address: Address) -> _Pool:
        if self._closed:
            raise ConnectionsClosed(address)
        if address not in self._pools:
            self._pools[address] = _Pool(address, self._security, self._client_id, self._threads, self._dial)
        return self._pools[address]

    async def _ask_until_answered(self, question: _Question) -> Any:
        pool = self._pool(question.address)

        async def attempt(progress: _Progress) -> Any:
            line = await pool.line()
            await line.connection.ready()
            progress.asked = question.name
            if question.of is not None:
                line.identity.proof(question.of)
            answer = question.put(line)
            try:
                if question.of is not None:
                    await line.identity.check(question.of)
                return await answer
            except BaseException:
                answer.cancel()
                raise

        return await _until_done(attempt, question.address, question.deadline, question.attempts)

    async def _ask_once(self, question: _Question) -> Any:
        """Over a connection of its own: one that the broker has just closed would leave it unknown what was sent.

        Not even connecting is tried again: what was checked before electing would be stale by then.
        """
        line: _Line | None = None
        answer: asyncio.Future[Any] | None = None
        try:
            async with asyncio.timeout(question.deadline.total_seconds()):
                soon = question.deadline if question.sent_within is None else question.sent_within
                async with asyncio.timeout(soon.total_seconds()):
                    line = await self._pool(question.address).open()
                answer = question.put(line)
                return await answer
        except (UnsupportedRequest, NotPermitted):
            raise
        except (TimeoutError, ClusterError) as error:
            silent = BrokerTimeout(question.address, question.deadline, question.name if answer else None)
            why = error if isinstance(error, ClusterError) else silent
            if answer is None:
                raise NotSent(question.name, why) from error
            raise Unanswered(question.name, why, question.address) from error
        finally:
            if line is not None:
                await line.connection.drop()


@dataclass(frozen=True, slots=True)
class _Line:
    """An open connection, what the broker on it can do, and who it is."""

    connection: Connection
    versions: ApiVersions
    identity: Identity


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked of whom."""

    address: Address
    request: Any
    versions: tuple[int, int]
    ignorable: frozenset[str]
    deadline: timedelta
    attempts: int = ATTEMPTS
    sent_within: timedelta | None = None
    permit: Permit | None = None
    of: BrokerId | None = None

    @property
    def name(self) -> str:
        return request_name(self.request)

    def put(self, line: _Line) -> asyncio.Future[Any]:
        """Write it. Raises before anything is written, never after."""
        version = choose_version(self.address, self.request, self.versions, line.versions)
        require_carried(self.address, self.request, version, self.ignorable)
        if self.permit is not None and (forbidden := self.permit()) is not None:
            raise NotPermitted(forbidden)
        return line.connection.send(self.request, version)


class _Pool:
    """The connections to one broker. Only those who ask this broker wait while one is being opened."""

    def __init__(self, address: Address, security: Security, client_id: str, threads: Threads, dial: Dial) -> None:
        self._address = address
        self._security = security
        self._client_id = client_id
        self._threads = threads
        self._dial = dial
        self._lines: list[_Line] = []
        self._connections: WeakValueDictionary[int, Connection] = WeakValueDictionary()  # all that live, oldest first
        self._opened = itertools.count()
        self._opening = asyncio.Lock()
        self._closed = False

    async def line(self) -> _Line:
        """An idle connection, else a new one, else the least busy."""
        if idle := self._idle():
            return idle
        async with self._opening:
            if idle := self._idle():
                return idle
            await self._drop_hopeless()
            if len(self._lines) >= CONNECTIONS_PER_BROKER:
                return min(self._lines, key=lambda busy: busy.connection.unanswered)
            line = await self.open()
            self._lines.append(line)
            return line

    async def open(self) -> _Line:
        """A new connection that knows the broker's versions, outside the pool."""
        self._require_open()
        connection = await Connection.open(self._address, self._security, self._client_id, self._threads, self._dial)
        try:
            self._require_open()
            self._connections[next(self._opened)] = connection
            versions = await _learn(connection)
            return _Line(connection, versions, Identity(connection, versions))
        except BaseException:
            await connection.close()
            raise

    async def close(self) -> None:
        """Close what is open; what is just being opened is closed by whoever opens it."""
        self._closed = True
        await asyncio.gather(*(connection.close() for connection in list(self._connections.values())))

    def _require_open(self) -> None:
        if self._closed:
            raise ConnectionsClosed(self._address)

    def _idle(self) -> _Line | None:
        self._lines[:] = [line for line in self._lines if line.connection.is_open]
        return next((line for line in self._lines if not line.connection.unanswered), None)

    async def _drop_hopeless(self) -> None:
        """If there is no room for another, close a connection whose every answer is overdue: it may be stuck."""
        if len(self._lines) < CONNECTIONS_PER_BROKER:
            return
        hopeless = next((line for line in self._lines if not line.connection.awaited), None)
        if hopeless is not None:
            self._lines.remove(hopeless)
            await hopeless.connection.close()


@dataclass(slots=True)
class _Progress:
    """How far the present attempt came, for whoever has to say why there is no answer."""

    asked: str | None = None
    failure: BrokerUnreachable | None = None
    attempts: int = 0


async def _until_done(
    attempt: Callable[[_Progress], Awaitable[T]], address: Address, deadline: timedelta, attempts: int = ATTEMPTS
) -> T:
    """Try while only connections fail, so many times at most; what else may be tried again is the callers' to say.

    Raises BrokerTimeout if an attempt was under way at the deadline, else why the last one failed.
    """
    progress = _Progress()

    async def once() -> T:
        progress.asked, progress.failure = None, None
        progress.attempts += 1
        try:
            return await attempt(progress)
        except BrokerUnreachable as failure:
            progress.failure = failure
            raise

    began = loop_time()
    try:
        async with asyncio.timeout(deadline.total_seconds()):
            try:
                return await once()
            except BrokerUnreachable as failure:
                return await _again(once, failure, attempts)
    except BrokerUnreachable as failure:
        raise failure.after(progress.attempts, timedelta(seconds=loop_time() - began)) from failure
    except TimeoutError as error:
        if progress.failure is not None:
            raise progress.failure.after(progress.attempts, deadline) from error
        raise BrokerTimeout(address, deadline, progress.asked) from error


async def _again(once: Callable[[], Awaitable[T]], failure: BrokerUnreachable, attempts: int) -> T:
    """What is left of so many attempts, the first of which failed: most need no second one, nor what it takes."""
    failures = [failure]

    async def the_failed_one_first() -> T:
        if failures:
            raise failures.pop()
        return await once()

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(BrokerUnreachable),
        wait=wait_exponential(multiplier=0.05, max=1) + wait_random(0, 0.05),
        stop=stop_after_attempt(attempts),
        reraise=True,
    )
    return await retrying(the_failed_one_first)


async def _learn(connection: Connection) -> ApiVersions:
    """Ask for the broker's versions. One too old for our question says which it would understand (KIP-511)."""
    answer = await connection.send(ApiVersionsRequest(**SOFTWARE), ApiVersionsRequest.max_version)
    if answer.error_code == _UNSUPPORTED_VERSION:
        _, highest = ApiVersions.of(answer).range_of(ApiVersionsRequest.API_KEY) or (0, 0)
        answer = await connection.send(ApiVersionsRequest(**SOFTWARE), min(highest, ApiVersionsRequest.max_version))
    return _understood(connection.address, answer)


def _understood(address: Address, answer: Any) -> ApiVersions:
    """The answer's content. Raises InvalidAnswer if it is an error, which no broker has a reason for."""
    if answer.error_code:
        raise InvalidAnswer(
            address, f"ApiVersions was answered with {error_name(answer.error_code)} ({answer.error_code})"
        )
    return ApiVersions.of(answer)
