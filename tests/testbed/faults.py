"""Loopback servers that behave as a broken broker or a broken network does."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from enum import Enum
from functools import partial
from types import TracebackType
from typing import Any, Self

from testbed.ports import HOST

CHUNK = 65_536
HUGE = 0x7FFF_FFFF
LENGTH = 4
KNOCK = 0.2
"""Seconds after which somebody on this machine who knocks in vain knows it."""


class Server(ABC):
    """Accepts on a free loopback port and serves each connection in a thread of its own, until closed."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0))
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the server and all its connections."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # close alone leaves the accepting thread waiting
        self._listener.close()
        self._hang_up()
        self._accepting.join()

    @abstractmethod
    def _serve(self, client: socket.socket) -> None:
        """One connection, in its own thread; an OSError is its end."""

    def _accept(self) -> None:
        with suppress(OSError):
            while not self._closed.is_set():
                client, _ = self._listener.accept()
                self._keep(client)
                self._admit()
                threading.Thread(target=self._attend, args=(client,), daemon=True).start()

    def _admit(self) -> None:  # noqa: B027  # most let everybody in at once
        """Waits until connections are to be served; no other one is accepted meanwhile."""

    def _attend(self, client: socket.socket) -> None:
        with suppress(OSError):
            self._serve(client)
        self._drop(client)

    def _keep(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)

    def _drop(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)
        _end(connection)

    def _hang_up(self) -> None:
        with self._lock:
            connections, self._open = self._open, set()
        for connection in connections:
            _end(connection)


class BlackHole(Server):
    """Accepts, reads, never answers: a hung broker, or a firewall that swallows."""

    def _serve(self, client: socket.socket) -> None:
        while client.recv(CHUNK):
            pass


class Garbage(Server):
    """Answers every request with seeded random bytes; with `announced`, behind a length prefix of that many bytes.

    `announced=HUGE` asks a careless client to reserve two gigabytes.
    """

    def __init__(self, seed: int = 0, announced: int | None = None, size: int = 512) -> None:
        self._random = random.Random(seed)
        self._announced = announced
        self._size = size
        super().__init__()

    def _serve(self, client: socket.socket) -> None:
        while client.recv(CHUNK):
            prefix = b"" if self._announced is None else struct.pack(">i", self._announced)
            client.sendall(prefix + self._random.randbytes(self._size))


class Mode(Enum):
    """What a proxy does with what passes through it."""

    PASS = "pass"
    STALL = "stall"
    VANISH = "vanish"
    SWALLOW_ANSWERS = "swallow answers"
    CUT = "cut"


class Proxy(Server):
    """Stands before `target` (host:port) and passes everything on until told otherwise."""

    def __init__(self, target: str) -> None:
        host, port = target.rsplit(":", 1)
        self._target = (host, int(port))
        self._mode = Mode.PASS
        self._delay = 0.0
        self._held: int | None = None
        self._holding = 0
        self._in_the_way: list[socket.socket] = []
        self._let_one_in = False
        self._changed = threading.Condition()
        super().__init__()

    def delay(self, seconds: float) -> None:
        """Every answer waits this long before it is passed on, one after the other."""
        self._delay = seconds

    def stall(self) -> None:
        """Connections stay open and nothing moves in either direction until `restore`, which lets it all through."""
        self._turn(Mode.STALL)

    def vanish(self) -> None:
        """The host is gone without a word: nothing moves on open connections, and new ones get no answer at all.

        Linux drops whoever knocks while as many wait to be accepted as may; so that many do. One of them is still let
        in by the thread that was about to, however late: only then is nobody let in any more.
        """
        self._turn(Mode.VANISH)
        self._listener.listen(0)
        silent = False
        while not silent:
            nobody_comes_to_the_door = self._let_one_in
            try:
                self._in_the_way.append(socket.create_connection((HOST, self.port), timeout=KNOCK))
            except TimeoutError:
                silent = nobody_comes_to_the_door

    @property
    def holding(self) -> int:
        """How many requests are held back."""
        return self._holding

    def hold(self, request: type[Any]) -> None:
        """Requests of this kind come no further on connections opened from now on, until `restore`.

        `restore` delivers them, late; a `cut` loses them.
        """
        self._held = request.API_KEY

    def withhold(self, request: type[Any]) -> None:
        """The same, and connections that are open break, so that it is so on all; everything else passes."""
        self.hold(request)
        self._hang_up()
        self._turn(Mode.PASS)

    def drop_answers(self) -> None:
        """Requests arrive and take effect; their answers never come."""
        self._turn(Mode.SWALLOW_ANSWERS)

    def cut(self) -> None:
        """All connections break, and every new one at once."""
        self._turn(Mode.CUT)
        self._hang_up()

    def restore(self) -> None:
        """As at first."""
        self._delay, self._held = 0.0, None
        self._make_way()
        self._turn(Mode.PASS)

    def close(self) -> None:
        self._make_way()
        self._turn(Mode.CUT)
        super().close()

    def _make_way(self) -> None:
        for knocker in self._in_the_way:
            _end(knocker)
        self._in_the_way.clear()
        self._listener.listen()

    def _turn(self, mode: Mode) -> None:
        with self._changed:
            self._mode = mode
            self._changed.notify_all()

    def _admit(self) -> None:
        with self._changed:
            self._let_one_in = True
            self._changed.wait_for(lambda: self._mode is not Mode.VANISH)
            self._let_one_in = False

    def _serve(self, client: socket.socket) -> None:
        upstream = socket.create_connection(self._target)
        self._keep(upstream)
        answers = threading.Thread(target=self._pump_answers, args=(upstream, client), daemon=True)
        answers.start()
        take = partial(client.recv, CHUNK) if self._held is None else partial(self._whole_request, client)
        try:
            # Asked only now: a cut that came before `upstream` was kept has not closed it.
            while self._mode is not Mode.CUT and (requests := take()):
                self._pass_on()
                upstream.sendall(requests)
        finally:
            self._drop(upstream)
            answers.join()

    def _pump_answers(self, upstream: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while answers := upstream.recv(CHUNK):
                time.sleep(self._delay)
                self._pass_on()
                if self._mode is not Mode.SWALLOW_ANSWERS:
                    client.sendall(answers)
        self._pass_on()  # nor does anybody hear of the end of who stands still
        self._drop(client)

    def _pass_on(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._mode not in (Mode.STALL, Mode.VANISH))

    def _whole_request(self, client: socket.socket) -> bytes:
        """The next request with its length, once it is not held any more; nothing at the end of the connection."""
        framed = client.recv(LENGTH, socket.MSG_WAITALL)
        if len(framed) < LENGTH:
            return b""
        (size,) = struct.unpack(">i", framed)
        framed += client.recv(size, socket.MSG_WAITALL)
        (key,) = struct.unpack_from(">h", framed, LENGTH)
        if key == self._held:
            with self._changed:
                self._holding += 1
                self._changed.wait_for(lambda: self._held is None or self._mode is Mode.CUT)
                self._holding -= 1
                if self._mode is Mode.CUT:
                    return b""  # `cut` hangs up a moment after it turns: until then `upstream` would still take it
        return framed


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
    connection.close()
