"""A recovery that is resumed acts on what is its own now: another one may have some of its partitions by then."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import End, Outcome
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.resources.kinds import POLICIES
from unit.kube.operated import Going, Operated, died
from unit.kube.our_objects import inhabited
from unit.recovery.world import ORDERS, PAYMENTS, World, crash


@pytest.fixture
def two(world: World) -> Operated:
    """A recovery of two partitions, one after the other."""
    world.offline({3: 8, 4: 9}, PAYMENTS)
    operated = Operated(world, inhabited(ORDERS, PAYMENTS), (ORDERS, PAYMENTS))
    operated.api.change(POLICIES, "rules", limits={"waveSizes": [1]})
    return operated


async def crashed_in_its_first_wave(operated: Operated) -> tuple[TopicPartition, TopicPartition]:
    """Its process ended with an order altered; returns that partition, and the one that was never begun."""
    operated.world.after("designate", crash)
    await died(operated)
    (begun,) = operated.world.unrestored()
    return begun, PAYMENTS if begun == ORDERS else ORDERS


async def test_what_another_recovery_has_by_now_is_not_elected_and_the_rest_is(two: Operated) -> None:
    begun, other = await crashed_in_its_first_wave(two)
    two.elsewhere = {other: "younger"}

    going = await Going.up_to(Phase.STUCK, two.process())
    said = going.run.progress.outcomes[other]

    assert said.reason
    assert (said.outcome, said.reason.code) == (Outcome.REFUSED, "InOtherRecovery")
    assert "younger" in said.reason.message
    assert (two.world.leader(begun) is None, two.world.leader(other)) == (False, None)
    assert two.world.kept_its_promises()


async def test_it_is_elected_once_the_other_recovery_lets_go_of_it(two: Operated) -> None:
    _, other = await crashed_in_its_first_wave(two)
    two.elsewhere = {other: "younger"}
    going = await Going.up_to(Phase.STUCK, two.process())
    two.elsewhere = {}

    assert await going.end() is End.RECOVERED


async def test_an_order_that_it_altered_is_put_back_also_where_another_recovery_is(
    two: Operated,
) -> None:
    begun, other = await crashed_in_its_first_wave(two)
    two.elsewhere = {begun: "older"}
    going = await Going.up_to(Phase.STUCK, two.process())

    assert two.world.unrestored() == []
    assert (two.world.leader(begun), two.world.leader(other) is None) == (None, False)
    two.elsewhere = {}
    assert await going.end() is End.RECOVERED
    assert two.world.kept_its_promises()


async def test_while_it_elects_the_rest_of_its_plan_no_other_recovery_takes_that(two: Operated) -> None:
    await crashed_in_its_first_wave(two)
    run, held = two.process(), list[frozenset[TopicPartition]]()
    two.world.before("elect", lambda: held.append(run.holds))

    assert await Going.to_its_end(run) is End.RECOVERED
    assert all(each >= {ORDERS, PAYMENTS} for each in held)
    assert held
