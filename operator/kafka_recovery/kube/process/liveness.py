"""Whether the process lives and is ready, told to the kubelet by a thread of its own, from its start to its end.

Who waits for the Lease lives; who has it does as long as its event loop goes round. kopf would tell the latter only,
and on one family of addresses. Who waits for the Lease is ready to take it, else a rollout would never end; who has it
is once all that it watches could be listed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from kafka_recovery.kube.machinery.listening import bound

STUCK = 5.0
"""Seconds without a round of the event loop after which it is called dead; the kubelet asks several times."""

_LET_GO = 0.02
"""Seconds until the port is free again; the standard library takes half a second."""


READY = "/readyz"
"""Where readiness is asked about; everywhere else it is life."""


class Liveness:
    """`loop_age`: seconds since the event loop went round; None: there is none yet. `unready`: why it is not ready."""

    def __init__(self) -> None:
        self.loop_age: Callable[[], float | None] = lambda: None
        self.unready: Callable[[], str] = lambda: ""

    @contextmanager
    def told(self, url: str) -> Iterator[None]:
        """Answer there. Without a host, as in http://:8080/healthz, on all addresses. Raises OSError, ValueError."""
        place = urlsplit(url)
        if place.scheme != "http" or not place.port:
            raise ValueError("write it as http://:8080/healthz")
        with bound(place.port, place.hostname or "") as taken:
            server = ThreadingHTTPServer(("", 0), self._handler(), bind_and_activate=False)
            server.socket.close()
            server.socket = taken
            server.server_activate()
            thread = threading.Thread(target=server.serve_forever, args=(_LET_GO,), name="liveness", daemon=True)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                server.server_close()
                thread.join()

    def _answer(self, path: str) -> tuple[HTTPStatus, bytes]:
        if path.partition("?")[0] == READY and (why := self.unready()):
            return HTTPStatus.SERVICE_UNAVAILABLE, json.dumps({"unready": why}).encode()
        age = self.loop_age()
        if age is None:
            return HTTPStatus.OK, b"{}"
        good = age < STUCK
        said = json.dumps({"loop_age_s": round(age, 2)}).encode()
        return HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE, said

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Probed(BaseHTTPRequestHandler):
            """Whoever asks is told."""

            def do_GET(self) -> None:
                status, said = answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, format: str, *args: object) -> None:
                """A probe is no news."""

        return Probed
