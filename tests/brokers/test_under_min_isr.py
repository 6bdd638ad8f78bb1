"""Leaders whose high watermark can't move: with the ISR below min.insync.replicas it stays where it was (KAFKA-15583).

To a consumer such a leader has no offset to tell; it leads nevertheless, and its log ends where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import EvidenceRules
from testbed.cluster import RealKafka

pytestmark = [pytest.mark.brokers, pytest.mark.parametrize("kafka", [ON_NEWEST, ON_3_9], indirect=True)]

ORDERS = TopicPartition("orders", 0)
RECORDS = 10
SURVIVOR = 2
Recoveries = Callable[[RealKafka], Recovery]


def offline_with_one_survivor(kafka: RealKafka, replicas: Sequence[int]) -> None:
    """The survivor holds every record, was killed and restarted, and takes 0 for its high watermark."""
    kafka.create_topic("orders", [replicas], min_insync_replicas=2)
    kafka.produce("orders", 0, RECORDS, "all", acks="all")
    kafka.kill(SURVIVOR)
    kafka.wait_until_fenced(SURVIVOR)
    for broker in replicas:
        if broker != SURVIVOR:
            kafka.kill(broker)
    kafka.start(SURVIVOR)
    kafka.wait_for("orders", lambda state: state.leader is None)
    kafka.wait_until_unfenced(SURVIVOR)


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


async def test_a_new_leader_below_min_isr_is_recovered_with_its_true_log_end(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    offline_with_one_survivor(kafka, [1, SURVIVOR, 3])

    report = await recovery(kafka).recover(ORDERS)

    outcome = report[ORDERS]
    assert outcome.outcome is Outcome.RECOVERED_UNDER_MIN_ISR
    assert (outcome.leader, outcome.log_end) == (SURVIVOR, RECORDS)
    assert outcome.leader_epoch == kafka.describe("orders")[0].leader_epoch
    assert kafka.describe("orders")[0].replicas == (1, SURVIVOR, 3)
    assert await led_according_to(kafka, SURVIVOR) == ANY_EPOCH


async def test_an_old_leader_below_min_isr_that_is_cut_off_is_seen_to_lead_still(
    kafka: RealKafka, recovery: Recoveries
) -> None:
    """KRaft brokers do not fence themselves: without a controller it goes on as what it was when it was frozen.

    Half a minute on a busy machine: brokers are fenced one after the other until the last one is.
    """
    offline_with_one_survivor(kafka, [1, SURVIVOR])
    kafka.unclean_elect("orders", [0])
    kafka.wait_for("orders", lambda state: state.leader == SURVIVOR)
    async with recovery(kafka).cluster() as cluster:
        await survivor_seen_by(cluster)  # 3.9 does not list fenced brokers: where to ask must be known from before
        kafka.freeze(SURVIVOR)
        kafka.wait_until_fenced(SURVIVOR)
        kafka.wait_for("orders", lambda state: state.leader is None)
        kafka.freeze_controller()
        kafka.thaw(SURVIVOR)

        assert await led_according_to(kafka, SURVIVOR) == ANY_EPOCH
        assert (await survivor_seen_by(cluster)).leads
