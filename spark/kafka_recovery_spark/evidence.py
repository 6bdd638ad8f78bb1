"""An archive of evidence as one table: of each cluster its latest snapshot, checked before Spark does any work.

The driver reads every file once, one at a time: its digest, version and columns, whose and of when it is, and that no
partition has evidence twice. So a file that is damaged or in the wrong place costs a sentence, not half a job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.fleet.export import Archive, Snapshot
from kafka_recovery.fleet.parquet_files import first_line, surroundings_of
from kafka_recovery.fleet.schema import SCHEMA
from kafka_recovery.fleet.storage import Storage
from kafka_recovery.formats.documents import InvalidDocument

NOT_READ = frozenset(
    {
        "internal",
        "offline_since",
        "min_isr",
        "unclean_election_enabled",
        "configs_problem.message",
        "history",
        "witnessed_ends.source",
        "replicas.problem.message",
        "replicas.log.high_watermark",
        "replicas.log.took_us",
        "cluster.elr_enabled",
        "cluster.as_of",
        "cluster.view_from",
        "cluster.took_us",
    }
)
"""What no guard or order looks at; leaving it out is a third of the reading."""

OFFSETS = frozenset(
    {
        "replicas.list.element.log.start",
        "replicas.list.element.log.end",
        "replicas.list.element.log.local_start",
        "replicas.list.element.log.epochs.list.element.start",
        "witnessed_ends.list.element.end",
    }
)
"""Parquet's paths of the columns that must not be negative, so that differences fit in 64 bits."""

HADOOP_SCHEMES = {"s3": "s3a", "gcs": "gs"}
"""Where Hadoop calls a kind of storage otherwise."""


@dataclass(frozen=True, slots=True)
class Source:
    """One cluster's latest snapshot, read once and found whole. `digest`: the SHA-256 of the file; `name`: its URL."""

    cluster_id: str
    path: str
    name: str
    digest: str
    partitions: int


def sources(
    url: str, *, clusters: Sequence[str] | None = None, not_before: datetime | None = None
) -> tuple[Source, ...]:
    """The latest evidence of these clusters, by id, or of all that the archive at this URL holds. Needs no Spark.

    Raises InvalidDocument naming the file, the field and the value seen; also if a snapshot is older than `not_before`,
    if a cluster that was named has none, or if there is no evidence at all. Raises StorageUnavailable.
    """
    storage = storage_for_spark(url)
    archive = Archive(storage)
    found = []
    for cluster in archive.clusters() if clusters is None else dict.fromkeys(clusters):
        snapshot = archive.latest(cluster)
        if snapshot is None and clusters is not None:
            raise InvalidDocument(f"{storage.shown}: holds no evidence of cluster {cluster!a}")
        if snapshot is None:
            continue
        if not_before is not None and snapshot.observed_at < not_before:
            seen, least = snapshot.observed_at.isoformat(), not_before.isoformat()
            name = archive.name(snapshot)
            raise InvalidDocument(f"{name}: cluster.observed_at: is {seen}; evidence must not be from before {least}")
        found.append(_checked(archive, snapshot))
    if not any(source.partitions for source in found):
        raise InvalidDocument(f"{storage.shown}: holds no evidence of any partition")
    return tuple(found)


def storage_for_spark(url: str) -> Storage:
    """A storage that Spark reads and writes as well. Raises InvalidDocument, StorageUnavailable."""
    storage = Storage.at(url)
    if "://" in url and "%" in storage.shown:
        said = "no % in a URL: Spark takes it as it stands, other tools for the code of a character"
        raise InvalidDocument(f"{storage.shown}: {said}")
    return storage


def table(spark: SparkSession, found: Iterable[Source]) -> DataFrame:
    """The rows of these files."""
    return spark.read.schema(READ).parquet(*[for_hadoop(source.name) for source in found])


def latest(
    spark: SparkSession, url: str, *, clusters: Sequence[str] | None = None, not_before: datetime | None = None
) -> DataFrame:
    """The rows of `sources`."""
    return table(spark, sources(url, clusters=clusters, not_before=not_before))


def _checked(archive: Archive, snapshot: Snapshot) -> Source:
    """Raises InvalidDocument if the file is not what it should be."""
    name, content = archive.name(snapshot), archive.content(snapshot)
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        archive.check_place(snapshot, surroundings_of(file.schema_arrow, name).cluster)
        _check_offsets(file.metadata, name)
        _check_each_once(file.read(columns=["topic", "partition"]), name)
    except (pa.ArrowException, OSError) as error:
        raise InvalidDocument(f"{name}: is no Parquet file, or a damaged one: {first_line(error)}") from None
    digest = hashlib.sha256(content).hexdigest()
    return Source(snapshot.cluster_id, snapshot.path, name, digest, int(file.metadata.num_rows))


def _check_offsets(metadata: pq.FileMetaData, name: str) -> None:
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            if column.path_in_schema in OFFSETS and (least := _least(column)) < 0:
                path = column.path_in_schema.replace(".list.element", "")
                raise InvalidDocument(f"{name}: {path}: must not be negative (got {least})")


def _least(column: pq.ColumnChunkMetaData) -> int:
    known = column.is_stats_set and column.statistics.has_min_max
    return int(column.statistics.min) if known else 0


def _check_each_once(ids: pa.Table, name: str) -> None:
    counted = ids.group_by(["topic", "partition"]).aggregate([([], "count_all")])
    twice = counted.filter(pc.field("count_all") > 1)
    if twice.num_rows:
        id = TopicPartition(twice["topic"][0].as_py(), twice["partition"][0].as_py())
        raise InvalidDocument(f"{name}: {id}: has evidence twice; which one holds can't be known")


def for_hadoop(name: str) -> str:
    """A file's name as Spark's file systems want it."""
    scheme, separator, rest = name.partition("://")
    return f"{HADOOP_SCHEMES.get(scheme, scheme)}://{rest}" if separator else f"file://{Path(name).absolute()}"


def _without(kind: DataType, left_out: frozenset[str], path: str = "") -> DataType:
    """The same type without the fields at these paths."""
    if isinstance(kind, ArrayType):
        return ArrayType(_without(kind.elementType, left_out, path), kind.containsNull)
    if not isinstance(kind, StructType):
        return kind
    fields = [(f"{path}.{field.name}".lstrip("."), field) for field in kind]
    kept = [
        StructField(field.name, _without(field.dataType, left_out, at), field.nullable)
        for at, field in fields
        if at not in left_out
    ]
    return StructType(kept)


READ = StructType(_without(from_arrow_schema(SCHEMA), NOT_READ).fields)  # type: ignore[attr-defined]
"""The columns that ranking reads, as Spark has them."""
