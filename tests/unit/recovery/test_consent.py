"""Who said yes, to what exactly, and what is done without."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.policy import Approval, Limits, Policy, Rule, TopicSelector
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.recovery.ports import PlanFinished, PlanForAnotherCluster
from unit.recovery.world import AUTO, MANUAL, ORDERS, PAYMENTS, World, code, crash, dies_in, policy

MIXED = Policy(
    (
        Rule("payments", TopicSelector(names=("payments",)), approval=Approval.MANUAL),
        Rule("others", approval=Approval.AUTO),
    ),
    Limits(wave_sizes=(1,)),
)


def both_offline(world: World) -> None:
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)


async def test_without_approval_nothing_is_changed(world: World) -> None:
    world.offline()
    world.approver = None

    report = await world.recover(MANUAL)

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "AwaitingApproval")
    assert world.changed() == []
    assert report.plans == ()
    assert await world.open_runs() == []


async def test_with_approval_the_plan_is_carried_out_and_the_journal_knows_who_said_yes(world: World) -> None:
    world.offline()
    world.after("elect", crash)

    await dies_in(world.recover(MANUAL))

    [begun] = await world.open_runs()
    with world.journal() as journal:
        assert await journal.approver(begun) == "ann"


async def test_nobody_is_asked_where_the_policy_approves(world: World) -> None:
    world.offline()

    await world.recover(AUTO)

    assert "granted" not in world.steps.calls


async def test_only_the_part_that_needs_approval_waits_for_it(world: World) -> None:
    both_offline(world)
    world.approver = None

    report = await world.recover(MIXED)

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert code(report, PAYMENTS) == "AwaitingApproval"
    assert {request.id for request in world.kafka.requests} == {ORDERS}


async def test_the_part_that_was_denied_can_be_approved_later(world: World) -> None:
    both_offline(world)
    world.approver = None
    plan = await world.plan(MIXED)
    await world.execute(plan)
    assert world.leader(PAYMENTS) is None

    world.approver = "ann"
    report = await world.execute(plan)

    assert report.recovered
    assert world.leader(PAYMENTS) == 4
    assert world.kept_its_promises()
    assert await world.open_runs() == []


async def test_resuming_does_not_elect_what_was_denied(world: World) -> None:
    both_offline(world)
    world.approver = None
    world.before("elect", crash)
    await dies_in(world.recover(MIXED))

    world.approver = "ann"  # nobody asks her
    report = await world.resume(MIXED)

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert code(report, PAYMENTS) == "AwaitingApproval"
    assert world.leader(PAYMENTS) is None


async def test_the_stricter_of_the_plans_and_todays_policy_holds(world: World) -> None:
    world.offline()
    plan = await world.plan(AUTO)
    world.approver = None

    report = await world.execute(plan, MANUAL)

    assert code(report) == "AwaitingApproval"
    assert world.changed() == []


async def test_a_plan_that_was_executed_to_its_end_is_not_executed_again(world: World) -> None:
    world.offline()
    plan = await world.plan(MANUAL)
    await world.execute(plan)
    calls = len(world.steps.calls)

    with pytest.raises(PlanFinished, match="make a new plan"):
        await world.execute(plan)

    assert "granted" not in world.steps.calls[calls:], "nobody is asked for nothing"
    assert world.steps.calls.count("elect") == 1


async def test_a_plan_that_was_cut_short_has_its_orders_back_before_anybody_is_asked_again(world: World) -> None:
    both_offline(world)
    plan = await world.plan(policy(Approval.MANUAL, 1))
    world.after("designate", crash)
    await dies_in(world.execute(plan))
    world.calm_down()
    assert world.unrestored(), "a process died between an altered order and its election"
    altered_when_asked: list[object] = []
    world.before("granted", lambda: altered_when_asked.append(world.unrestored()))

    report = await world.execute(plan)

    assert altered_when_asked == [[]], "whoever is asked may take an hour to answer"
    assert report.recovered


async def test_nobody_is_asked_about_what_a_run_that_was_cut_short_has_elected_already(world: World) -> None:
    world.offline()
    plan = await world.plan(MANUAL)
    world.after("elect", crash)
    await dies_in(world.execute(plan))
    world.calm_down()
    asked = world.steps.calls.count("granted")

    report = await world.execute(plan)

    assert report.recovered
    assert world.steps.calls.count("granted") == asked


def left_with_less(world: World) -> None:
    """The leader's disk loses the end of its log, and the process that elected it ends."""
    world.kafka.partitions[ORDERS].ends[2] = 7
    crash()


async def test_nobody_is_asked_in_vain_after_an_election_that_a_run_left_and_that_did_not_verify(world: World) -> None:
    both_offline(world)
    plan = await world.plan(policy(Approval.MANUAL, 1))
    world.after("elect", partial(left_with_less, world))
    await dies_in(world.execute(plan))
    world.calm_down()
    asked = world.steps.calls.count("granted")

    report = await world.execute(plan)

    assert code(report, PAYMENTS) == "EarlierWaveFailed"
    assert world.steps.calls.count("granted") == asked, "whatever is answered, nothing more is elected"


async def test_executing_does_what_was_planned_and_nothing_else(world: World) -> None:
    world.offline({3: 15, 2: 27})
    plan = await world.plan()
    world.kafka.partitions[ORDERS].ends[3] = 40

    report = await world.execute(plan)

    assert report[ORDERS].outcome is Outcome.REFUSED
    assert world.changed() == []
    assert world.steps.calls.count("record") == 1


async def test_executing_after_the_clean_member_came_back_is_good_news(world: World) -> None:
    world.offline()
    plan = await world.plan()
    world.kafka.start(1, with_end=5)

    report = await world.execute(plan)

    assert report[ORDERS].outcome is Outcome.RECOVERED_CLEANLY
    assert "log end 5" in report[ORDERS].warnings[0]
    assert world.changed() == []


async def test_a_plan_for_another_cluster_is_refused_before_anybody_is_asked(world: World) -> None:
    world.offline()
    plan = await world.plan(MANUAL)
    world.kafka.id = "another-cluster"

    with pytest.raises(PlanForAnotherCluster):
        await world.execute(plan)

    assert "granted" not in world.steps.calls
    assert world.changed() == []


def changed(plan: Plan, **fields: object) -> Plan:
    decision: Decision = replace(plan.decisions[0], **fields)  # type: ignore[arg-type]
    return replace(plan, decisions=(decision,))


async def test_a_plan_written_by_hand_that_does_not_hold_together_changes_nothing(world: World) -> None:
    world.offline({3: 15, 2: 27})
    plan = await world.plan()
    one, two, three, four = map(BrokerId, (1, 2, 3, 4))
    wrong = [
        changed(plan, order=(two, three, four)),  # would be a reassignment
        changed(plan, order=(three, two, one)),  # would elect another
        changed(plan, leader=None),
        changed(plan, id=PAYMENTS),
        replace(plan, waves=()),
        replace(plan, waves=((ORDERS,), (ORDERS,))),
        replace(plan, waves=((ORDERS, TopicPartition("else", 0)),)),
        replace(plan, decisions=plan.decisions * 2),
    ]
    for bad in wrong:
        with pytest.raises(InvalidDocument):
            await world.execute(bad)

    assert world.changed() == []
