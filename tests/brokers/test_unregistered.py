"""A dead broker whose registration was taken away, while partitions still name it among their replicas.

Kafka refuses any assignment that names it: neither can another order be set, nor the original one be put back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from brokers.conftest import USUAL, Recovery
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Decision, Verdict
from kafka_recovery.domain.policy import Approval, CandidateOrder, Policy, Rule
from testbed import topics
from testbed.cluster import RealKafka
from testbed.metadata import PartitionState
from testbed.waiting import wait_until
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers

FORGOTTEN = 1
SURVIVORS = {2: 27, 3: 15}
"""Of the original order Kafka elects broker 2, whose log is the longest; broker 3 has the later epoch."""
BEST = 3
ORIGINAL, DESIGNATING = (1, 2, 3), (3, 2, 1)
LONGEST = Policy((Rule("all", approval=Approval.AUTO, candidate_order=CandidateOrder.LONGEST_LOG),))
AS_IT_STANDS, TO_BE_SET, IN_THE_MIDDLE = (TopicPartition("orders", index) for index in range(3))


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was planned, done and left: before the broker was forgotten, while it was, once it was back."""

    in_the_middle: PartitionOutcome
    left: PartitionState
    in_vain: PartitionOutcome
    as_it_stands: PartitionOutcome
    stood: PartitionState
    to_be_set: Decision
    untouched: PartitionState
    ongoing: Decision
    elected: str
    reassigned: PartitionState
    undone: PartitionOutcome
    restored: PartitionState


@pytest.fixture(scope="module")
def forgotten(warm: WarmKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forgotten]:
    with warm.lent(**USUAL) as kafka:
        kafka.offline_partition("orders", survivors=SURVIVORS, partitions=3)
        yield asyncio.run(story(kafka, Recovery(kafka, tmp_path_factory.mktemp("forgotten"))))


async def story(kafka: RealKafka, ours: Recovery) -> Forgotten:
    def state(id: TopicPartition) -> PartitionState:
        return kafka.describe(id.topic)[id.partition]

    in_the_middle = await ours.with_(before_election=lambda: kafka.unregister(FORGOTTEN)).recover(IN_THE_MIDDLE)
    left = state(IN_THE_MIDDLE)
    async with ours.engine() as engine:
        in_vain = await engine.undo()
    as_it_stands = await ours.with_(policy=LONGEST, journal=ours.journal / "others").recover(AS_IT_STANDS)
    stood = state(AS_IT_STANDS)
    plan = await ours.plan(TO_BE_SET)
    await ours.with_(journal=ours.journal / "others").recover(TO_BE_SET)
    untouched = state(TO_BE_SET)
    topics.reassign(kafka.address(BEST), "orders", {TO_BE_SET.partition: [BEST, 2]})
    ongoing = (await ours.plan(TO_BE_SET)).decisions[0]
    elected = kafka.unclean_elect("orders", [TO_BE_SET.partition])
    reassigned = wait_until(
        "the reassignment ends", lambda: state(TO_BE_SET), lambda state: state.replicas == (BEST, 2)
    )
    kafka.start(FORGOTTEN)
    kafka.wait_until_unfenced(FORGOTTEN)
    async with ours.engine() as engine:
        undone = await engine.undo()
    return Forgotten(
        in_the_middle[IN_THE_MIDDLE],
        left,
        in_vain[IN_THE_MIDDLE],
        as_it_stands[AS_IT_STANDS],
        stood,
        plan.decisions[0],
        untouched,
        ongoing,
        elected[TO_BE_SET.partition],
        reassigned,
        undone[IN_THE_MIDDLE],
        state(IN_THE_MIDDLE),
    )


def test_an_order_that_elects_the_best_as_it_stands_is_left_alone(forgotten: Forgotten) -> None:
    outcome, stood = forgotten.as_it_stands, forgotten.stood

    assert (outcome.outcome, outcome.leader, outcome.order_restored) == (Outcome.RECOVERED, 2, True), outcome.reason
    assert (stood.leader, stood.replicas) == (2, ORIGINAL)


def test_an_order_that_would_have_to_be_set_is_refused_with_what_to_type(forgotten: Forgotten) -> None:
    decision, untouched = forgotten.to_be_set, forgotten.untouched

    assert decision.verdict is Verdict.REFUSE
    assert decision.reason
    assert decision.reason.code == "OrderCannotBeSet"
    assert f"not registered: [{FORGOTTEN}]" in decision.reason.message
    for typed in (f"broker {BEST} first (kafka-reassign-partitions.sh", "kafka-leader-election.sh"):
        assert typed in decision.reason.message
    assert (untouched.leader, untouched.replicas) == (None, ORIGINAL)


def test_once_that_was_typed_the_chosen_replica_leads_and_the_reassignment_ends(forgotten: Forgotten) -> None:
    assert forgotten.ongoing.reason
    assert forgotten.ongoing.reason.code == "ReassignmentOngoing"
    assert forgotten.elected == "NoError"
    assert (forgotten.reassigned.leader, forgotten.reassigned.replicas) == (BEST, (BEST, 2))


def test_an_order_that_was_set_before_is_said_to_stand_still_whatever_leads(forgotten: Forgotten) -> None:
    for outcome in (forgotten.in_the_middle, forgotten.in_vain):
        assert (outcome.outcome, outcome.leader, outcome.order_restored) == (Outcome.RECOVERED, BEST, False)
        assert f"order could not be put back: the order of {IN_THE_MIDDLE} can't be set" in outcome.warnings[0]
        assert "not registered in the cluster" in outcome.warnings[0]
    assert (forgotten.left.leader, forgotten.left.replicas) == (BEST, DESIGNATING)


def test_it_is_restored_once_the_broker_is_back(forgotten: Forgotten) -> None:
    undone = forgotten.undone
    assert (undone.outcome, undone.order_restored, undone.warnings) == (Outcome.RECOVERED, True, ())
    assert (forgotten.restored.leader, forgotten.restored.replicas) == (BEST, ORIGINAL)
