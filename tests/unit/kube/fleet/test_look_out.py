"""FleetRankings are found without a watch, and what is wrong with them is nobody else's trouble."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast

import pytest

from kafka_recovery.kube.fleet.look_out import LookOut
from kafka_recovery.kube.machinery.api import Api, ApiError, NotServed
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.resources.kinds import RANKINGS
from unit.kube.fleet.spark_world import KEY, SparkWorld
from unit.kube.journal.journals import NAMESPACE

NOWHERE = {"evidence": "s3://fleet/evidence", "results": "s3://fleet/results"}
UNSERVED = NotServed(404, "NotServed", "no such kind")
FORBIDDEN = ApiError(403, "Forbidden", "cannot list resource")


@asynccontextmanager
async def looking_out(world: SparkWorld, *namespaces: str) -> AsyncIterator[asyncio.Task[None]]:
    api, events = cast(Api, world.api), cast(Events, world.events)
    out = LookOut(api, events, Metrics(), namespaces, every=timedelta(milliseconds=5))
    task = asyncio.create_task(out.run())
    yield task
    assert await out.stop(timedelta(seconds=1)) == []
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def until(true: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.005)


async def test_what_is_created_and_what_is_changed_is_looked_at() -> None:
    world = SparkWorld(storage=NOWHERE)
    async with looking_out(world, NAMESPACE):
        await until(lambda: world.raw["status"])
        assert (world.ready, "--fleet-results" in world.message) == (("False", "InvalidSpec"), True)

        world.ask(task="Dance")
        await until(lambda: world.ready == ("False", "InvalidSpec"))


async def test_what_the_operator_wrote_itself_wakes_nobody() -> None:
    world = SparkWorld(storage=NOWHERE)
    async with looking_out(world, NAMESPACE):
        await until(lambda: world.raw["status"])
        await asyncio.sleep(0.02)
        looks = world.api.reads.count(RANKINGS.path(*KEY))
        lists = len(world.api.reads)
        await until(lambda: len(world.api.reads) > lists + 5)

    assert world.api.reads.count(RANKINGS.path(*KEY)) == looks


async def test_nothing_is_written_about_one_that_is_deleted() -> None:
    world = SparkWorld(storage=NOWHERE)
    async with looking_out(world, NAMESPACE):
        await until(lambda: world.raw["status"])
        world.api.remove(RANKINGS, "prod")
        await asyncio.sleep(0.03)

    assert RANKINGS.path(*KEY) not in world.api.objects


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (UNSERVED, "their definition is not there (crds/fleetrankings.yaml)"),
        (FORBIDDEN, "lacks a right (manifests/rbac/optional/fleet.yaml)"),
        (ApiError(503, "ServiceUnavailable", "later"), "503 ServiceUnavailable"),
    ],
)
async def test_where_they_can_t_be_listed_it_is_said_once_and_tried_again(
    error: ApiError, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    world, asked = SparkWorld(storage=NOWHERE), 0

    def refuse(path: str) -> None:
        nonlocal asked
        asked += 1
        if asked < 5:
            raise error

    world.api._read = refuse  # type: ignore[method-assign]
    with caplog.at_level(logging.INFO):
        async with looking_out(world, NAMESPACE):
            await until(lambda: world.raw["status"])

    (told, again) = [each.getMessage() for each in caplog.records if "looked after" in each.getMessage()]
    assert says in told
    assert again == f"FleetRankings of namespace {NAMESPACE} are looked after"


async def test_an_error_of_our_own_does_not_end_the_process(caplog: pytest.LogCaptureFixture) -> None:
    world = SparkWorld(storage=NOWHERE)
    world.api.objects[RANKINGS.path(NAMESPACE, "odd")] = {"metadata": {}}
    async with looking_out(world, NAMESPACE) as task:
        await until(lambda: "met an internal error" in caplog.text)
        assert not task.done()
        del world.api.objects[RANKINGS.path(NAMESPACE, "odd")]
        await until(lambda: world.raw["status"])
