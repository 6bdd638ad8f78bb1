"""Record batches of the metadata log, as far as they are committed."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from kafka.errors import KafkaError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords

from kafka_recovery.cluster.codec import Unreadable

_MAGIC = 2
_HEADER, _FOOTER = 3, 4
_CONTROL_KEY = struct.Struct(">hh")
"""Version and type of a control record."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Some records that were written at once: (offset, value) each. `time`: the controller's clock, milliseconds.

    Of a control batch, which is about the quorum and not about the cluster, no records, but its type.
    """

    first: int
    last: int
    epoch: int
    time: int
    values: tuple[tuple[int, bytes], ...]
    control: int | None = None


def read(data: bytes) -> Iterator[Batch]:
    """The whole batches in `data`; what is cut off at its end is left out.

    Raises Unreadable for what is no batch of format 2, is compressed (Kafka writes none here), or fails its checksum.
    """
    try:
        records = MemoryRecords(data)
        while (batch := records.next_batch()) is not None:
            yield _batch(batch)
    except Unreadable:
        raise
    except (KafkaError, ValueError, IndexError, AssertionError, OverflowError) as error:
        raise Unreadable(f"metadata log: {type(error).__name__} {error}") from error
    except Exception as error:  # struct.error, and whatever else bytes may provoke in the library
        raise Unreadable(f"metadata log: {type(error).__name__}") from error


def read_snapshot(data: bytes) -> Iterator[Batch]:
    """All batches of a snapshot (KIP-630), which a header begins and a footer ends.

    Raises Unreadable, at the latest after its last batch, for what `read` does, and for one that is not whole.
    """
    kind, reached = _HEADER, 0
    for batch in read(data):
        if (reached == 0) != (batch.control == _HEADER) or kind == _FOOTER:
            raise Unreadable("metadata snapshot: its header is missing, or something stands where none is to be")
        kind, reached = batch.control or 0, batch.last + 1
        yield batch
    if kind != _FOOTER or MemoryRecords(data).valid_bytes() != len(data):
        raise Unreadable("metadata snapshot: its end is missing")


def _batch(batch: DefaultRecordBatch) -> Batch:
    if not isinstance(batch, DefaultRecordBatch) or batch.magic != _MAGIC or batch.compression_type:
        raise Unreadable("metadata log: a record batch of another format than 2, or a compressed one")
    if not batch.validate_crc():
        raise Unreadable(f"metadata log: the batch at offset {batch.base_offset} fails its checksum")
    found = list(batch)
    first, last = batch.base_offset, batch.last_offset
    if not 0 <= first <= last or [record.offset for record in found] != list(range(first, last + 1)):
        raise Unreadable(f"metadata log: the batch from offset {first} to {last} has not one record for each of them")
    if batch.is_control_batch:
        return Batch(first, last, batch.leader_epoch, batch.max_timestamp, (), _control_type(found[0].key))
    values = tuple([(record.offset, record.value or b"") for record in found])
    return Batch(first, last, batch.leader_epoch, batch.max_timestamp, values)


def _control_type(key: bytes | None) -> int:
    if key is None or len(key) < _CONTROL_KEY.size:
        raise Unreadable("metadata log: a control record without a type")
    _, kind = _CONTROL_KEY.unpack_from(key)
    return int(kind)
