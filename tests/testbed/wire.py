"""Single requests to single nodes: kafka-python's codec over a plain blocking socket. Nothing retries, nothing routes.

Changes go this way too, to a broker that runs: any forwards to the controller. An admin client goes to whom the
metadata name as controller, and KRaft brokers name anybody who is not fenced yet: if a test has just frozen or killed
that one, the client waits for it until it gives up.

The codec is untyped; who asks turns the answer into dataclasses at once.
"""

from __future__ import annotations

import socket
import struct
from collections import defaultdict
from itertools import count
from types import TracebackType
from typing import Any, Self

from kafka.errors import for_code
from kafka.protocol.metadata import ApiVersionsRequest

CLIENT = "testbed"
DEADLINE = 15.0
ADMIN_DEADLINE_MS = 60_000
"""For what the controller has to do."""
ADMIN_DEADLINE = ADMIN_DEADLINE_MS / 1000 + 5


class Refused(RuntimeError):
    """Kafka answered, but with an error: which request, its code and its name."""

    def __init__(self, request: str, code: int) -> None:
        super().__init__(f"{request} was refused with {code} ({for_code(code).__name__})")
        self.code = code


def accept(request: str, code: int) -> None:
    """Raises Refused unless the code is 0."""
    if code:
        raise Refused(request, code)


_IDLE: dict[str, list[socket.socket]] = defaultdict(list)
"""Connections that nobody uses now, by address. To open one costs a young broker more CPU than the question does."""
_NUMBERS = count(1)
"""Of requests, whoever asks: one connection never carries the same number twice."""


class Connection:
    """One connection to one node; `deadline` in seconds for each answer, TimeoutError beyond it.

    It stays open for whoever asks that node next, unless a question on it had no answer.
    """

    def __init__(self, address: str, deadline: float = DEADLINE) -> None:
        self._address = address
        self._socket = _left_open(address) or _opened(address, deadline)
        self._socket.settimeout(deadline)
        self._spoilt = False
        self._versions: dict[int, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._spoilt:
            self._socket.close()
        else:
            _IDLE[self._address].append(self._socket)

    def version(self, request: Any, at_most: int) -> int:
        """The newest version of this request that the node, the codec and we (`at_most`) know; -1 if there is none."""
        if not self._versions:
            spoken = self.api_versions().api_keys
            self._versions = {api.api_key: api.max_version for api in spoken}
        return min(at_most, self._versions.get(request.API_KEY, -1), int(request.max_version))

    def api_versions(self) -> Any:
        return self.ask(ApiVersionsRequest(client_software_name=CLIENT, client_software_version="1"), 3)

    def ask(self, request: Any, version: int) -> Any:
        """Sends one request and waits for its answer."""
        try:
            return self._asked(request, version, next(_NUMBERS))
        except BaseException:  # the answer may come yet, when somebody else waits for another one
            self._spoilt = True
            raise

    def _asked(self, request: Any, version: int, number: int) -> Any:
        request.API_VERSION = version
        request.with_header(correlation_id=number, client_id=CLIENT)
        self._socket.sendall(request.encode(version=version, header=True, framed=True))
        (size,) = struct.unpack(">i", self._read(4))
        answer = self._read(size)
        (answered,) = struct.unpack_from(">i", answer)
        if answered != number:
            raise ConnectionError(f"asked {number}, and the node answered {answered}")
        return request.header.get_response_class().decode(answer, version=version, header=True)

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise ConnectionError(f"the node hung up after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)


def _opened(address: str, deadline: float) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=deadline)


def _left_open(address: str) -> socket.socket | None:
    """One at whose other end there is still the process that it was opened to."""
    while idle := _IDLE[address]:
        try:
            found = idle.pop()
        except IndexError:  # another thread was quicker
            continue
        if _is_silent(found):
            return found
        found.close()
    return None


def _is_silent(connection: socket.socket) -> bool:
    """Nobody says anything unasked: what can be read is the end of it."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False
