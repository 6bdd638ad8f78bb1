"""How far a partition's log is known to have reached: what a loss is measured by when the one who held it is dead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from kafka_recovery.domain.evidence import Evidence, PartitionEvidence, WitnessedEnd
from kafka_recovery.domain.ids import LeaderEpoch, Offset, TopicId, TopicPartition


class Seen(NamedTuple):
    """A leader's high watermark as it was once seen: what is below it was acknowledged (acks=all)."""

    topic_id: TopicId
    leader_epoch: LeaderEpoch
    end: Offset
    source: str


Memory = Mapping[TopicPartition, Seen]


SNAPSHOT_OF = "snapshot of "
"""How a witness that was a look at a whole cluster is named; the time follows, so that names sort by it."""


def snapshot_of(at: datetime) -> str:
    """A look at a whole cluster, as a witness is named."""
    return f"{SNAPSHOT_OF}{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def ends_seen(snapshot: Evidence) -> dict[TopicPartition, Seen]:
    """What a look at a whole cluster tells a later one, of all that is led and whose leader answered."""
    source = snapshot_of(snapshot.cluster.observed_at)
    seen: dict[TopicPartition, Seen] = {}
    for partition in snapshot.partitions:
        leader = partition.replica(partition.leader)
        if leader is not None and leader.log is not None and leader.log.high_watermark is not None:
            seen[partition.id] = Seen(partition.topic_id, partition.leader_epoch, leader.log.high_watermark, source)
    return seen


def with_witnesses(evidence: Evidence, memory: Memory) -> Evidence:
    """The same evidence, its leaderless partitions with what was seen of them before they were that."""
    partitions = tuple(_witnessed(partition, memory.get(partition.id)) for partition in evidence.partitions)
    return replace(evidence, partitions=partitions)


def _witnessed(partition: PartitionEvidence, seen: Seen | None) -> PartitionEvidence:
    if (
        seen is None
        or partition.leader is not None
        or partition.topic_id != seen.topic_id
        or _cut_since(partition, seen)
    ):
        return partition
    witness = WitnessedEnd(seen.source, seen.end)
    if witness in partition.witnessed_ends:
        return partition
    return replace(partition, witnessed_ends=(*partition.witnessed_ends, witness))


def _cut_since(partition: PartitionEvidence, seen: Seen) -> bool:
    """Whether a later leader began below that end, or may have: what that cost is no loss of the next election.

    The outage itself counts one epoch. After more of them somebody led in between; who he was and where he began,
    only all replicas together tell, and not even they after a crash of his host: that may take the entry along.
    """
    if partition.leader_epoch <= seen.leader_epoch + 1:
        return False
    vectors = [replica.log.epochs if replica.log else None for replica in partition.replicas]
    return any(
        vector is None or any(entry.epoch > seen.leader_epoch and entry.start < seen.end for entry in vector)
        for vector in vectors
    )
