"""What a leader's answer means, and what was changed around it meanwhile."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.election import Lead, Leadership
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.recovery.outcomes import verified
from kafka_recovery.recovery.partition_run import PartitionRun
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
    assert outcome.reason
    assert outcome.reason.code == "MemberLeads"
    assert outcome.warnings == ("ISR has 1 of min.insync.replicas 2: acks=all fails until replicas catch up",)


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
