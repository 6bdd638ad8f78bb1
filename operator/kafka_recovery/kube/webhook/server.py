"""Connections to the webhook. Each is one request and lives for seconds; slow ones make room for new ones.

The operator's own work goes first: floods wait in the kernel, which throws away what is too much.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.credentials import Callers
from kafka_recovery.kube.machinery.listening import bound
from kafka_recovery.kube.machinery.metrics import Heard, Metrics
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.webhook.endpoint import Endpoint
from kafka_recovery.kube.webhook.limits import Bucket, Recent
from kafka_recovery.kube.webhook.receiver import TOLD_EVERY, Receiver

_LOG = logging.getLogger(__name__)

LIFE = 10.0
"""Seconds for a connection, from its first byte to its last: headers, body, answer."""

HANDSHAKE = 5.0
"""Seconds for TLS, within that."""

MOST_CONNECTIONS = 64
AT_ONCE, A_SECOND = 100, 50
"""Connections that are taken from the kernel: a flood of them, with TLS, costs an eighth of a core."""

WAITING = 128
"""Connections that the kernel keeps meanwhile."""


_SILENT = logging.Logger("aiohttp.server of the webhook", logging.CRITICAL + 1)
"""The library tells of each request that is no HTTP; a flood of those must not fill a log."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """What an operator listens with. `callers`: their token or CA is there, or anybody could wake watchers.

    `endpoint`: where a Service is to lead, if one is.
    """

    listener: socket.socket
    callers: Callers
    endpoint: Endpoint | None = None


def opened(port: int, callers: Callers, endpoint: Endpoint | None = None) -> Webhook:
    """Check all that can be checked before anything begins. Raises BadCredentials, OSError for the port."""
    callers.check()
    return Webhook(bound(port), callers, endpoint)


class WebhookServer:
    """`wake`: have the watcher of a cluster look; returns why that can't be."""

    def __init__(
        self,
        webhook: Webhook,
        wake: Callable[[Key], Reason | None],
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        life: float = LIFE,
    ) -> None:
        self._webhook = webhook
        self._receiver = Receiver(wake, webhook.callers.token, metrics, clock)
        self._metrics = metrics
        self._life = life
        self._pace = Bucket(AT_ONCE, A_SECOND)
        self._told = Recent(TOLD_EVERY, 1)
        self._connections: dict[asyncio.Task[None], None] = {}

    async def run(self) -> None:
        """Until it is cancelled. What goes wrong here ends nothing else."""
        self._metrics.webhook_open()
        listener = self._webhook.listener
        listener.setblocking(False)
        listener.listen(WAITING)
        callers = self._webhook.callers
        ways = [("a bearer token", callers.token), ("TLS", callers.tls)]
        _LOG.info("alerts are heard on port %d (%s)", self.port, " and ".join(name for name, way in ways if way))
        try:
            while True:
                try:
                    await self._accept(listener)
                except OSError as error:  # such as no file descriptors left
                    _LOG.warning("no connection can be taken, is tried again in a second: %s", error)
                    await asyncio.sleep(1)
        finally:
            listener.close()
            await self._end()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._webhook.listener.getsockname()[1])

    @property
    def endpoint(self) -> Endpoint | None:
        """The Pod that a Service is to lead to, if one is."""
        return self._webhook.endpoint

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while wait := self._pace.take(loop.time()):
            await asyncio.sleep(wait)
        connection, _ = await loop.sock_accept(listener)
        if len(self._connections) >= MOST_CONNECTIONS:
            oldest = next(iter(self._connections))
            del self._connections[oldest]
            oldest.cancel()
            self._metrics.heard(Heard.CUT_OFF)
        task = asyncio.create_task(self._serve(connection), name="webhook connection")
        self._connections[task] = None
        task.add_done_callback(lambda done: self._connections.pop(done, None))

    async def _serve(self, connection: socket.socket) -> None:
        """A connection's whole life."""
        loop = asyncio.get_running_loop()
        server = _OneConnection(self._receiver.answer)
        transport: asyncio.Transport | None = None
        files = self._webhook.callers.tls
        tls = files.context_or_last() if files else None
        try:
            async with asyncio.timeout(self._life):
                transport, _ = await loop.connect_accepted_socket(
                    server, connection, ssl=tls, ssl_handshake_timeout=HANDSHAKE if tls else None
                )
                await server.lost.wait()
        except TimeoutError:
            self._metrics.heard(Heard.TOO_SLOW)
        except (ssl.SSLError, OSError) as error:
            self._metrics.heard(Heard.UNAUTHENTICATED if tls else Heard.INVALID)
            level = logging.DEBUG if self._told.again("refused", loop.time()) else logging.WARNING
            _LOG.log(level, "a connection is refused: %s", str(error) or type(error).__name__)
        finally:
            if transport:
                transport.abort()
            connection.close()

    async def _end(self) -> None:
        left = list(self._connections)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class _OneConnection(web.Server):
    """aiohttp's server, for one connection, that tells when it is over."""

    def __init__(self, answer: Callable[[web.BaseRequest], object]) -> None:
        # Compressed bodies are refused, so nothing may unpack them; a sender that goes on after its answer is cut off.
        super().__init__(answer, access_log=None, logger=_SILENT, auto_decompress=False, lingering_time=0.2)  # type: ignore[arg-type]
        self.lost = asyncio.Event()

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """The client, or we, closed it."""
        super().connection_lost(handler, exc)
        self.lost.set()
