"""Record batches of the metadata log, as far as they are committed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka.errors import KafkaError
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.memory_records import MemoryRecords

from kafka_recovery.cluster.codec import Unreadable

_MAGIC = 2


@dataclass(frozen=True, slots=True)
class Batch:
    """Some records that were written at once: (offset, value) each. `time`: the controller's clock, milliseconds.

    Of a control batch, which is about the quorum and not about the cluster, no records.
    """

    first: int
    last: int
    epoch: int
    time: int
    values: tuple[tuple[int, bytes], ...]


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


def _batch(batch: DefaultRecordBatch) -> Batch:
    if not isinstance(batch, DefaultRecordBatch) or batch.magic != _MAGIC or batch.compression_type:
        raise Unreadable("metadata log: a record batch of another format than 2, or a compressed one")
    if not batch.validate_crc():
        raise Unreadable(f"metadata log: the batch at offset {batch.base_offset} fails its checksum")
    values = () if batch.is_control_batch else tuple([(record.offset, record.value or b"") for record in batch])
    first, last = batch.base_offset, batch.last_offset
    if not 0 <= first <= last or any(not first <= offset <= last for offset, _ in values):
        raise Unreadable(f"metadata log: a batch from offset {first} to {last}")
    return Batch(first, last, batch.leader_epoch, batch.max_timestamp, values)
