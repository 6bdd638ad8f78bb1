"""Leaders whose high watermark can't move: with the ISR below min.insync.replicas it stays where it was (KAFKA-15583).

To a consumer such a leader has no offset to tell; it leads nevertheless, and its log ends where it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from brokers.conftest import ON_3_9, ON_NEWEST, Recovery
from kafka_recovery.cluster.broker_reader import ANY_EPOCH, BrokerReader
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.evidence import Replica
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.policy import EvidenceRules
from testbed.cluster import RealKafka
from testbed.metadata import PartitionState

pytestmark = pytest.mark.brokers

ORDERS = TopicPartition("orders", 0)
RECORDS = 10
OTHER, SURVIVOR = 1, 2


@dataclass(frozen=True, slots=True)
class Leader:
    """What became of the partition; whether its leader says that it leads, before and after it is cut off."""

    outcome: PartitionOutcome
    state: PartitionState
    led: LeaderEpoch | None
    led_when_cut_off: LeaderEpoch | None
    seen_when_cut_off: Replica


def offline_with_one_survivor(kafka: RealKafka) -> None:
    """The survivor holds every record, was killed and restarted, and takes 0 for its high watermark."""
    kafka.create_topic("orders", [[OTHER, SURVIVOR]], min_insync_replicas=2)
    kafka.produce("orders", 0, RECORDS, "all", acks="all")
    kafka.kill(SURVIVOR)
    kafka.wait_until_fenced(SURVIVOR)
    kafka.kill(OTHER)
    kafka.start(SURVIVOR)
    kafka.wait_for("orders", lambda state: state.leader is None)
    kafka.wait_until_unfenced(SURVIVOR)


async def story(kafka: RealKafka, ours: Recovery) -> Leader:
    """The survivor is elected; later it is frozen, and goes on when there is no controller to tell it what it missed.

    KRaft brokers do not fence themselves: it goes on as what it was when it was frozen.
    """
    report = await ours.recover(ORDERS)
    state = kafka.describe("orders")[0]
    led = await led_according_to(kafka, SURVIVOR)
    async with ours.cluster() as cluster:
        await survivor_seen_by(cluster)  # 3.9 does not list fenced brokers: where to ask must be known from before
        kafka.freeze(SURVIVOR)
        kafka.wait_until_fenced(SURVIVOR)
        kafka.wait_for("orders", lambda state: state.leader is None)
        kafka.freeze_controller()
        kafka.thaw(SURVIVOR)
        cut_off = await led_according_to(kafka, SURVIVOR)
        return Leader(report[ORDERS], state, led, cut_off, await survivor_seen_by(cluster))


async def led_according_to(kafka: RealKafka, broker: int) -> LeaderEpoch | None:
    """The epoch in which this broker says to a consumer that it leads; None: it does not lead."""
    async with Brokers(PLAINTEXT) as brokers:
        at = Address.parse(kafka.address(broker))
        reader = BrokerReader.lasting(timedelta(seconds=10), brokers, BrokerId(broker), at)
        return (await reader.led([ORDERS])).get(ORDERS)


async def survivor_seen_by(cluster: KafkaCluster) -> Replica:
    evidence = await cluster.gather(Scope((ORDERS,)), EvidenceRules())
    replica = evidence.partitions[0].replica(BrokerId(SURVIVOR))
    assert replica
    return replica


@pytest.mark.parametrize("kafka", [ON_NEWEST, ON_3_9], indirect=True)
async def test_a_leader_below_min_isr_is_recovered_with_its_true_log_end_and_seen_to_lead_when_it_is_cut_off(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """Half a minute on a busy machine: brokers are fenced one after the other until the last one is."""
    offline_with_one_survivor(kafka)

    leader = await story(kafka, recovery(kafka))

    assert leader.outcome.outcome is Outcome.RECOVERED_UNDER_MIN_ISR
    assert (leader.outcome.leader, leader.outcome.log_end) == (SURVIVOR, RECORDS)
    assert leader.outcome.leader_epoch == leader.state.leader_epoch
    assert leader.state.replicas == (OTHER, SURVIVOR)
    assert leader.led == ANY_EPOCH
    assert leader.led_when_cut_off == ANY_EPOCH
    assert leader.seen_when_cut_off.leads
