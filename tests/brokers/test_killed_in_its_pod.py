"""A broker is killed and started again where it was: what a Pod and its node would tell proves that it lost nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from brokers.acknowledged import Acknowledged, acknowledging
from brokers.conftest import (
    LED,
    ON_3_9,
    ON_TWO_DISKS,
    ON_TWO_DISKS_OF_3_9,
    SOON,
    WITHOUT_ELR,
    Recovery,
    Says,
    only_in_full,
)
from brokers.kubelets import READ_WITHIN, Kubelets, watched
from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Report
from kafka_recovery.domain.policy import Approval, Policy, Rule
from kafka_recovery.kube.clusters.measured import MeasuredCluster
from kafka_recovery.kube.clusters.pod_witness import PodWitness
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.watching.last_seen import LastSeen
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.local_storage import local_journal
from testbed.cluster import RealKafka
from unit.kube.clusters.test_pod_witness import Clock

pytestmark = pytest.mark.brokers

ORDERS = TopicPartition("orders", 0)
BY_ITSELF = Policy((Rule("everything", approval=Approval.AUTO_LOSSLESS),))


def killed_and_started_again(kafka: RealKafka, meanwhile: Callable[[int], None] = lambda _: None) -> Acknowledged:
    """Broker 3 lags behind; broker 2 is killed, and then broker 1, the last of the ISR. Broker 2 starts again."""
    with acknowledging(kafka.bootstrap, ["orders"]) as told:
        told.wait_for_more("orders")
        kafka.freeze(3)
        kafka.wait_until_fenced(3)
        told.wait_for_more("orders", 500)
        kafka.kill(2)
        kafka.wait_until_fenced(2)
        kafka.kill(1)
        kafka.thaw(3)
        kafka.wait_until_unfenced(3)
        kafka.wait_until_fenced(1)
    meanwhile(2)
    kafka.start(2)
    kafka.wait_until_unfenced(2)
    return told


@pytest.mark.parametrize("kafka", [ON_3_9, only_in_full(WITHOUT_ELR)], indirect=True)
async def test_all_that_was_acknowledged_is_still_there_as_it_was_proven(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """Of the newest release `tests/apiserver/test_killed_in_its_pod.py` tells the same, with the operator itself.

    Takes 30 s: three sessions have to run out, and the controller writes twice a second.
    """
    ours = recovery(kafka).with_(reads_history=True)
    kafka.create_topic("orders", [[1, 2, 3]], min_insync_replicas=2)
    kubelets = Kubelets(1, 2, 3)
    async with ours.cluster() as cluster:
        witness = PodWitness(cluster, kubelets, lambda: None, clock=Clock())
        await watched(witness, cluster)
        told = killed_and_started_again(kafka)
        kubelets.started_again(2)

        await witness.look()
        assert await class_of(cluster, witness) is LossClass.UNKNOWN  # it is not known yet where it began

        await watched(witness, cluster)
        assert await class_of(cluster, witness) is LossClass.LOSSLESS
        report = await recovered(kafka, cluster, witness, ours.journal)

    assert report[ORDERS].outcome in LED
    assert report[ORDERS].leader == 2
    kept = set(kafka.consume("orders", 0))
    assert [value for value in told.values["orders"] if value not in kept] == []


@pytest.mark.parametrize("kafka", [only_in_full(ON_TWO_DISKS_OF_3_9), ON_TWO_DISKS], indirect=True)
async def test_a_copy_that_was_begun_anew_on_another_disk_of_the_same_pod_is_not_intact(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """One of broker 2's two disks is emptied, and Kafka makes the copy anew on the other one: it is empty.

    Takes 40 s: a cluster that few others share, and three sessions have to run out.
    """
    kafka.create_topic("filler", [[2]])
    kafka.create_topic("orders", [[1, 2, 3]], min_insync_replicas=2)
    assert "orders-0" in kafka.on_disk(2, 2)
    kafka.delete_topic("filler")  # with as few copies on both disks the new one is made on the first
    kubelets = Kubelets(1, 2, 3)
    async with recovery(kafka).with_(reads_history=True).cluster() as cluster:
        witness = PodWitness(cluster, kubelets, lambda: None, clock=Clock())
        await watched(witness, cluster)
        killed_and_started_again(kafka, kafka.empty_disk)
        assert "orders-0" in kafka.on_disk(2, 1)
        kubelets.started_again(2)
        await watched(witness, cluster)

        assert await class_of(cluster, witness, 3) is LossClass.UNKNOWN


@pytest.mark.full
@pytest.mark.parametrize("kafka", [ON_3_9, WITHOUT_ELR], indirect=True)
async def test_a_copy_that_somebody_deleted_ends_before_the_high_watermark_that_another_one_tells(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """Neither its Pod nor its directory tells of it. Takes 30 s: three sessions have to run out."""
    kafka.create_topic("orders", [[1, 2, 3]], min_insync_replicas=2)
    kubelets = Kubelets(1, 2, 3)
    async with recovery(kafka).with_(reads_history=True).cluster() as cluster:
        witness = PodWitness(cluster, kubelets, lambda: None, clock=Clock())
        await watched(witness, cluster)
        killed_and_started_again(kafka, kafka.wipe)
        kubelets.started_again(2)
        await watched(witness, cluster)

        assert [await class_of(cluster, witness, leader) for leader in (2, 3)] == [LossClass.UNKNOWN] * 2


async def class_of(cluster: KafkaCluster, witness: PodWitness, leader: int = 2) -> LossClass | None:
    """What the election of this broker is proven to be."""
    seen = await MeasuredCluster(cluster, Metrics(), "kafka/prod", LastSeen(), dict, None, witness).gather(
        ALL_OFFLINE, BY_ITSELF.widest_evidence_rules
    )
    decision = decide(seen, BY_ITSELF, waited=timedelta(hours=1), designated={ORDERS: BrokerId(leader)}).elections[
        ORDERS
    ]
    return decision.loss.loss_class if decision.loss else None


async def recovered(kafka: RealKafka, cluster: KafkaCluster, witness: PodWitness, folder: Path) -> Report:
    """By itself, since it is proven: nobody approves."""
    measured = MeasuredCluster(cluster, Metrics(), "kafka/prod", LastSeen(), dict, None, witness)
    with local_journal(folder, kafka.cluster_id) as journal:
        election = AssignmentOrderElection(cluster, deadline=READ_WITHIN)
        engine = Engine(measured, election, journal, Says(None), BY_ITSELF, timing=SOON)
        return await engine.recover(ALL_OFFLINE)
