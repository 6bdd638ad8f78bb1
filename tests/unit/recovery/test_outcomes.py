"""What a leader's answer means, and what was changed around it meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.domain.election import Lead, Leadership
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.recovery.outcomes import verified
from kafka_recovery.recovery.partition_run import PartitionRun
from kafka_recovery.recovery.ports import Silent
from kafka_recovery.recovery.session import Session
from unit.recovery.brokers import EPOCH
from unit.recovery.world import ORDERS, World


@pytest.fixture
async def plan(world: World) -> Plan:
    world.offline({3: 15, 2: 27})
    return await world.plan()


def warnings(plan: Plan, assignment: tuple[int, ...]) -> tuple[str, ...]:
    """Of a partition that leads as planned and stands in this assignment."""
    decision, seen = plan.decisions[0], plan.evidence.partitions[0]
    lead = Lead(BrokerId(2), LeaderEpoch(EPOCH + 1), Offset(27))
    brokers = tuple(map(BrokerId, assignment))
    look = Leadership(ORDERS, seen.topic_id, lead.leader, lead.leader_epoch, brokers, (lead.leader,), lead.log_end)
    outcome = verified(PartitionRun(decision, seen, held=True, look=look), lead)
    assert outcome.outcome is Outcome.RECOVERED
    return outcome.warnings


async def test_an_assignment_that_somebody_else_changed_is_warned_of_with_both(plan: Plan) -> None:
    (warning,) = warnings(plan, (2, 4))

    assert "assigned to [2, 4], planned with [1, 3, 2]" in warning
    assert "kafka-reassign-partitions.sh --list" in warning


async def test_neither_the_original_order_nor_ours_is_somebody_else_s(plan: Plan) -> None:
    assert warnings(plan, (1, 3, 2)) == ()
    assert warnings(plan, plan.decisions[0].order) == ()


async def test_below_min_insync_replicas_it_is_still_told_how_the_leader_came_about(world: World) -> None:
    world.offline({3: 15, 2: 27}, min_isr=2)
    (decision,), (seen,) = (plan := await world.plan()).decisions, plan.evidence.partitions
    lead = Lead(BrokerId(1), LeaderEpoch(EPOCH + 2), Offset(30))
    look = Leadership(
        ORDERS, seen.topic_id, lead.leader, lead.leader_epoch, seen.assignment, (lead.leader,), Offset(30)
    )

    outcome = verified(PartitionRun(decision, seen, held=True, look=look), lead)

    assert outcome.outcome is Outcome.RECOVERED_UNDER_MIN_ISR
    assert (outcome.reason and outcome.reason.code) == "MemberLeads"
    assert outcome.warnings == ("ISR has 1 of min.insync.replicas 2: acks=all fails until replicas catch up",)


async def test_a_minimum_that_a_later_look_read_counts_for_what_was_begun_before(world: World) -> None:
    world.offline({3: 15, 2: 27}, min_isr=2)
    plan = await world.plan()
    session = Session(Silent())
    (run,) = session.begin(plan, plan.decisions).values()
    world.kafka.partitions[ORDERS].min_isr = 1

    session.remember(plan.evidence)
    session.remember((await world.plan()).evidence)

    run.look = Leadership(ORDERS, run.evidence.topic_id, BrokerId(2), LeaderEpoch(EPOCH + 1), (), (BrokerId(2),))
    assert verified(run, led(2, EPOCH + 1)).outcome is Outcome.RECOVERED


async def test_metadata_in_which_nobody_leads_yet_do_not_show_the_leader_s_isr(world: World) -> None:
    """With ELR on, a partition without a leader has an empty ISR; the election has put its leader there."""
    world.offline({3: 15, 2: 27}, min_isr=1)
    (decision,), (seen,) = (plan := await world.plan()).decisions, plan.evidence.partitions
    before = Leadership(ORDERS, seen.topic_id, None, LeaderEpoch(EPOCH), seen.assignment, ())

    outcome = verified(PartitionRun(decision, seen, held=True, look=before), led(2, EPOCH + 1))

    assert outcome.outcome is Outcome.RECOVERED


@pytest.mark.parametrize(("isr", "told"), [((1,), Outcome.FAILED), ((1, 2), Outcome.RECOVERED)])
async def test_what_an_earlier_plan_designated_counts_only_where_its_election_can_have_made_it_lead(
    world: World, isr: tuple[int, ...], told: Outcome
) -> None:
    """The later plan saw nobody lead, and names broker 3. Broker 2 leads after it: elected in the place of broker 3, or
    as a member of the ISR that the earlier election had put there.
    """
    world.offline({3: 27, 2: 27})
    (decision,), (seen,) = (plan := await world.plan()).decisions, plan.evidence.partitions
    earlier = PartitionRun(replace(decision, leader=BrokerId(2)), seen, held=True)
    later = replace(seen, isr=tuple(map(BrokerId, isr)))
    run = PartitionRun(replace(decision, leader=BrokerId(3)), later, earlier=(earlier,), held=True)

    outcome = verified(run, led(2, EPOCH + 1))

    assert outcome.outcome is told


def led(broker: int, epoch: int) -> Lead:
    return Lead(BrokerId(broker), LeaderEpoch(epoch), Offset(27))


async def test_a_reassignment_while_electing_is_told_with_the_outcome(world: World) -> None:
    world.offline({3: 15, 2: 27})
    world.before("restore", lambda: world.kafka.reassign(ORDERS, (2, 4)))

    report = await world.recover()

    assert report[ORDERS].outcome is Outcome.RECOVERED
    assert "assigned to [2, 4]" in report[ORDERS].warnings[0]


async def test_a_leader_with_less_than_was_measured_is_not_called_recovered(plan: Plan) -> None:
    decision, seen = plan.decisions[0], plan.evidence.partitions[0]

    outcome = verified(PartitionRun(decision, seen, held=True), Lead(BrokerId(2), LeaderEpoch(EPOCH + 1), Offset(26)))

    assert (outcome.outcome, outcome.reason and outcome.reason.code) == (Outcome.FAILED, "LeaderBehindPlan")


@pytest.mark.parametrize(
    ("held", "epochs_later", "outcome"),
    [
        (False, 1, Outcome.RECOVERED_CLEANLY),
        (True, 1, Outcome.RECOVERED),
        (False, 2, Outcome.RECOVERED),
    ],
    ids=["nobody else elected", "an election was accepted", "another leader was in between"],
)
async def test_a_member_of_the_isr_that_leads_is_called_clean_only_if_nothing_else_can_have_happened(
    plan: Plan, held: bool, epochs_later: int, outcome: Outcome
) -> None:
    run = PartitionRun(plan.decisions[0], plan.evidence.partitions[0], held=held)

    found = verified(run, Lead(BrokerId(1), LeaderEpoch(EPOCH + epochs_later), Offset(30)))

    assert found.outcome is outcome
