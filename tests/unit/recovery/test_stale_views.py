"""The engine's brokers are cut off with a leader that was lost: what they still believe concludes nothing."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import MetadataOffset
from kafka_recovery.domain.outcome import Outcome
from unit.recovery.brokers import APPLIED
from unit.recovery.world import AUTO, ORDERS, World, code, crash, dies_in

OLDER = MetadataOffset(APPLIED - 10)
VIEWS = pytest.mark.parametrize("applied", [OLDER, None], ids=["older metadata", "metadata that do not say how old"])
"""Old metadata are known by their offset, or where a broker does not tell it, by the leader's epoch."""


@VIEWS
async def test_a_plan_is_not_concluded_by_a_leader_that_was_lost_before_it_was_made(
    world: World, applied: MetadataOffset | None
) -> None:
    world.offline({3: 15, 2: 27})
    plan = await world.plan()
    world.kafka.cut_off(ORDERS, 1, applied)

    report = await world.execute(plan)

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert not report.recovered
    assert world.changed() == []


@VIEWS
async def test_a_leader_that_was_lost_and_falls_silent_is_no_leader_that_was_elected_either(
    world: World, applied: MetadataOffset | None
) -> None:
    """It answers the last look, and then not any more."""
    world.offline({3: 15, 2: 27})
    plan = await world.plan()
    world.kafka.cut_off(ORDERS, 1, applied)
    world.before("leaders", lambda: setattr(world.kafka.nodes[1], "busy", True))

    report = await world.execute(plan)

    assert not report.recovered
    assert world.changed() == []


@VIEWS
@pytest.mark.parametrize("anew", [False, True], ids=["gone on with", "begun anew"])
async def test_what_a_crash_cut_short_is_not_concluded_by_a_leader_that_was_lost_before_it_was_planned(
    world: World, applied: MetadataOffset | None, anew: bool
) -> None:
    world.offline({3: 15, 2: 27})
    world.before("elect", crash)
    await dies_in(world.recover())
    world.kafka.cut_off(ORDERS, 1, applied)

    report = await (world.recover(AUTO, Scope((ORDERS,))) if anew else world.resume(AUTO))

    assert not report[ORDERS].outcome.is_recovered, report
    assert world.kafka.elected == []


async def test_a_run_that_sees_only_older_metadata_than_it_was_planned_by_stays_open(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("elect", crash)
    await dies_in(world.recover())
    world.kafka.cut_off(ORDERS, 1, OLDER)

    report = await world.resume(AUTO)

    assert (report[ORDERS].outcome, report[ORDERS].order_restored) == (Outcome.IN_DOUBT, None)
    assert code(report) == "StaleMetadata"
    assert await world.open_runs() == list(report.plans)


@VIEWS
@pytest.mark.parametrize("look", [2, 3], ids=["the look before the order is set", "the plan that is made anew"])
async def test_a_recovery_is_not_concluded_by_a_leader_that_was_lost_before_it_began(
    world: World, applied: MetadataOffset | None, look: int
) -> None:
    world.offline({3: 15, 2: 27})
    if look > 2:
        world.before("designate", lambda: world.kafka.reassign(ORDERS, (1, 3, 4)))
    world.before("gather", lambda: world.kafka.cut_off(ORDERS, 1, applied), nth=look)

    report = await world.recover(AUTO, Scope((ORDERS,)))

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert world.kafka.elected == []
