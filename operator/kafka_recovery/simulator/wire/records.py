"""Record batches (magic 2) as bytes: checked when they come, given their place in the log when they go."""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.log import Batch
from kafka_recovery.simulator.model.scheduler import FIRST_INSTANT

_HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length of the rest, leader epoch, magic, CRC, attributes, last offset delta, first and greatest
timestamp, producer id, producer epoch, first sequence number, number of records."""

_BEFORE_LENGTH_COUNTS, _BEFORE_CRC_COUNTS, _EPOCH_ENDS, _LENGTH_ENDS = 12, 21, 16, 12
_MAGIC = 2
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_MADE_UP = 500
"""Records that are made up at once for a batch that no real client sent."""

ZERO = FIRST_INSTANT.timestamp()
"""Seconds since 1970 at virtual second 0."""


class Incoming(NamedTuple):
    """A batch as a producer sent it; without idempotence `producer_id` is -1."""

    data: bytes
    records: int
    producer_id: int
    producer_epoch: int
    sequence: int
    newest: float

    def batch(self, anonymous: str) -> Batch:
        """For the model's log. `anonymous`: a name of its own, for a batch that says no producer id."""
        name = anonymous if self.producer_id < 0 else f"producer-{self.producer_id}-{self.producer_epoch}"
        return Batch(0, self.records, 0, name, max(self.sequence, 0), self.newest - ZERO, self.data)


def incoming(data: bytes | None) -> Incoming | Error:
    """The one batch of a Produce request, or what is wrong with it. The records inside are the consumers' business."""
    if data is None or len(data) < _HEADER.size:
        return Error.CORRUPT_MESSAGE
    _, length, _, magic, crc, attributes, delta, _, newest, producer, epoch, sequence, count = _HEADER.unpack_from(data)
    if magic != _MAGIC or count < 1 or delta != count - 1 or attributes & (_TRANSACTIONAL | _CONTROL):
        return Error.INVALID_RECORD
    if _BEFORE_LENGTH_COUNTS + length != len(data):
        return Error.INVALID_RECORD if 0 < length < len(data) - _BEFORE_LENGTH_COUNTS else Error.CORRUPT_MESSAGE
    if calc_crc32c(memoryview(data)[_BEFORE_CRC_COUNTS:]) != crc:
        return Error.CORRUPT_MESSAGE
    return Incoming(data, count, producer, epoch, sequence, newest / 1000)


def outgoing(batch: Batch, offset: int) -> bytes:
    """A batch as consumers read it who want `offset` and what follows. Offset and epoch are outside the CRC."""
    first, data = (batch.first, batch.data) if batch.data is not None else _made_up(batch, offset)
    return b"".join(
        (struct.pack(">q", first), data[8:_LENGTH_ENDS], struct.pack(">i", batch.epoch), data[_EPOCH_ENDS:])
    )


def _made_up(batch: Batch, offset: int) -> tuple[int, bytes]:
    """Records that say which they are, for those of simulated producers."""
    first = max(batch.first, offset)
    last = min(batch.end, first + _MADE_UP)
    builder = DefaultRecordBatchBuilder(_MAGIC, 0, False, -1, -1, -1, 2**30)
    stamp = max(0, int((batch.stamp + ZERO) * 1000))
    for place in range(first, last):
        text = f"{batch.producer} {batch.sequence + place - batch.first}"
        builder.append(place - first, stamp, None, text.encode(), [])
    return first, bytes(builder.build())
