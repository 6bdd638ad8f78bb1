"""Stories of FleetRankings: from the question to the numbers in status, and all that comes in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.kube.fleet.runs import State
from kafka_recovery.kube.fleet.steps import LOOK
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.machinery.work_queue import Requeue
from kafka_recovery.kube.resources.kinds import POLICIES
from unit.kube.fleet.asked import NIGHTLY, SUMMARY, WORST
from unit.kube.fleet.spark_world import RUNNING_POD, SparkWorld, submitted
from unit.kube.journal.journals import NAMESPACE

POLICY_COPY = f"/api/v1/namespaces/{NAMESPACE}/configmaps/prod-29921040-1"


async def test_a_question_is_answered() -> None:
    world = await submitted()
    assert world.ready == ("False", "DriverPending")
    world.state("RUNNING", **RUNNING_POD)
    assert await world.look() == LOOK
    assert (world.active.state, world.active.driver) == (State.RUNNING, "driver")
    world.succeed()

    await world.look(2, minutes=3)

    assert world.ready == ("True", "Succeeded")
    assert world.message == "prod-29921040: 10 partitions of 2 clusters"
    assert world.last["outcome"] == "Succeeded"
    assert world.last["result"] == "s3://fleet/results/prod-29921040-1-0f4f8e2c"
    assert len(world.last["checksum"]) == 64
    assert world.raw["status"]["summary"] == {
        "run": "prod-29921040",
        "at": "2026-11-21T12:03:00Z",
        "clusters": 2,
        "partitions": 10,
        "lossless": 4,
        "bounded": 3,
        "unknown": 2,
        "none": 1,
    }
    assert "active" not in world.raw["status"]
    assert await world.look(days=1) is None
    assert world.applications() == ["prod-29921040-1"]


async def test_the_worst_losses_of_brokers_are_told() -> None:
    world = await submitted(task="Readiness")
    world.succeed(summary=replace(SUMMARY, worst=(WORST,) * 12))
    await world.look()

    worst = world.raw["status"]["summary"]["worst"]
    assert len(worst) == 10
    assert worst[0] == {
        "clusterId": "one",
        "failing": "brokers 3 and 7",
        "offline": 5,
        "lossless": 2,
        "bounded": 1,
        "unknown": 1,
        "none": 1,
    }


async def test_the_job_which_is_of_this_release_gets_no_field_of_a_newer_one() -> None:
    world = SparkWorld()
    world.api.put(POLICIES, "prod", {"rules": [{"name": "default", "aNewField": {"never": "on Fridays"}}]})
    await world.look(2)

    assert world.api.objects[POLICY_COPY]["data"] == {"policy.json": '{"rules": [{"name": "default"}]}'}


async def test_a_ranking_with_a_field_of_a_newer_release_runs_and_says_what_it_takes_no_notice_of() -> None:
    world = await submitted(aNewField=5)

    said = next(each for each in world.raw["status"]["conditions"] if each["type"] == "UnknownFields")
    assert "spec.aNewField may forbid something: its runs take no notice" in said["message"]


async def test_a_policy_that_changes_before_the_copy_is_made_is_the_one_that_counts() -> None:
    world = SparkWorld()
    await world.look()
    before = world.active.policy_digest
    world.api.put(POLICIES, "prod", {"rules": [{"name": "another"}]})
    await world.look(2)

    assert world.active.policy_digest != before
    assert "another" in world.api.objects[POLICY_COPY]["data"]["policy.json"]
    assert world.applications() == ["prod-29921040-1"]


# Crashes


@pytest.mark.parametrize("done", [True, False], ids=["done", "not-done"])
@pytest.mark.parametrize("write", range(8))
async def test_a_crash_at_any_write_makes_no_second_application(write: int, done: bool) -> None:
    world = SparkWorld()
    first = len(world.api.writes)
    world.api.faults[first + write] = (done, ApiError(0, "Unanswered", "cut off"))
    for _ in range(6):
        try:
            await world.look(seconds=5)
        except (ApiError, Requeue):
            continue
    world.succeed()
    for _ in range(3):
        try:
            await world.look(seconds=5)
        except (ApiError, Requeue):
            continue

    assert world.ready == ("True", "Succeeded")
    assert world.applications() == ["prod-29921040-1"]
    assert len(world.raw["status"]["runs"]) == 1


# Schedules


async def test_only_the_last_runs_are_kept() -> None:
    world = SparkWorld(schedule=NIGHTLY, history={"limit": 1})
    for _ in range(2):
        await world.look(2, hours=24)
        world.succeed()
        await world.look(2)

    assert len(world.raw["status"]["runs"]) == 1
    assert world.applications() == [world.last["application"]]
    assert len([path for path in world.api.objects if "/configmaps/" in path]) == 1


async def test_what_another_of_that_name_left_is_not_cleared_away() -> None:
    """A ranking that was deleted and made again: what it owned goes by itself, and not through us."""
    world = await submitted(retries=0)
    left = {"metadata": {"uid": "u", "labels": {"kafka-recovery.dev/fleet-ranking": "prod"}}}
    world.api.objects[f"/api/v1/namespaces/{NAMESPACE}/configmaps/left"] = left
    world.state("FAILED")
    await world.look(3)

    assert f"/api/v1/namespaces/{NAMESPACE}/configmaps/left" in world.api.objects


async def test_after_a_bad_night_it_is_stalled_until_a_good_one_and_the_last_numbers_stay() -> None:
    world = SparkWorld(schedule=NIGHTLY, retries=0)
    await world.look(2, hours=24)
    world.succeed()
    await world.look()
    await world.look(2, hours=24)
    world.state("FAILED")
    await world.look(2)

    assert world.ready == ("False", "ApplicationFailed")
    assert world.raw["status"]["summary"]["run"] == "prod-29921880"

    await world.look(2, hours=24)
    assert world.ready == ("False", "ApplicationFailed")
    world.succeed()
    await world.look()
    assert world.ready == ("True", "Succeeded")


async def test_a_ranking_that_is_gone_is_nothing_to_look_at() -> None:
    world = await submitted()
    world.api.objects.clear()

    assert await world.look() is None
