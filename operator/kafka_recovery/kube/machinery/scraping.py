"""Answers Prometheus, from threads of its own: on both families, over TLS and to whom it may know, if so asked.

prometheus_client's own server reads a certificate once, knows no token, and shakes hands with one client at a time:
one that says nothing would keep out all others. Its WSGI application and its server class are used here.
"""

from __future__ import annotations

import io
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from kafka_recovery.kube.machinery.credentials import Callers
from kafka_recovery.kube.machinery.listening import bound

_LOG = logging.getLogger(__name__)

LIFE = 10.0
"""Seconds that a client may be silent, in the handshake of TLS too: as long as Prometheus waits for all of it."""

AT_ONCE = 16
"""Connections, each with a thread: two Prometheis and a few people. What comes beyond that is closed."""

LONGEST = 60.0
"""Seconds that a connection lasts, however steadily a little comes: longer than any scrape takes."""

LARGEST = 16 * 1024
"""Bytes that are read of a request. The standard library would read 6 MB from each, before it asks for a token."""

TOLD_EVERY = 60.0
"""Seconds between two lines about connections that are refused."""

_Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def serve(registry: CollectorRegistry, port: int, callers: Callers) -> None:
    """Answer GET /metrics from now on until the process ends. Raises OSError if the port is taken."""
    server = _Server(bound(port), make_wsgi_app(registry), callers)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


class _Request(io.RawIOBase):
    """What a client sends, to the end or to LARGEST."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._left = LARGEST

    def readable(self) -> bool:
        """It is there for nothing else."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As of a file that ends there."""
        if not self._left:
            return 0
        count = self._connection.recv_into(memoryview(buffer)[: self._left])
        self._left -= count
        return count


class _Silent(WSGIRequestHandler):
    """A scrape is no news."""

    def setup(self) -> None:
        """Read no more than a request has."""
        super().setup()
        self.rfile.close()
        self.rfile = io.BufferedReader(_Request(self.connection))

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingWSGIServer):
    """On a port that is taken already. `callers`: who is answered."""

    def __init__(self, listener: socket.socket, application: _Application, callers: Callers) -> None:
        super().__init__(("", 0), _Silent, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_name, self.server_port = "metrics", listener.getsockname()[1]
        self.setup_environ()
        self.server_activate()
        self.set_app(_asking(application, callers))
        self._tls = callers.tls
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._until: dict[socket.socket, float] = {}
        self._told = -TOLD_EVERY

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread of its own, if there is room."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # there is no thread to be had
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """That thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """One request and its answer."""
        request.settimeout(LIFE)
        if not self._tls:
            with self._lasting(request):
                super().finish_request(request, client_address)
            return
        context = self._tls.context_or_last()
        with (
            context.wrap_socket(request, server_side=True, do_handshake_on_connect=False) as connection,
            self._lasting(connection),
        ):
            connection.do_handshake()
            super().finish_request(connection, client_address)

    @contextmanager
    def _lasting(self, connection: socket.socket) -> Iterator[None]:
        self._until[connection] = time.monotonic() + LONGEST
        try:
            yield
        finally:
            del self._until[connection]

    def service_actions(self) -> None:
        """Twice a second: end what lasts too long. Whoever reads from it or writes to it is woken by that."""
        now = time.monotonic()
        for connection, until in list(self._until.items()):
            if now > until:
                with suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is no TLS client, is not known, or went away: one line a minute."""
        now = time.monotonic()
        again = now - self._told < TOLD_EVERY
        if not again:
            self._told = now
        why = sys.exception()
        level = logging.DEBUG if again else logging.WARNING
        _LOG.log(level, "a scrape from %s comes to nothing: %s", client_address[0], str(why) or type(why).__name__)


def _asking(application: _Application, callers: Callers) -> _Application:
    """The application, for whoever has the token."""
    token = callers.token
    if not token:
        return application

    def asked(environment: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if token.admits(environment.get("HTTP_AUTHORIZATION", "")):
            return application(environment, start)
        start("401 Unauthorized", [("WWW-Authenticate", "Bearer"), ("Content-Type", "text/plain")])
        return [b"send the operator's token: Authorization: Bearer TOKEN\n"]

    return asked
