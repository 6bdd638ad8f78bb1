"""What kopf would die of is waited for: kinds that are not served, missing rights, an API server that is away."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kopf._cogs.clients.api import iter_jsonlines

from kafka_recovery.kube.machinery.api import Api, unfenced
from kafka_recovery.kube.process.reach import KINDS, Answer, Paces, Reach
from unit.kube.staged_server import HURRIED

API = "/apis/kafka-recovery.dev/v1alpha1"
HERE = f"{API}/namespaces/here/watchedclusters"
MOMENT = timedelta(milliseconds=20)
HURRY = Paces(served=MOMENT, allowed=MOMENT, answered=MOMENT, doubt=MOMENT)
USER = "system:serviceaccount:here:operator"
SAID = "kafka_recovery.kube.process.reach"


@dataclass
class Kubernetes:
    """An API server that serves some kinds, refuses some namespaces, and is away at times."""

    served: set[str] = field(default_factory=lambda: set(KINDS))
    refused: set[tuple[str, str]] = field(default_factory=set)
    status: int | None = None
    late: int = 0
    """So many more answers in which the list of groups lacks ours."""
    asked: list[str] = field(default_factory=list)
    items: list[Any] | None = field(default_factory=list)
    forms: dict[str, str] = field(default_factory=dict)
    """In which each was wanted, by the last part of its path."""

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if request.path == "/apis":
            self.late -= 1
            ours = [{"name": "kafka-recovery.dev"}] if self.late < 0 else []
            return web.json_response({"groups": [{"name": "apps"}, *ours]})
        if request.path == API:
            if not self.served:
                return web.Response(text="404 page not found", status=404)
            return web.json_response({"resources": [{"name": each} for each in sorted(self.served)]})
        return self._collection(request)

    def _collection(self, request: web.Request) -> web.Response:
        *_, namespace, plural = request.path.split("/")
        self.forms[plural] = request.headers["Accept"]
        if self.status:
            return web.json_response({"kind": "Status"}, status=self.status)
        if plural not in self.served:
            return web.Response(text="404 page not found", status=404)
        if (namespace, "watch" if "watch" in request.query else "list") in self.refused:
            message = f'{plural} is forbidden: User "{USER}" cannot list resource "{plural}"'
            return web.json_response({"kind": "Status", "message": message}, status=403)
        return web.json_response({"items": self.items})


@asynccontextmanager
async def kopf(kubernetes: Kubernetes, paces: Paces = HURRY) -> AsyncIterator[Callable[..., Any]]:
    """What kopf's session answers: the status of a GET, once there is one."""
    app = web.Application()
    app.router.add_route("*", "/{anything:.*}", kubernetes.handle)
    async with TestServer(app) as server, aiohttp.ClientSession() as ours:
        url = str(server.make_url("/")).rstrip("/")
        reach = Reach(Api(ours, url, unfenced, HURRIED), paces)
        async with aiohttp.ClientSession(middlewares=[reach], response_class=Answer) as session:

            async def get(path: str, **params: str) -> int:
                async with session.get(url + path, params=params) as response:
                    content = await response.json()
                    assert content.get("items", []) == [], "kopf goes through them"
                    return response.status

            yield get


async def still_waits(task: asyncio.Task[int]) -> bool:
    for _ in range(15):  # a pause of this process takes away one of them
        await asyncio.sleep(MOMENT.total_seconds())
    return not task.done()


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, SAID)
    return lambda: [record.getMessage() for record in caplog.records if record.name == SAID]


async def test_the_kinds_are_looked_for_until_all_are_there(said: Callable[[], list[str]]) -> None:
    kubernetes = Kubernetes(served=set())
    async with kopf(kubernetes) as get:
        scan = asyncio.create_task(get("/apis"))
        assert await still_waits(scan)
        kubernetes.served |= KINDS - {"watchedclusters"}
        assert await still_waits(scan)
        kubernetes.served |= KINDS

        assert await scan == 200

    lacks = "waiting for CustomResourceDefinitions that the API server lacks"
    every = ", ".join(f"{plural}.kafka-recovery.dev" for plural in sorted(KINDS))
    assert said() == [
        f"{lacks}: {every}",
        f"{lacks}: watchedclusters.kafka-recovery.dev",
        "the API server serves all kinds of kafka-recovery.dev now: going on",
    ]


async def test_a_list_of_groups_that_is_a_little_late_is_asked_for_again() -> None:
    """kopf takes it as it is, once."""
    kubernetes = Kubernetes(late=2)
    async with kopf(kubernetes) as get:
        assert await get("/apis") == 200

    assert kubernetes.asked.count("/apis") == 3


@pytest.mark.parametrize("params", [{}, {"watch": "true"}], ids=["list", "watch"])
async def test_a_kind_that_goes_is_waited_for(said: Callable[[], list[str]], params: dict[str, str]) -> None:
    kubernetes = Kubernetes()
    async with kopf(kubernetes) as get:
        kubernetes.served.remove("watchedclusters")
        asking = asyncio.create_task(get(HERE, **params))
        assert await still_waits(asking)
        assert await get(f"{API}/namespaces/here/partitionrecoveries") == 200
        kubernetes.served |= KINDS

        assert await asking == 200

    assert said() == [
        "waiting for CustomResourceDefinitions that the API server lacks: watchedclusters.kafka-recovery.dev",
        "the API server serves all kinds of kafka-recovery.dev now: going on",
    ]


@pytest.mark.parametrize(
    ("params", "form"),
    [({}, "PartialObjectMetadataList"), ({"watch": "true"}, "PartialObjectMetadata")],
    ids=["list", "watch"],
)
async def test_kopf_is_told_metadata_alone_but_of_an_approval_also_what_it_is_about(
    params: dict[str, str], form: str
) -> None:
    """A page of the largest recoveries would take a gigabyte."""
    kubernetes = Kubernetes()
    async with kopf(kubernetes) as get:
        for plural in KINDS:
            assert await get(f"{API}/namespaces/here/{plural}", **params) == 200

    metadata = f"application/json;as={form};v=v1;g=meta.k8s.io"
    wanted = dict.fromkeys(KINDS, metadata) | {"recoveryapprovals": "application/json"}
    assert kubernetes.forms == wanted


async def test_a_list_of_metadata_that_is_null_has_no_items() -> None:
    """So the API server says that there are none."""
    async with kopf(Kubernetes(items=None)) as get:
        assert await get(HERE) == 200


@pytest.mark.parametrize(
    ("error", "passed"),
    [
        ({"kind": "Status", "code": 500, "message": "etcdserver: request timed out"}, {"code": 410}),
        ({"kind": "Status"}, {"code": 410}),
        ({"kind": "Status", "code": 410}, {"kind": "Status", "code": 410}),
    ],
    ids=["an outage", "none that can be read", "one that kopf knows"],
)
async def test_an_error_in_the_middle_of_a_watch_has_kopf_list_anew_and_ends_nothing(
    said: Callable[[], list[str]], error: dict[str, Any], passed: dict[str, Any]
) -> None:
    added = {"type": "ADDED", "object": {"metadata": {"name": "prod", "annotations": {"says": "ERROR" * 9000}}}}
    events = [added, {"type": "ERROR", "object": error}]

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for each in events:
            await response.write(json.dumps(each, separators=(",", ":")).encode() + b"\n")
        return response

    app = web.Application()
    app.router.add_get("/{anything:.*}", handle)
    async with TestServer(app) as server, aiohttp.ClientSession() as ours:
        reach = Reach(Api(ours, str(server.make_url("")), unfenced, HURRIED), HURRY)
        async with (
            aiohttp.ClientSession(middlewares=[reach], response_class=Answer) as session,
            session.get(server.make_url(HERE), params={"watch": "true"}) as response,
        ):
            heard = [json.loads(line) async for line in iter_jsonlines(response.content)]

    assert heard == [added, {"type": "ERROR", "object": passed}]
    assert len(said()) == (error != passed)


async def test_what_lacks_in_a_namespace_is_one_line_and_the_other_namespaces_are_answered(
    said: Callable[[], list[str]],
) -> None:
    kubernetes = Kubernetes(refused={("there", "list")})
    async with kopf(kubernetes) as get:
        asking = [asyncio.create_task(get(f"{API}/namespaces/there/{plural}")) for plural in sorted(KINDS)]
        assert await get(HERE) == 200
        assert await still_waits(asking[0])
        kubernetes.refused.clear()

        assert await asyncio.gather(*asking) == [200] * 4

    lacking, *more, over = said()
    kinds = ", ".join(sorted(KINDS))
    assert lacking.startswith(
        f'the operator ("{USER}") lacks the right to list {kinds} (kafka-recovery.dev) in namespace there: '
    )
    assert (more, over) == ([], "the rights that were missing in namespace there are there now: going on")


async def test_who_may_list_and_not_watch_is_told_that_verb(said: Callable[[], list[str]]) -> None:
    kubernetes = Kubernetes(refused={("here", "watch")})
    async with kopf(kubernetes) as get:
        assert await get(HERE) == 200
        watching = asyncio.create_task(get(HERE, watch="true"))
        assert await still_waits(watching)
        watching.cancel()

    assert "lacks the right to watch watchedclusters (kafka-recovery.dev) in namespace here" in said()[0]


async def test_without_a_cluster_role_all_namespaces_are_named(said: Callable[[], list[str]]) -> None:
    kubernetes = Kubernetes(refused={("v1alpha1", "list")})
    async with kopf(kubernetes) as get:
        asking = asyncio.create_task(get(f"{API}/watchedclusters"))
        assert await still_waits(asking)
        asking.cancel()

    assert "in all namespaces: nobody looks at them until it has it; it gets it by a ClusterRole" in said()[0]


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_an_api_server_that_answers_nothing_useful_is_asked_again_and_told_once(
    said: Callable[[], list[str]], status: int
) -> None:
    kubernetes = Kubernetes(status=status)
    async with kopf(kubernetes) as get:
        asking = [asyncio.create_task(get(f"{API}/namespaces/{where}/watchedclusters")) for where in "abc"]
        assert await still_waits(asking[0])
        kubernetes.status = None

        assert await asyncio.gather(*asking) == [200] * 3

    told, over = said()
    assert told.startswith(f"the API server answers no list of watchedclusters: {status} ")
    assert over == "the API server answers all lists and watches again"


async def test_what_is_over_in_a_moment_is_not_told(said: Callable[[], list[str]]) -> None:
    kubernetes = Kubernetes(status=429)

    async def pass_by() -> None:
        await asyncio.sleep(0.01)
        kubernetes.status = None

    async with kopf(kubernetes, replace(HURRY, doubt=timedelta(seconds=10))) as get:
        status, _ = await asyncio.gather(get(HERE), pass_by())

    assert status == 200
    assert said() == []


async def test_what_is_no_list_of_ours_is_none_of_our_business() -> None:
    kubernetes = Kubernetes(served=set())
    async with kopf(kubernetes) as get:
        with pytest.raises(aiohttp.ContentTypeError):
            await get("/apis/apps/v1/deployments")
