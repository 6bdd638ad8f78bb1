"""An API server that answers by a script, over real sockets; nothing of ours is replaced."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from kafka_recovery.kube.machinery.api import CONNECTIONS, Api, Effort, Fence, unfenced
from kafka_recovery.kube.process.session import ServiceAccountToken

HURRIED = Effort(
    deadline=timedelta(seconds=10),
    attempt=timedelta(seconds=10),
    first_pause=timedelta(milliseconds=1),
    longest_pause=timedelta(milliseconds=5),
)

OVER = web.AppKey("over", asyncio.Event)


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    params: dict[str, str]
    content_type: str
    authorization: str
    body: Any


Answer = Callable[[web.Request], Any]


@dataclass
class FakeServer:
    """Answers by a script, one entry a request; the last one again and again."""

    script: list[web.Response | Answer]
    asked: list[Asked] = field(default_factory=list)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        self.asked.append(
            Asked(
                request.method,
                request.path,
                dict(request.query),
                request.headers.get("Content-Type", ""),
                request.headers.get("Authorization", ""),
                json.loads(raw) if raw else None,
            )
        )
        answer = self.script[0] if len(self.script) == 1 else self.script.pop(0)
        if isinstance(answer, web.Response):
            return answer
        made: web.StreamResponse = await answer(request)
        return made


def object_(content: Any, status: int = 200, **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(content, status=status, headers=headers)

    return answer


def refusal(status: int, reason: str = "", message: str = "no", **headers: str) -> Answer:
    content = {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}
    return object_(content, status, **headers)


async def hang_up(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def silence(request: web.Request) -> web.Response:
    await request.app[OVER].wait()
    return web.Response()


@asynccontextmanager
async def staged(
    *script: Answer,
    fence: Fence = unfenced,
    effort: Effort = HURRIED,
    token: ServiceAccountToken | None = None,
    at_once: int = CONNECTIONS,
) -> AsyncIterator[tuple[Api, FakeServer]]:
    fake = FakeServer(list(script))
    app = web.Application()
    app[OVER] = fake.over
    app.router.add_route("*", "/{anything:.*}", fake.handle)
    middlewares = [token] if token else []
    async with TestServer(app) as server, aiohttp.ClientSession(middlewares=middlewares) as session:
        yield Api(session, str(server.make_url("/")), fence, effort, at_once), fake
        fake.over.set()
