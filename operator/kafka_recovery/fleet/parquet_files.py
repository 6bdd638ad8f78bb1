"""One look at a cluster as the bytes of one Parquet file, and back with every doubt spoken out."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.fleet.rows import Row, Surroundings, partition, rows
from kafka_recovery.fleet.schema import SCHEMA, SURROUNDINGS_KEY, VERSION, VERSION_KEY
from kafka_recovery.formats.documents import InvalidDocument, canonical, read

ROWS_A_GROUP = 25_000
"""Some tens of MB while they are written."""

_UNREADABLE = (pa.ArrowException, OSError, ValueError, OverflowError)
"""What pyarrow raises for bytes that are no Parquet, are cut short, or hold text or instants that can't be."""


def encoded(evidence: Evidence, name: str) -> bytes:
    """The file's bytes. Raises InvalidDocument for evidence that could not be read back, `name` being where it goes."""
    _each_once((seen.id for seen in evidence.partitions), name)
    surroundings = canonical(Surroundings(evidence.cluster, evidence.missing))
    schema = SCHEMA.with_metadata({VERSION_KEY: str(VERSION).encode(), SURROUNDINGS_KEY: surroundings})
    content = io.BytesIO()
    everything = rows(evidence)
    try:
        with pq.ParquetWriter(content, schema, compression="zstd", write_page_checksum=True) as writer:
            while some := list(islice(everything, ROWS_A_GROUP)):
                writer.write_batch(pa.RecordBatch.from_pylist(some, schema=schema))
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidDocument(f"{name}: this evidence has no place in a file: {first_line(error)}") from None
    return content.getvalue()


def decoded(raw: bytes, name: str) -> Evidence:
    """The evidence that went in. Raises InvalidDocument naming the file, the field and the value seen.

    Derived columns must agree with what they are derived from: who reads only rows must not decide otherwise.
    """
    if not raw:
        raise InvalidDocument(f"{name}: is empty")
    try:
        file = pq.ParquetFile(pa.BufferReader(raw), page_checksum_verification=True)
        surroundings = surroundings_of(file.schema_arrow, name)
        found: list[Row] = file.read().to_pylist()
    except InvalidDocument:
        raise
    except _UNREADABLE as error:
        raise InvalidDocument(f"{name}: is no Parquet file, or a damaged one: {first_line(error)}") from None
    try:
        evidence = Evidence(surroundings.cluster, tuple(map(partition, found)), surroundings.missing)
    except ValueError as error:  # a history that is too long, or of a loss class that there is not
        raise InvalidDocument(f"{name}: {first_line(error)}") from None
    _each_once((seen.id for seen in evidence.partitions), name)
    for derived, row in zip(rows(evidence), found, strict=True):
        if derived != row:
            path, seen, right = _difference(row, derived)
            id = TopicPartition(row["topic"], row["partition"])
            raise InvalidDocument(f"{name}: {id}: {path}: must be {_shown(right)} (got {_shown(seen)})")
    return evidence


def surroundings_of(schema: pa.Schema, name: str) -> Surroundings:
    """What a file's metadata says of its look, once it is known to be one of ours. Raises InvalidDocument."""
    said: dict[bytes, bytes] = schema.metadata or {}
    version = said.get(VERSION_KEY)
    if version is None:
        raise InvalidDocument(f"{name}: {VERSION_KEY.decode()}: is missing, so this is no evidence file")
    if version != str(VERSION).encode():
        shown = ascii(version.decode(errors="replace")[:40])
        raise InvalidDocument(f"{name}: {VERSION_KEY.decode()}: this release reads version {VERSION} (got {shown})")
    if not schema.equals(SCHEMA):
        raise InvalidDocument(f"{name}: {_other_column(schema)}")
    return read(Surroundings, said.get(SURROUNDINGS_KEY, b""), f"{name}: {SURROUNDINGS_KEY.decode()}")


def _other_column(schema: pa.Schema) -> str:
    """The first column that is not as the schema has it."""
    for place, wanted in enumerate(SCHEMA):
        found = schema.field(place) if place < len(schema) else None
        if found is None or not found.equals(wanted):
            seen = "nothing" if found is None else _shown(found)
            return f"{wanted.name}: must be the column {_shown(wanted)} (got {seen})"
    return f"{schema.field(len(SCHEMA)).name}: is an unknown column"


def _each_once(ids: Iterable[TopicPartition], name: str) -> None:
    twice = next((id for id, times in Counter(ids).items() if times > 1), None)
    if twice:
        raise InvalidDocument(f"{name}: {twice}: has evidence twice; which one holds can't be known")


def _difference(seen: Any, right: Any, path: str = "") -> tuple[str, Any, Any]:
    """The first place where two unequal values of the same shape differ: its path and both values there."""
    if isinstance(seen, dict) and isinstance(right, dict):
        key = next(key for key in right if seen[key] != right[key])
        return _difference(seen[key], right[key], f"{path}.{key}".lstrip("."))
    if isinstance(seen, list) and isinstance(right, list) and len(seen) == len(right):
        place = next(place for place in range(len(right)) if seen[place] != right[place])
        return _difference(seen[place], right[place], f"{path}[{place}]")
    return path, seen, right


def _shown(value: object, limit: int = 120) -> str:
    text = str(value) if isinstance(value, pa.Field) else ascii(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def first_line(error: Exception) -> str:
    """What an error says first; libraries go on for pages."""
    return str(error).partition("\n")[0] or type(error).__name__
