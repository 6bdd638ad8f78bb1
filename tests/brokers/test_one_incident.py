"""What is measured and chosen in an incident: one for all of these tests, a partition for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from brokers.conftest import USUAL, Recovery
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval, CandidateOrder, Policy, Rule
from testbed.cluster import RealKafka
from testbed.scenarios import OfflineTopic
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers
GROUP = "hazards"

SURVIVORS = {2: 27, 3: 15}
"""Broker 2 led alone first and wrote more; broker 3 led alone later, so its last epoch is higher."""
EPOCH_FIRST, LONGEST_LOG, MEASURED, REORDERED = range(4)

Recoveries = Callable[[RealKafka], Recovery]


@dataclass(frozen=True, slots=True)
class Incident:
    """The cluster, and what it lost."""

    kafka: RealKafka
    lost: OfflineTopic


@pytest.fixture(scope="module")
def incident(warm: WarmKafka) -> Iterator[Incident]:
    with warm.lent(**USUAL) as kafka:
        yield Incident(kafka, kafka.offline_partition("orders", survivors=SURVIVORS, partitions=4))


def partition(index: int) -> TopicPartition:
    return TopicPartition("orders", index)


@pytest.mark.parametrize(
    ("order", "leader", "index"),
    [(CandidateOrder.EPOCH_FIRST, 3, EPOCH_FIRST), (CandidateOrder.LONGEST_LOG, 2, LONGEST_LOG)],
    ids=["EpochFirst", "LongestLog"],
)
async def test_the_policy_chooses_among_divergent_replicas_and_every_record_of_the_chosen_one_is_kept(
    order: CandidateOrder, leader: int, index: int, incident: Incident, recovery: Recoveries
) -> None:
    policy = Policy((Rule("all", approval=Approval.AUTO, candidate_order=order),))

    report = await recovery(incident.kafka).with_(policy=policy).recover(partition(index))

    outcome = report[partition(index)]
    assert (outcome.outcome, outcome.leader) == (Outcome.RECOVERED, leader)
    assert incident.kafka.consume("orders", index) == list(incident.lost[index].held[leader])


async def test_measured_epoch_vectors_are_what_the_brokers_keep_on_disk(
    incident: Incident, recovery: Recoveries
) -> None:
    plan = await recovery(incident.kafka).plan(partition(MEASURED))

    (seen,) = plan.evidence.partitions
    for replica in seen.replicas:
        if replica.broker == 1:
            assert replica.log is None
            continue
        assert replica.log
        assert replica.log.epochs is not None
        on_disk = incident.kafka.epoch_checkpoint(replica.broker, "orders", MEASURED)
        assert [tuple(entry) for entry in replica.log.epochs] == [(entry.epoch, entry.offset) for entry in on_disk]
        assert replica.log.end == SURVIVORS[replica.broker]


async def test_an_assignment_that_somebody_else_changed_meanwhile_is_decided_anew_and_kept(
    incident: Incident, recovery: Recoveries
) -> None:
    kafka, ours = incident.kafka, recovery(incident.kafka)
    plan = await ours.plan(partition(REORDERED))
    kafka.alter_assignment("orders", REORDERED, [2, 3, 1])

    async with ours.engine() as engine:
        report = await engine.execute(plan)

    outcome = report[partition(REORDERED)]
    assert outcome.outcome is Outcome.REFUSED
    assert outcome.reason
    assert "2, 3, 1" in outcome.reason.message
    left = kafka.describe("orders")[REORDERED]
    assert (left.leader, left.replicas) == (None, (2, 3, 1))
