"""One asyncio connection to one broker: frames, correlation ids, deadlines, TLS, SASL and re-authentication.

It belongs to the event loop that opened it. Nothing here retries, and nothing waits without a deadline of its caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import logging
import socket
import ssl
import struct
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from io import BytesIO
from typing import Any, Self

from kafka.protocol.api_header import ResponseClassRegistry

from kafka_recovery.cluster.codec import decode
from kafka_recovery.cluster.encoding import encoded
from kafka_recovery.cluster.errors import (
    BrokerRefuses,
    BrokerUnreachable,
    ClusterError,
    InvalidAnswer,
    TlsFailed,
)
from kafka_recovery.cluster.security import Security, authenticate
from kafka_recovery.cluster.sockets import Address, Dial, Sockets
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.cluster.versions import require_safe

_LOG = logging.getLogger(__name__)
"""Every connection, request and answer, at the level DEBUG; never what is in them, which may be a password."""

LARGEST_ANSWER = 64 * 1024 * 1024
"""Bytes. Ten times what 5000 partitions need; a longer prefix is another protocol's text read as a number."""

READ_APART = 512 * 1024
"""Bytes of an answer that is decoded in a thread: half a MiB takes some 50 ms, in which the loop would stand still."""

REAUTHENTICATE_AFTER = 0.8
"""Share of the session's lifetime (KIP-368) after which the next request authenticates anew first."""

SHORTEST_SESSION = timedelta(seconds=1)
"""A broker refuses to re-authenticate a session younger than this."""


@dataclass(frozen=True, slots=True)
class _Question:
    """A request on its way: how to read its answer, and who waits. A future that is done waits no more."""

    response_class: Any
    version: int
    answer: asyncio.Future[Any]


class Connection:
    """An open connection. Requests may overlap; a late answer is dropped and the connection stays good.

    A broker works on one request of a connection at a time, so a slow request holds up those behind it.
    """

    def __init__(
        self,
        address: Address,
        security: Security,
        client_id: str,
        threads: Threads,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.address = address
        self._security = security
        self._client_id = client_id
        self._threads = threads
        self._reader = reader
        self._writer = writer
        self._ids = itertools.count(1)
        self._questions: dict[int, _Question] = {}
        self._lost: ClusterError | None = None
        self._answers = 0
        self._authenticating = asyncio.Lock()
        self._authenticate_at: float | None = None
        self._reading = asyncio.create_task(self._read(), name=f"read {address}")

    @classmethod
    async def open(
        cls,
        address: Address,
        security: Security,
        client_id: str,
        threads: Threads | None = None,
        dial: Dial | None = None,
    ) -> Self:
        """Connect, TLS, SASL. The caller's deadline is a timeout around it. `threads`: its cluster's, else its own.

        `dial`: the way to the broker; TCP if it is left out.

        Raises BrokerUnreachable, TlsFailed, AuthenticationFailed, InvalidAnswer, InvalidConfiguration.
        """
        threads = threads or Threads(str(address))
        # Stores lie on disks, which may be slow; the system's CAs take their time as well.
        context = await threads.call(security.tls_context) if security.tls else None
        dial = dial or Sockets(threads)
        _LOG.debug("%s: connecting, %s", address, "with TLS" if context else "in plaintext")
        try:
            reader, writer = await dial(address, context)
        except OSError as error:
            problem = _could_not_open(address, security, error)
            _LOG.debug("not connected: %s", problem)
            raise problem from error
        except (ValueError, OverflowError) as error:  # an empty or endless label of a name, a NUL, a port beyond 65535
            what = f"{address.host!r}, port {address.port}, is nothing that can be connected to; check the broker's "
            raise BrokerUnreachable(address, f"{what}advertised.listeners") from error
        connection = cls(address, security, client_id, threads, reader, writer)
        try:
            await connection._authenticate()
        except BaseException as error:
            _LOG.debug("%s: not logged in: %s", address, type(error).__name__)
            await connection.close()
            raise
        _LOG.debug("%s: connected%s", address, "" if security.sasl is None else f", {security.sasl.mechanism}")
        return connection

    @property
    def is_open(self) -> bool:
        """Whether a request may be sent."""
        return self._lost is None

    @property
    def unanswered(self) -> int:
        """Requests the broker still owes an answer, overdue ones included."""
        return len(self._questions)

    @property
    def awaited(self) -> int:
        """Requests somebody still waits for."""
        return sum(not question.answer.done() for question in self._questions.values())

    async def ready(self) -> None:
        """Authenticate anew if the session is about to end; every other request waits meanwhile."""
        if not self._session_is_ending():
            return
        async with self._authenticating:
            if self._session_is_ending() and self.is_open:
                try:
                    await self._authenticate()
                except BaseException:
                    # Half an exchange leaves a session in which nothing else may be said.
                    self._lose(BrokerUnreachable(self.address, "the session could not be renewed"))
                    raise

    def send(self, request: Any, version: int) -> asyncio.Future[Any]:
        """Write the request; the future holds the answer, or the error that ended the connection.

        Raises before anything is written, never after: the reason why the connection is lost, or UnsupportedRequest.
        """
        require_safe(self.address, request)
        if self._lost is None and self._writer.transport.is_closing():
            self._lose(BrokerUnreachable(self.address, "the connection was closed"))
        if self._lost is not None:
            raise self._lost
        correlation_id = next(self._ids)
        frame, response_class = _encode(request, version, correlation_id, self._client_id)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._questions[correlation_id] = _Question(response_class, version, answer)
        # No drain: what is written is bounded by what is asked, and every question has a deadline.
        self._writer.write(frame)
        _LOG.debug("%s: request %d: %s v%d", self.address, correlation_id, type(request).__name__, version)
        return answer

    async def close(self) -> None:
        """Close without a farewell; whoever still waits gets BrokerUnreachable. May be called twice."""
        self._lose(BrokerUnreachable(self.address, "the connection was closed by this side"))
        self._reading.cancel()
        await asyncio.wait([self._reading])
        with contextlib.suppress(OSError):  # how it ended was said to everybody who waited
            await self._writer.wait_closed()

    async def drop(self) -> None:
        """Close so that nothing is sent any more that was written and did not leave this machine yet.

        Its kernel would go on for minutes with what a network that is away did not take.
        """
        sock = self._writer.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await self.close()

    async def _read(self) -> None:
        """Hand out answers until the connection ends; whatever ends it, everybody who waits is told."""
        try:
            while True:
                await self._answer(await self._frame())
        except ClusterError as error:
            self._lose(error)
        except (OSError, asyncio.IncompleteReadError) as error:
            self._lose(_was_cut(self.address, self._security, error, self._answers))
        except BaseException as error:
            self._lose(InvalidAnswer(self.address, f"{type(error).__name__} while reading answers"))
            raise

    async def _frame(self) -> bytes:
        """The next answer with its header."""
        prefix = await self._reader.readexactly(4)
        (size,) = struct.unpack(">i", prefix)
        if prefix[:2] == b"\x15\x03" and self._security.tls is None:
            raise TlsFailed(
                self.address, "the port speaks TLS and was asked in plaintext; set security.protocol to SSL or SASL_SSL"
            )
        if not 4 <= size <= LARGEST_ANSWER:
            raise InvalidAnswer(
                self.address,
                f"an answer of {size} bytes was announced ({prefix!r}), at most {LARGEST_ANSWER} are read; "
                "is this a port of a Kafka broker?",
            )
        return await self._reader.readexactly(size)

    async def _answer(self, frame: bytes) -> None:
        """Give an answer to who waits for it; drop it if nobody does any more."""
        (correlation_id,) = struct.unpack_from(">i", frame)
        question = self._questions.get(correlation_id)
        if question is None:
            raise InvalidAnswer(self.address, f"an answer to request {correlation_id}, which was not asked")
        self._answers += 1
        try:
            found = None if question.answer.done() else await self._decoded(question, frame)
        except Exception as error:
            name = question.response_class[None].__name__
            invalid = InvalidAnswer(self.address, f"{name} v{question.version} can't be read: {type(error).__name__}")
            invalid.__cause__ = error
            raise invalid from error
        late = ", which nobody waits for any more" if question.answer.done() else ""
        _LOG.debug("%s: answer to request %d, %d bytes%s", self.address, correlation_id, len(frame), late)
        # Not before: whoever ends the connection tells those who are on the list.
        self._questions.pop(correlation_id, None)
        if not question.answer.done():
            question.answer.set_result(found)

    async def _decoded(self, question: _Question, frame: bytes) -> Any:
        decode = partial(_decode, question.response_class, question.version, frame)
        return decode() if len(frame) < READ_APART else await self._threads.call(decode)

    def _lose(self, error: ClusterError) -> None:
        """End the connection; only the first reason counts."""
        if self._lost is not None:
            return
        self._lost = error
        _LOG.debug("disconnected: %s", error)
        questions, self._questions = self._questions, {}
        for question in questions.values():
            if not question.answer.done():
                question.answer.set_exception(error)
        self._writer.transport.abort()

    def _session_is_ending(self) -> bool:
        return self._authenticate_at is not None and asyncio.get_running_loop().time() >= self._authenticate_at

    async def _authenticate(self) -> None:
        """Run the SASL exchange, if there is one to run, and note when the session has to be renewed."""
        if self._security.sasl is None:
            return
        lifetime = await authenticate(self._security.sasl, self.send, self.address, self._threads)
        self._authenticate_at = None
        if lifetime:
            after = max(lifetime * REAUTHENTICATE_AFTER, SHORTEST_SESSION)
            self._authenticate_at = asyncio.get_running_loop().time() + after.total_seconds()


def _encode(request: Any, version: int, correlation_id: int, client_id: str) -> tuple[bytes, Any]:
    """The frame, and the class of its answer. The caller's message stays as it is: it may be asked elsewhere too."""
    message = copy.copy(request)
    message.API_VERSION = version
    message.with_header(correlation_id=correlation_id, client_id=client_id)
    header = message.encode_header(flexible=message.flexible_version_q(version))
    body = encoded(message, version)
    frame = struct.pack(">i", len(header) + len(body)) + header + body
    return frame, ResponseClassRegistry.get_response_class(message.header)


def _decode(response_class: Any, version: int, frame: bytes) -> Any:
    """Read one answer, all of it and nothing beyond. Any exception means it can't be read."""
    header = BytesIO(frame)
    response_class.parse_header(header, version=version)
    body = memoryview(frame)[header.tell() :]
    if response_class.API_KEY == _API_VERSIONS and bytes(body[:2]) != b"\0\0":
        version = 0  # KIP-511: a broker that does not know the version says so in v0
    if response_class.API_KEY == _API_VERSIONS and len(body) <= _READ_ONCE:
        return _alike(response_class[None], version, bytes(body))
    return decode(response_class[None], version, body)


@lru_cache(8)
def _alike(message: Any, version: int, body: bytes) -> Any:
    """What the brokers of a cluster say of themselves is nearly always the same, and each is asked for every look."""
    return decode(message, version, memoryview(body))


_API_VERSIONS = 18

_READ_ONCE = 8 * 1024
"""Bytes of an ApiVersions answer that is kept; Kafka's are below one KiB, and larger ones are no good use of memory."""


def _could_not_open(address: Address, security: Security, error: OSError) -> ClusterError:
    """Why a connection could not be opened."""
    match error:
        case socket.gaierror():
            return BrokerUnreachable(address, f"the name {address.host} can't be resolved: {error.strerror}")
        case ssl.SSLCertVerificationError():
            return TlsFailed(address, _distrust(error))
        case ssl.SSLEOFError():
            return BrokerUnreachable(address, _HANDSHAKE_CUT)
        case ssl.SSLError():
            return _tls_failure(address, security, error)
        case ConnectionRefusedError():
            return BrokerRefuses(address, "connection refused" if error.errno else f"no connection: {error}")
        case ConnectionError() if security.tls is not None:
            return BrokerUnreachable(address, _HANDSHAKE_CUT)
    return BrokerUnreachable(address, f"no connection: {error.strerror or error}")


_HANDSHAKE_CUT = (
    "the connection was closed during the TLS handshake; the broker may be stopping, or the port may not speak TLS"
)


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    """Why we do not trust the broker's certificate."""
    if error.verify_code in (62, 64):  # X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH
        return (
            f"the broker's certificate is not for this host: {error.verify_message}; use the name it was made for, or "
            "an empty ssl.endpoint.identification.algorithm"
        )
    return f"the broker's certificate is not trusted: {error.verify_message}; check the CA (ssl.truststore.*)"


def _tls_failure(address: Address, security: Security, error: ssl.SSLError) -> TlsFailed:
    """Why TLS failed, told by OpenSSL's word for it."""
    word = error.reason or ""
    if word in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG", "HTTP_REQUEST"):
        return TlsFailed(address, "the port does not speak TLS; set security.protocol to PLAINTEXT or SASL_PLAINTEXT")
    if "ALERT" in word and ("CERTIFICATE" in word or "HANDSHAKE_FAILURE" in word or "UNKNOWN_CA" in word):
        if security.tls is None or security.tls.identity is None:
            return TlsFailed(
                address, f"the broker wants a client certificate and none is configured (ssl.keystore.*): {word}"
            )
        return TlsFailed(address, f"the broker refuses the client certificate (ssl.keystore.*): {word}")
    return TlsFailed(address, f"TLS failed: {word or type(error).__name__}")


def _was_cut(address: Address, security: Security, error: Exception, answers: int) -> ClusterError:
    """Why an open connection ended."""
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return _tls_failure(address, security, error)
    what = "the connection was reset" if isinstance(error, ConnectionResetError) else "the broker closed the connection"
    if answers > 1:
        return BrokerUnreachable(address, what)
    # A listener that expects TLS or SASL ends a connection that goes on without it, and says nothing.
    nameless = security.tls is not None and security.tls.identity is None
    settings = f"security.protocol {security.protocol}{' without a client certificate' if nameless else ''}"
    return BrokerUnreachable(
        address, f"{what} before it answered; if this goes on, {settings} may not fit the listener"
    )
