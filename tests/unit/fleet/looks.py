"""Looks at a small cluster: enough of everything that a file has to hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from kafka_recovery.domain.evidence import (
    Broker,
    ClusterState,
    EpochEntry,
    Evidence,
    MinInsyncReplicas,
    PartitionEvidence,
    Replica,
    ReplicaLog,
)
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.export import Archive

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SILENT = Reason("BrokerTimeout", "broker 2 did not answer within 5s")


def newest(archive: Archive, cluster: str) -> Evidence:
    """The newest evidence of a cluster, which is there."""
    snapshot = archive.latest(cluster)
    assert snapshot is not None
    return archive.read(snapshot)


def look(cluster: str = "prod", at: datetime = NOON, partitions: int = 3) -> Evidence:
    """Brokers 1 and 2, of which 2 is fenced; both hold every partition of `orders`, and only 1 was measured."""
    state = ClusterState(
        cluster_id=cluster,
        release="4.1",
        features=(("metadata.version", 27),),
        elr_enabled=None,
        view_from=BrokerId(1),
        brokers=(broker(1, alive=True), broker(2, alive=False)),
        observed_at=at,
        took=timedelta(milliseconds=7),
    )
    return Evidence(state, tuple(partition(index, at) for index in range(partitions)))


def broker(id: int, *, alive: bool) -> Broker:
    """It is unfenced and answers, or neither."""
    return Broker(
        id=BrokerId(id),
        host=f"kafka-{id}",
        port=9092,
        rack=f"rack-{id}",
        registered=True,
        fenced=not alive,
        stopping=None,
        reachable=alive,
        metadata_offset=1000 if alive else None,
        metadata_advances=True if alive else None,
        problem=None if alive else SILENT,
    )


def partition(index: int, at: datetime = NOON) -> PartitionEvidence:
    """One without a leader."""
    log = ReplicaLog(
        start=Offset(0),
        end=Offset(27),
        epochs=(EpochEntry(LeaderEpoch(5), Offset(0)), EpochEntry(LeaderEpoch(6), Offset(27))),
        high_watermark=None,
        answered_under=LeaderEpoch(7),
        observed_at=at,
        took=timedelta(milliseconds=3),
    )
    return PartitionEvidence(
        id=TopicPartition("orders", index),
        topic_id=TopicId("lk3uXe8CSIqRTHM1qPHJFw"),
        internal=False,
        leader=None,
        leader_epoch=LeaderEpoch(7),
        isr=(BrokerId(2),),
        elr=None,
        last_known_elr=None,
        replicas=(Replica(BrokerId(1), log), Replica(BrokerId(2), None, SILENT)),
        min_isr=MinInsyncReplicas(2, "TOPIC_CONFIG"),
    )
