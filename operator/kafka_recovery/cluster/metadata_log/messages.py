"""The requests that the metadata log is read by: Fetch of a controller's listener, and FetchSnapshot (KIP-630)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer import FetchRequest

from kafka_recovery.cluster.metadata_log import schemas

NAME, ID = "__cluster_metadata", UUID(int=1)
"""The log's name, and the topic id that it has in every cluster."""

FETCH_VERSIONS = (13, 17)
"""From topic ids on, up to what 3.9 has."""

SNAPSHOT_VERSIONS = (0, 1)

_ROOM = 8 * 1024 * 1024
"""Bytes of an answer; 3.9 and 4.0 send more if they like (measured)."""

_PIECE = 1024 * 1024
"""Bytes of a piece of a snapshot."""


class FetchSnapshotRequest(ApiMessage, load_json=schemas):  # type: ignore[call-arg]
    """A piece of a snapshot of the metadata log."""


class FetchSnapshotResponse(ApiMessage, load_json=schemas):  # type: ignore[call-arg]
    """That piece."""


def fetch(cluster_id: str, quorum_epoch: int, offset: int, last_epoch: int) -> Any:
    """Whole batches from the one with `offset` on, of which `last_epoch` is the epoch of the record before.

    No replica id is sent: the quorum would count the client among its observers.
    """
    part = FetchRequest.FetchTopic.FetchPartition(
        partition=0,
        current_leader_epoch=quorum_epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=-1,
        partition_max_bytes=_ROOM,
    )
    return FetchRequest(
        cluster_id=cluster_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_ROOM,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic_id=ID, partitions=[part])],
        forgotten_topics_data=[],
        rack_id="",
    )


def fetch_snapshot(cluster_id: str, quorum_epoch: int, end: int, epoch: int, position: int) -> Any:
    """The next piece of the snapshot that ends at offset `end`, whose last record has `epoch`."""
    topic = FetchSnapshotRequest.TopicSnapshot
    part = topic.PartitionSnapshot(
        partition=0,
        current_leader_epoch=quorum_epoch,
        snapshot_id=topic.PartitionSnapshot.SnapshotId(end_offset=end, epoch=epoch),
        position=position,
    )
    return FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=-1, max_bytes=_PIECE, topics=[topic(name=NAME, partitions=[part])]
    )
