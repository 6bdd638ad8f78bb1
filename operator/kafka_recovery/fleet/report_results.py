"""What one run over the fleet has written, read back: nothing is taken from a file that is not the one it wrote.

    result = Result.at("s3://fleet/results/monday")
    for batch in result.batches(LEADERS): ...

Files are read one at a time, and their rows in batches, so that a ranking of millions of partitions costs no more
memory than its largest file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_recovery.fleet.manifest import (
    FILE,
    LARGEST,
    NAME,
    Expected,
    Manifest,
    Output,
    checksum,
    foreign,
    read_manifest,
)
from kafka_recovery.fleet.parquet_files import first_line
from kafka_recovery.fleet.storage import Storage
from kafka_recovery.formats.documents import InvalidDocument

ROWS_A_BATCH = 65_536


@dataclass(frozen=True, slots=True)
class Answer:
    """One folder of a run's results, with the columns that are looked at."""

    name: str
    columns: pa.Schema


def _answer(name: str, *fields: tuple[str, pa.DataType], maybe: tuple[str, ...] = ()) -> Answer:
    """`maybe`: the columns that may be null."""
    return Answer(name, pa.schema([pa.field(column, kind, column in maybe) for column, kind in fields]))


_TEXT, _COUNT, _BROKER = pa.string(), pa.int64(), pa.int32()
_COUNTS = tuple((name, _COUNT) for name in ("offline", "lossless", "bounded", "unknown", "none"))
_CLUSTER, _TOPIC = ("cluster_id", _TEXT), ("topic", _TEXT)

LOSSES = _answer(
    "losses", _CLUSTER, ("kind", _TEXT), ("brokers", pa.list_(_BROKER)), ("together", _COUNT), *_COUNTS
)  # fmt: skip
TOPICS = _answer(
    "topics", _CLUSTER, _TOPIC, ("kind", _TEXT), *_COUNTS, ("worst", _TEXT), ("worst_offline", _COUNT)
)  # fmt: skip
OFFLINE = _answer("offline", _CLUSTER, _TOPIC, *_COUNTS)
RANKING = _answer(
    "ranking",
    ("verdict", _TEXT),
    ("reason", _TEXT),
    ("at_least", _COUNT),
    ("rejections", pa.list_(pa.struct([("broker", _BROKER), ("code", _TEXT)]))),
    maybe=("reason", "at_least"),
)
COUNTS = _answer(
    "counts",
    _CLUSTER,
    _TOPIC,
    ("rule", _TEXT),
    ("verdict", _TEXT),
    ("loss_class", _TEXT),
    ("partitions", _COUNT),
    maybe=("loss_class",),
)
LEADERS = _answer(
    "leaders",
    _CLUSTER,
    ("broker", _BROKER),
    ("rack", _TEXT),
    ("leads", _COUNT),
    ("elected", _COUNT),
    ("preferred", _COUNT),
    maybe=("rack",),
)

ANSWERS: Mapping[str, tuple[Answer, ...]] = {
    "rank": (RANKING, COUNTS, LEADERS),
    "readiness": (LOSSES, TOPICS, OFFLINE),
}
"""By task."""


@dataclass(frozen=True, slots=True)
class Result:
    """A run's folder and its manifest, which was found whole. `checksum`: the manifest's own."""

    manifest: Manifest
    checksum: str
    place: Storage

    @classmethod
    def at(cls, url: str) -> Self:
        """Raises InvalidDocument where no run has ended well, for a manifest that is not whole; StorageUnavailable."""
        place = Storage.at(url)
        name = place.name(NAME)
        if not any(each.path.rpartition("/")[2] == NAME for each in place.listed("")):
            raise InvalidDocument(f"{name}: is not there: name the folder of one run, one that has ended well")
        raw = place.read(NAME, at_most=LARGEST)
        manifest = read_manifest(raw, name)
        as_it_says = Expected(manifest.task, manifest.run, manifest.policy_digest)
        if why := foreign(manifest, as_it_says) or _strange(manifest):
            raise InvalidDocument(f"{name}: {why}")
        return cls(manifest, checksum(raw), place)

    def batches(self, answer: Answer) -> Iterator[pa.RecordBatch]:
        """The rows of an answer, in the files' order. Raises InvalidDocument for a file that is not the one written."""
        for output in self.manifest.outputs:
            if output.path.startswith(f"{answer.name}/"):
                yield from self._rows(output, answer.columns)

    def _rows(self, output: Output, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        name = self.place.name(output.path)
        content = self.place.read(output.path)
        if hashlib.sha256(content).hexdigest() != output.sha256:
            raise InvalidDocument(f"{name}: its SHA-256 is not the one in {NAME}: it was damaged, or changed since")
        try:
            file = pq.ParquetFile(pa.BufferReader(content))
            if missing := set(columns.names) - set(file.schema_arrow.names):
                raise InvalidDocument(f"{name}: {min(missing)}: is a column that is missing")
            for batch in file.iter_batches(ROWS_A_BATCH, columns=columns.names):
                yield _cast(batch, columns, name)
        except (pa.ArrowException, OSError) as error:
            raise InvalidDocument(f"{name}: is no Parquet file, or a damaged one: {first_line(error)}") from None


def _strange(manifest: Manifest) -> str | None:
    """What a manifest says that no run of this release writes; None: nothing."""
    if manifest.task not in ANSWERS:
        return f"task: must be one of {', '.join(ANSWERS)} (got {manifest.task[:80]!a})"
    expected = {answer.name for answer in ANSWERS[manifest.task]}
    for output in manifest.outputs:
        named = FILE.fullmatch(output.path)
        if named is None or named["answer"] not in expected:
            return f"outputs: {output.path[:80]!a} is no file of a {manifest.task}"
    found = {output.path.partition("/")[0] for output in manifest.outputs}
    if absent := expected - found:
        return f"outputs: names no file of {min(absent)}"
    return None


def _cast(batch: pa.RecordBatch, columns: pa.Schema, name: str) -> pa.RecordBatch:
    """With the columns' own types. Raises InvalidDocument for a value that should be there and is not."""
    arrays = []
    for field in columns:
        column = batch.column(field.name)
        if column.null_count and not field.nullable:
            raise InvalidDocument(f"{name}: {field.name}: must have a value in every row")
        arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=columns)
