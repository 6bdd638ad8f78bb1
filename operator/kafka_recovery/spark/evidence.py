"""An archive of evidence as one table: of each cluster its latest snapshot, checked before Spark does any work.

The driver reads every file once, one at a time: its digest, version and columns, whose and of when it is, and that no
partition has evidence twice. So a file that is damaged or in the wrong place costs a sentence, not half a job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from kafka_recovery.domain.documents import InvalidDocument, read
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.fleet.export import Archive, Snapshot
from kafka_recovery.fleet.rows import Surroundings
from kafka_recovery.fleet.schema import SCHEMA, SURROUNDINGS_KEY, VERSION, VERSION_KEY
from kafka_recovery.fleet.storage import Storage

CLUSTER_FOLDER = "cluster_id="

NOT_READ = frozenset(
    {
        "topic_id",
        "internal",
        "last_known_elr",
        "min_isr",
        "unclean_election_enabled",
        "tiered",
        "witnessed_ends.source",
        "replicas.problem.message",
        "replicas.log.high_watermark",
        "replicas.log.took_us",
        "cluster.release",
        "cluster.elr_enabled",
        "cluster.view_from",
        "cluster.took_us",
    }
)
"""What no guard or order looks at; leaving it out is a third of the reading."""

OFFSETS = frozenset(
    {"replicas.list.element.log.start", "replicas.list.element.log.end", "witnessed_ends.list.element.end"}
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
    storage = Storage.at(url)
    archive = Archive(storage)
    found = []
    for cluster in _found(storage) if clusters is None else dict.fromkeys(clusters):
        snapshot = archive.latest(cluster)
        if snapshot is None and clusters is not None:
            raise InvalidDocument(f"{storage.shown}: holds no evidence of cluster {cluster!a}")
        if snapshot is None:
            continue
        name = archive.name(snapshot)
        if not_before is not None and snapshot.observed_at < not_before:
            seen, least = snapshot.observed_at.isoformat(), not_before.isoformat()
            raise InvalidDocument(f"{name}: cluster.observed_at: is {seen}; evidence must not be from before {least}")
        found.append(_checked(storage.read(snapshot.path), snapshot, name))
    if not any(source.partitions for source in found):
        raise InvalidDocument(f"{storage.shown}: holds no evidence of any partition")
    return tuple(found)


def table(spark: SparkSession, found: Iterable[Source]) -> DataFrame:
    """The rows of these files."""
    return spark.read.schema(READ).parquet(*[for_hadoop(source.name) for source in found])


def latest(
    spark: SparkSession, url: str, *, clusters: Sequence[str] | None = None, not_before: datetime | None = None
) -> DataFrame:
    """The rows of `sources`."""
    return table(spark, sources(url, clusters=clusters, not_before=not_before))


def one_id_each(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Ids of clusters by name. Raises InvalidDocument if one name stands for two clusters."""
    ids: dict[str, str] = {}
    for name, id in named:
        if ids.setdefault(name, id) != id:
            raise InvalidDocument(f"cluster {name!a}: stands for two ids, {ids[name]!a} and {id!a}; rename one of them")
    return ids


def _found(storage: Storage) -> Iterator[str]:
    """The ids of all clusters of an archive, sorted."""
    names = (entry.path.rpartition("/")[2] for entry in storage.listed("") if entry.is_folder)
    return (unquote(name.removeprefix(CLUSTER_FOLDER)) for name in sorted(names) if name.startswith(CLUSTER_FOLDER))


def _checked(content: bytes, snapshot: Snapshot, name: str) -> Source:
    """Raises InvalidDocument if the file is not what it should be."""
    digest = hashlib.sha256(content).hexdigest()
    if not digest.startswith(snapshot.digest):
        begins = digest[: len(snapshot.digest)]
        raise InvalidDocument(f"{name}: is damaged: its SHA-256 begins with {begins}, not as its name says")
    try:
        file = pq.ParquetFile(pa.BufferReader(content))
        _check_columns(file.schema_arrow, name)
        _check_place(file.schema_arrow.metadata, snapshot, name)
        _check_offsets(file.metadata, name)
        _check_each_once(file.read(columns=["topic", "partition"]), name)
    except (pa.ArrowException, OSError) as error:
        raise InvalidDocument(f"{name}: is no Parquet file, or a damaged one: {_first_line(error)}") from None
    return Source(snapshot.cluster_id, snapshot.path, name, digest, int(file.metadata.num_rows))


def _check_columns(schema: pa.Schema, name: str) -> None:
    version = (schema.metadata or {}).get(VERSION_KEY, b"nothing").decode(errors="replace")
    if version != str(VERSION):
        raise InvalidDocument(
            f"{name}: {VERSION_KEY.decode()}: this release reads version {VERSION} (got {version[:40]!a})"
        )
    for wanted in SCHEMA:
        place = schema.get_field_index(wanted.name)
        if place < 0 or not schema.field(place).equals(wanted):
            seen = "nothing" if place < 0 else f"{schema.field(place).type}"
            raise InvalidDocument(f"{name}: {wanted.name}: must be {wanted.type} (got {seen[:120]})")
    if len(schema) > len(SCHEMA):
        unknown = next(column for column in schema.names if column not in SCHEMA.names)
        raise InvalidDocument(f"{name}: {unknown}: is an unknown column")


def _check_place(metadata: dict[bytes, bytes], snapshot: Snapshot, name: str) -> None:
    """One cluster's evidence under another's name would be taken for the other's."""
    key = SURROUNDINGS_KEY.decode()
    cluster = read(Surroundings, metadata.get(SURROUNDINGS_KEY, b""), f"{name}: {key}").cluster
    if (cluster.cluster_id, cluster.observed_at) != (snapshot.cluster_id, snapshot.observed_at):
        was = f"{cluster.cluster_id!a} at {cluster.observed_at.isoformat()}"
        raise InvalidDocument(f"{name}: cluster: is evidence of {was}, so it lies in the wrong place")


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


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


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
