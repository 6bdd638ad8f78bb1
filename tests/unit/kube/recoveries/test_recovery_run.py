"""One recovery's way: what was begun is gone on with, and what was shown can still be approved."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from kafka_recovery.domain.election import Answer, Relay
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import End
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.resources.kinds import FINALIZER, RECOVERIES
from unit.kube.journal.journals import NAME, NAMESPACE, unowned
from unit.kube.operated import Going, Operated, died, plans
from unit.recovery.brokers import Fate
from unit.recovery.world import ORDERS, crash
from unit.virtual import in_no_time

MINUTE = timedelta(minutes=1)
# To the end


async def test_an_election_that_does_not_verify_ends_it_as_failed(automatic: Operated) -> None:
    automatic.world.after("elect", lambda: automatic.world.kafka.elect_uncleanly(ORDERS, 3))

    going = Going(automatic.process())

    assert (await going.end(), going.run.progress.reason.code) == (End.FAILED, "Failed")


def test_what_is_gone_needs_nothing_more(automatic: Operated) -> None:
    del automatic.world.kafka.partitions[ORDERS]

    assert in_no_time(Going.to_its_end(automatic.process())) is End.NOTHING_TO_RECOVER


async def test_where_nobody_knows_who_led_meanwhile_the_operator_looks_again_and_asks_for_a_new_plan(
    by_hand: Operated,
) -> None:
    """A member came back, so no election was needed, and was gone at once. An empty ISR does not tell who it was."""
    kafka = by_hand.world.kafka
    kafka.relay = Relay(BrokerId(3), "kafka-3", 9092)
    by_hand.world.offline(elr=(1,))

    def comes() -> None:
        kafka.nodes[1].alive, kafka.nodes[1].fenced = True, False
        kafka.denied[ORDERS] = Answer.NOT_NEEDED
        kafka.elect_uncleanly(ORDERS, 1)

    def goes() -> None:
        kafka.denied.clear()
        kafka.nodes[1].alive = False
        kafka.fence(1)
        kafka.partitions[ORDERS].isr = ()

    by_hand.world.before("elect", comes)
    by_hand.world.after("elect", goes)
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    first = going.digest
    await going.killed()
    by_hand.api.approve(first)
    going = Going(by_hand.process(shown=first))
    await going.until(Phase.AWAITING_APPROVAL)
    by_hand.api.approve(going.digest)
    going.run.wake()

    assert (await going.end(), by_hand.world.leader()) == (End.RECOVERED, 2)
    assert going.digest != first
    assert by_hand.world.kept_its_promises()


# What an earlier process left


async def test_a_run_that_was_cut_short_is_resumed_before_anything_is_decided_anew(automatic: Operated) -> None:
    automatic.world.after("elect", crash)

    await died(automatic)

    assert automatic.world.unrestored() == [ORDERS]

    assert await Going(automatic.process()).end() is End.RECOVERED
    assert (automatic.world.leader(), len(plans(automatic.api))) == (2, 1)
    assert automatic.phases.index(Phase.RESTORING) < automatic.phases.index(Phase.ENDED)
    assert automatic.world.kept_its_promises()


async def test_a_resumed_run_still_shows_its_plan_and_who_approved_it(by_hand: Operated) -> None:
    by_hand.world.after("elect", crash)

    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    digest = going.digest
    by_hand.api.approve(digest)
    await asyncio.gather(going.task, return_exceptions=True)
    by_hand.world.calm_down()
    again = Going(by_hand.process(shown=digest))
    await again.end()
    plan, approval = again.run.progress.plan_shown, again.run.progress.approval

    assert plan
    assert approval
    assert (plan.digest, approval.by) == (digest, "ann")


async def test_the_plan_that_was_shown_can_still_be_approved_after_a_restart(by_hand: Operated) -> None:
    first = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    shown = first.digest
    await first.killed()
    by_hand.world.clock.advance(timedelta(seconds=10))
    second = Going(by_hand.process(shown=shown))
    by_hand.api.approve(shown)
    end = await second.end()
    executed = second.digest

    assert (end, executed, len(plans(by_hand.api))) == (End.RECOVERED, shown, 1)


@pytest.mark.parametrize("known", [True, False])
async def test_who_dies_between_the_end_of_a_plan_and_its_status_leaves_what_it_cost(
    by_hand: Operated, known: bool
) -> None:
    first = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    by_hand.api.approve(first.digest)
    await first.end()
    again = Going(by_hand.process(shown=first.digest if known else None))
    await again.end()
    digest, told = first.digest, again.run.progress.known()

    assert told.plan
    assert (told.plan.digest, told.worst) == (digest, LossClass.UNKNOWN)


# Approvals


async def test_a_plan_that_changed_is_discarded_and_another_one_is_made(by_hand: Operated) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    old = going.digest
    by_hand.world.kafka.partitions[ORDERS].ends[3] = 40
    by_hand.world.clock.advance(2 * MINUTE)
    while going.run.progress.plan_shown is None or going.digest == old:
        await asyncio.sleep(1)
    await going.until(Phase.AWAITING_APPROVAL)
    new = going.digest

    assert [old[:16] in name for name in unowned(by_hand.api)] == [False] * len(unowned(by_hand.api))
    assert any(new[:16] in name for name in unowned(by_hand.api))
    assert by_hand.world.changed() == []


async def test_a_refusal_ends_it_with_its_reason_and_nothing_changed(by_hand: Operated) -> None:
    going = await Going.up_to(Phase.AWAITING_APPROVAL, by_hand.process())
    by_hand.api.approve(going.digest, decision="Refuse", reason="broker 1 is on its way")
    end, reason = await going.end(), going.run.progress.reason

    assert (end, reason.code) == (End.REFUSED_BY_APPROVER, "RefusedByApprover")
    assert reason.message == "ann refused the plan: broker 1 is on its way"
    assert (by_hand.world.changed(), unowned(by_hand.api)) == ([], [])


# Called off


async def test_what_was_begun_and_is_aborted_gets_its_orders_back_and_elects_nobody(automatic: Operated) -> None:
    automatic.world.after("designate", crash)

    await died(automatic)
    assert automatic.world.unrestored() == [ORDERS]
    automatic.api.change(RECOVERIES, NAME, abort=True)

    assert await Going(automatic.process()).end() is End.ABORTED
    assert automatic.world.leader() is None
    assert automatic.world.kept_its_promises()


async def test_what_is_deleted_gets_its_orders_back_before_its_finalizer_goes(automatic: Operated) -> None:
    automatic.world.after("designate", crash)

    await died(automatic)
    assert automatic.api.finalizers(NAMESPACE, NAME) == [FINALIZER]
    await automatic.api.delete(RECOVERIES.path(NAMESPACE, NAME))
    await Going(automatic.process()).end()

    assert automatic.world.kept_its_promises()
    assert RECOVERIES.path(NAMESPACE, NAME) not in automatic.api.objects


async def test_a_finalizer_that_stands_though_nothing_was_begun_holds_up_no_deletion(by_hand: Operated) -> None:
    """The process died between putting it on and keeping that the run begins."""
    by_hand.api.put(RECOVERIES, NAME, by_hand.api.recovery()["spec"], finalizers=[FINALIZER])

    await by_hand.api.delete(RECOVERIES.path(NAMESPACE, NAME))
    await Going(by_hand.process()).end()

    assert RECOVERIES.path(NAMESPACE, NAME) not in by_hand.api.objects


async def test_what_cannot_be_put_back_yet_is_tried_until_it_can(automatic: Operated) -> None:
    automatic.world.after("designate", crash)

    await died(automatic)
    automatic.api.change(RECOVERIES, NAME, abort=True)
    automatic.world.kafka.restore_fates = [Fate.LOST] * 12

    assert await Going(automatic.process()).end() is End.ABORTED
    assert automatic.world.kept_its_promises()
