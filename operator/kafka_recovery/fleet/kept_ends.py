"""How far logs reached, from an evidence file's columns: a tenth of the time that reading all of it takes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_recovery.decision.witnesses import Seen, snapshot_of
from kafka_recovery.domain.documents import InvalidDocument
from kafka_recovery.domain.evidence import WitnessedEnd
from kafka_recovery.domain.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.parquet_files import surroundings_of

_COLUMNS = (
    "topic",
    "partition",
    "topic_id",
    "leader",
    "leader_epoch",
    "witnessed_ends",
    "replicas.list.element.broker",
    "replicas.list.element.log.high_watermark",
)


def kept_ends(archive: Archive, cluster_id: str) -> dict[TopicPartition, Seen]:
    """What `ends_seen` says of a cluster's newest evidence; nothing if there is none.

    Raises StorageUnavailable, InvalidDocument.
    """
    newest = archive.latest(cluster_id)
    if newest is None:
        return {}
    content, name = archive.content(newest), archive.name(newest)
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        cluster = surroundings_of(file.schema_arrow, name).cluster
        archive.check_place(newest, cluster)
        rows = file.read(columns=list(_COLUMNS)).to_pylist()
    except InvalidDocument:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidDocument(f"{name}: is no Parquet file, or a damaged one: {type(error).__name__}") from None
    seen = ((row, _witness(row, cluster.observed_at)) for row in rows)
    return {
        TopicPartition(row["topic"], row["partition"]): Seen(
            TopicId(row["topic_id"]), LeaderEpoch(row["leader_epoch"]), witness.end, witness.source
        )
        for row, witness in seen
        if witness
    }


def _witness(row: Mapping[str, Any], at: datetime) -> WitnessedEnd | None:
    if row["leader"] is None:
        told = (WitnessedEnd(each["source"], Offset(each["end"])) for each in row["witnessed_ends"])
        return max(told, key=lambda each: each.end, default=None)
    for replica in row["replicas"]:
        if replica["broker"] == row["leader"] and replica["log"] and replica["log"]["high_watermark"] is not None:
            return WitnessedEnd(snapshot_of(at), Offset(replica["log"]["high_watermark"]))
    return None
