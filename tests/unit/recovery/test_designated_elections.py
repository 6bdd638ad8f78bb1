"""The engine where an election names its leader (KIP-1275): no assignment order is altered, and none is put back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.recovery.wave import FRESH
from unit.recovery.brokers import Crash, Fate
from unit.recovery.world import ORDERS, World, dies_in


def dies() -> None:
    """The process of the engine."""
    raise Crash


@pytest.fixture
def named(world: World) -> World:
    """Broker 1 led orders-0 and is gone; broker 2, the last of the assignment, has the longest log."""
    world.kafka.designates = True
    world.offline({3: 15, 2: 27})
    return world


async def test_the_best_survivor_leads_and_the_order_was_never_another_one(named: World) -> None:
    named.after("designate", lambda: named.steps.calls.append(str(named.kafka.partitions[ORDERS].assignment)))

    report = await named.recover()

    assert report.outcomes[0].outcome is Outcome.RECOVERED
    assert report.outcomes[0].order_restored
    assert named.kafka.elected == [(ORDERS, 2)]
    assert "(1, 3, 2)" in named.steps.calls


async def test_an_order_that_nobody_altered_is_not_taken_for_somebody_elses_after_a_pause(named: World) -> None:
    """The last look is too old by then, and another one finds the order as it was planned."""
    named.after("designate", lambda: named.clock.advance(2 * FRESH))

    report = await named.recover()

    assert report.outcomes[0].outcome is Outcome.RECOVERED
    assert named.steps.calls.count("designate") == 1


async def test_a_designated_leader_that_may_not_lead_is_an_error_and_nobody_else_leads(named: World) -> None:
    """By order the controller would take the next one."""
    named.before("elect", lambda: named.kafka.fence(2))

    plan = await named.plan()
    report = await named.execute(plan)

    assert report.outcomes[0].outcome is Outcome.REFUSED
    assert named.kafka.partitions[ORDERS].leader is None


async def test_an_order_that_somebody_else_sets_is_left_alone(named: World) -> None:
    """It is the very one that the other driver would have set, and have put back."""
    named.after("elect", lambda: named.kafka.reassign(ORDERS, (2, 3, 1)))

    report = await named.recover()

    assert report.outcomes[0].outcome is Outcome.RECOVERED
    assert report.outcomes[0].order_restored
    assert named.kafka.partitions[ORDERS].assignment == (2, 3, 1)


async def test_a_run_that_was_cut_short_is_gone_on_with(named: World) -> None:
    named.after("elect", dies)
    await dies_in(named.recover())

    report = await named.resume()

    assert report.outcomes[0].outcome is Outcome.RECOVERED
    assert named.kafka.elected == [(ORDERS, 2)]


async def test_an_election_whose_answer_is_lost_is_waited_for_and_not_held_again(named: World) -> None:
    named.kafka.elect_fates = [Fate.LATE]

    report = await named.recover()

    assert report.outcomes[0].outcome is Outcome.RECOVERED
    assert named.kafka.elected == [(ORDERS, 2)]
    assert named.waited_out()


async def test_a_plan_by_hand_may_not_alter_an_order_there(named: World) -> None:
    plan = await named.plan()
    (decision,) = plan.decisions
    for order, leader in (((2, 3, 1), 2), (decision.assignment, 4)):
        bad = replace(decision, order=tuple(map(BrokerId, order)), leader=BrokerId(leader))
        with pytest.raises(InvalidDocument, match="order"):
            await named.execute(replace(plan, decisions=(bad,)))

    assert named.changed() == []
