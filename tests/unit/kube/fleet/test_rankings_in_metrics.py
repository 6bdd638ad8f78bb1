"""What Prometheus is told of FleetRankings: the same as status says, by whichever process."""

from __future__ import annotations

from datetime import UTC, datetime

from kafka_recovery.kube.machinery.metrics import Metrics, labelled
from kafka_recovery.kube.resources.kinds import RANKINGS
from unit.kube.fleet.asked import NIGHTLY
from unit.kube.fleet.spark_world import KEY, SparkWorld, submitted

LABEL = "/".join(KEY)


def shown(world: SparkWorld, name: str, **labels: str) -> float | None:
    return world.metrics.registry.get_sample_value(f"kafka_recovery_fleet_{name}", labelled(LABEL) | labels)


async def test_a_run_that_succeeds_is_counted_once_and_shown_by_the_next_process_too() -> None:
    world = await submitted()
    world.state("RUNNING")
    world.succeed()
    await world.look(3, minutes=3)

    assert shown(world, "runs_total", outcome="Succeeded") == 1
    assert shown(world, "run_seconds_sum") == 180
    assert shown(world, "last_run_succeeded") == 1

    world.metrics = Metrics()
    await world.look()
    assert shown(world, "runs_total", outcome="Succeeded") == 0, "counters begin anew, as Prometheus expects"
    assert shown(world, "last_run_succeeded") == 1
    at = datetime.fromisoformat(world.raw["status"]["summary"]["at"])
    assert shown(world, "last_success_timestamp_seconds") == at.timestamp()
    assert shown(world, "result_due_timestamp_seconds") is None, "without a schedule nothing is due"


async def test_a_result_is_due_from_the_first_run_on_and_stays_so_until_there_is_one() -> None:
    world = SparkWorld(schedule=NIGHTLY)
    await world.look()
    due = shown(world, "result_due_timestamp_seconds")
    assert due
    assert datetime.fromtimestamp(due, UTC) > world.now

    world.api.installed.clear()
    await world.look(days=3)
    assert shown(world, "result_due_timestamp_seconds") == due, "three nights without a result"

    world.raw["spec"]["suspend"] = True
    await world.look()
    assert shown(world, "result_due_timestamp_seconds") is None


async def test_a_ranking_that_is_gone_is_shown_no_more() -> None:
    world = await submitted()
    del world.api.objects[RANKINGS.path(*KEY)]
    await world.look()

    assert LABEL not in world.metrics.exposition().decode()
