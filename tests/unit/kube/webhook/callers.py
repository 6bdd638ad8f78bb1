"""Somebody who calls a webhook on real sockets, with manners or without."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.credentials import Callers, TlsFiles, TokenFile
from kafka_recovery.kube.machinery.listening import bound
from kafka_recovery.kube.machinery.metrics import Heard, Metrics
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.webhook.server import Webhook, WebhookServer
from unit.kube.webhook.payloads import payload

TOKEN = "a-token-of-twenty-four-c"
BEARER = f"Authorization: Bearer {TOKEN}"
UNKNOWN = Reason("InvalidReference", "there is no such WatchedCluster")


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` 0: the connection ended without one."""

    status: int
    headers: str
    body: str

    @property
    def said(self) -> dict[str, object]:
        said: dict[str, object] = json.loads(self.body)
        return said


@dataclass
class World:
    """A webhook for cluster kafka/prod, with a clock that a test turns. `woken`: whom it woke."""

    port: int = 0
    now: float = 0.0
    woken: list[Key] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)

    def wake(self, key: Key) -> Reason | None:
        if key != ("kafka", "prod"):
            return UNKNOWN
        self.woken.append(key)

    def counted(self, what: Heard) -> float:
        labels = {"outcome": what.value}
        return self.metrics.registry.get_sample_value("kafka_recovery_webhook_requests_total", labels) or 0

    async def connect(self, tls: ssl.SSLContext | None = None) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=tls)

    async def post(
        self, body: bytes | None = None, *headers: str, line: str = "POST /alerts", tls: ssl.SSLContext | None = None
    ) -> Answer:
        """One request with the token, unless it has headers of its own."""
        body = payload() if body is None else body
        fields = "\r\n".join(("Host: x", *(headers or (BEARER,)), f"Content-Length: {len(body)}"))
        return await self.send(f"{line} HTTP/1.1\r\n{fields}\r\n\r\n".encode() + body, tls)

    async def send(self, raw: bytes, tls: ssl.SSLContext | None = None) -> Answer:
        """These bytes, and what comes back until the other side closes."""
        reader, writer = await self.connect(tls)
        with suppress(ConnectionError):
            writer.write(raw)
            await writer.drain()
        return await ended(reader, writer)


async def ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Answer:
    came = b""
    async with asyncio.timeout(10):
        with suppress(ConnectionError, ssl.SSLError):
            while chunk := await reader.read(65536):
                came += chunk
    writer.close()
    head, _, body = came.decode().partition("\r\n\r\n")
    return Answer(int(head.split(" ")[1]) if head else 0, head, body)


@asynccontextmanager
async def listening(token: Path | None, tls: TlsFiles | None = None, life: float = 10) -> AsyncIterator[World]:
    world = World()
    webhook = Webhook(bound(0), Callers(TokenFile(token) if token else None, tls))
    started = WebhookServer(webhook, world.wake, world.metrics, clock=lambda: world.now, life=life)
    world.port = started.port
    task = asyncio.create_task(started.run())
    await asyncio.sleep(0)
    try:
        yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.01)
