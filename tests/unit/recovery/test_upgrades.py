"""A journal outlives an upgrade. `data/journals` was written by an earlier release, and is never written anew.

Each run there was cut short: `designated` before the election of orders-0 was asked for, `in_doubt` when that of
payments-0 was not answered by broker 3.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import CandidateOrder, Policy
from kafka_recovery.formats.documents import digest_of_canonical
from kafka_recovery.recovery.requests import request_of
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import MANUAL, ORDERS, PAYMENTS, World

JOURNALS = Path(__file__).parent / "data" / "journals"
RUN = "73885814b8845801"
AS_IT_WAS = Policy((replace(MANUAL.rules[0], candidate_order=CandidateOrder.EPOCH_FIRST),), MANUAL.limits)
"""A rule that named no candidate order had this one."""


async def left_by_an_earlier_release(world: World, name: str, altered: TopicPartition) -> str:
    """Its journal, and the cluster as it left it; returns the plan's digest."""
    world.offline()
    world.offline(id=PAYMENTS)
    shutil.copytree(JOURNALS / name, world.directory)
    plan = world.directory / CLUSTER / RUN / "plan.json"
    whole = digest_of_canonical(plan.read_bytes())
    with world.journal() as journal:
        decided = journal.plan(whole)
    held = world.kafka.partitions[altered]
    held.assignment = decided.elections[altered].order
    world.durable.update(map(request_of, decided.elections.values()))
    world.approved[whole] = "ann"
    assert world.unrestored() == [altered]
    return whole


async def test_a_run_of_an_earlier_release_that_had_designated_is_resumed(world: World) -> None:
    await left_by_an_earlier_release(world, "designated", ORDERS)

    report = await world.resume(AS_IT_WAS)

    assert [outcome.outcome for outcome in report.outcomes] == [Outcome.RECOVERED] * 2
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_a_run_of_an_earlier_release_that_had_designated_is_undone(world: World) -> None:
    whole = await left_by_an_earlier_release(world, "designated", ORDERS)

    report = await world.undo()

    assert report.plans == (whole,)
    assert world.kept_its_promises()
    assert world.kafka.elected == []
    assert await world.open_runs() == []


async def test_a_request_of_an_earlier_release_is_waited_for_at_the_broker_that_it_went_through(world: World) -> None:
    await left_by_an_earlier_release(world, "in_doubt", PAYMENTS)
    world.kafka.elect_uncleanly(ORDERS, 2)
    world.kafka.nodes[3].mute = True

    silent = await world.resume(AS_IT_WAS)
    assert {outcome.reason.code for outcome in silent.outcomes if outcome.reason} == {"RelaySilent"}
    assert world.changed() == []

    world.kafka.nodes[3].mute = False
    report = await world.resume(AS_IT_WAS)

    assert [outcome.outcome for outcome in report.outcomes] == [Outcome.RECOVERED] * 2
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_a_plan_with_a_field_of_a_newer_release_is_not_read_as_if_it_had_none(world: World) -> None:
    await left_by_an_earlier_release(world, "designated", ORDERS)
    run = world.directory / CLUSTER / RUN
    raw = (run / "plan.json").read_bytes().replace(b'{"format":2,', b'{"format":2,"throttle":7,')
    newer = digest_of_canonical(raw)
    (run / "plan.json").write_bytes(raw)
    run.rename(run.with_name(newer[:16]))

    report = await world.resume(AS_IT_WAS)

    assert "throttle: this release knows no such field" in report.damaged[0].message
    assert {outcome.outcome for outcome in report.outcomes} == {Outcome.IN_DOUBT}
    assert world.changed() == []
