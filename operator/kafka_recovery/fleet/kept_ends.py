"""How far logs reached, from an evidence file's columns: a tenth of the time that reading all of it takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_recovery.decision.witnesses import SNAPSHOT_OF, Seen, snapshot_of
from kafka_recovery.domain.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.fleet.export import Archive, Snapshot
from kafka_recovery.fleet.parquet_files import surroundings_of
from kafka_recovery.formats.documents import InvalidDocument

_COLUMNS = (
    "topic",
    "partition",
    "topic_id",
    "leader",
    "leader_epoch",
    "replicas.list.element.broker",
    "replicas.list.element.log.high_watermark",
    "witnessed_ends.list.element.source",
    "witnessed_ends.list.element.end",
)

FURTHEST_BACK = 10
"""Files, at most. Of what is offline the newest one keeps what was known when it was written; what had no end then,
an earlier file may know."""

_ROWS_AT_A_TIME = 4096
"""To make them takes the interpreter for itself, some hundredths of a second."""


def kept_ends(archive: Archive, cluster_id: str) -> dict[TopicPartition, Seen]:
    """What `ends_seen` says of a cluster's evidence, of each partition the newest; nothing if there is none.

    Raises StorageUnavailable, InvalidDocument.
    """
    ends: dict[TopicPartition, Seen] = {}
    wanted: set[TopicPartition] = set()
    newest_first = tuple(reversed(archive.snapshots(cluster_id)))[:FURTHEST_BACK]
    for snapshot in newest_first:
        found, without = _of_one(archive, snapshot)
        ends |= found if snapshot is newest_first[0] else {id: found[id] for id in wanted & found.keys()}
        wanted = without if snapshot is newest_first[0] else wanted - found.keys()
        if not wanted:
            break
    return ends


def _of_one(archive: Archive, snapshot: Snapshot) -> tuple[dict[TopicPartition, Seen], set[TopicPartition]]:
    """What a file says, and the partitions of which it can't say anything."""
    content, name = archive.content(snapshot), archive.name(snapshot)
    found: dict[TopicPartition, Seen] = {}
    without: set[TopicPartition] = set()
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        cluster = surroundings_of(file.schema_arrow, name).cluster
        archive.check_place(snapshot, cluster)
        for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=list(_COLUMNS)):
            for row in batch.to_pylist():
                id, end = TopicPartition(row["topic"], row["partition"]), _high_watermark(row)
                if end is not None:
                    epoch = LeaderEpoch(row["leader_epoch"])
                    found[id] = Seen(TopicId(row["topic_id"]), epoch, end, snapshot_of(cluster.observed_at))
                elif earlier := _witnessed(row):
                    found[id] = earlier
                else:
                    without.add(id)
    except InvalidDocument:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidDocument(f"{name}: is no Parquet file, or a damaged one: {type(error).__name__}") from None
    return found, without


def _witnessed(row: Mapping[str, Any]) -> Seen | None:
    """What a still earlier snapshot told of a partition without a leader.

    It held when this one was written. Whoever led since then did so in this row's epoch or later.
    """
    told = [each for each in row["witnessed_ends"] if each["source"].startswith(SNAPSHOT_OF)]
    if not told or row["leader"] is not None:
        return None
    newest = max(told, key=lambda each: each["source"])
    epoch = LeaderEpoch(row["leader_epoch"] - 1)
    return Seen(TopicId(row["topic_id"]), epoch, Offset(newest["end"]), newest["source"])


def _high_watermark(row: Mapping[str, Any]) -> Offset | None:
    """The leader's."""
    for replica in row["replicas"] if row["leader"] is not None else ():
        if replica["broker"] == row["leader"] and replica["log"] and replica["log"]["high_watermark"] is not None:
            return Offset(replica["log"]["high_watermark"])
    return None
