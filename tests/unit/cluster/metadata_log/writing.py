"""A metadata log that a test writes, a batch at a time, in the bytes that controllers write."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from kafka_recovery.cluster.metadata_log import batches
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.domain.history import PartitionHistory
from kafka_recovery.simulator.wire.exchange import Values
from kafka_recovery.simulator.wire.record_schemas import record

ORDERS = UUID(int=77)
A, B, C = 1, 2, 3
DISKS = {id: UUID(int=100 + id) for id in (A, B, C)}
HOUR = 3_600_000
NO_LEADER = -1
LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER = 2, 3, 4


@dataclass
class Written:
    """Batches, oldest first; `now` in milliseconds is the controller's clock, and stands still by itself."""

    data: bytes = b""
    end: int = 0
    now: int = 1_000_000
    epoch: int = 1
    firsts: list[int] = field(default_factory=list)

    def add(self, *values: bytes, control: int | None = None) -> int:
        """One batch; returns the offset of its first record."""
        first = self.end
        self.data += batch(first, values, self.now, self.epoch, control=control)
        self.firsts.append(len(self.data))
        self.end += len(values)
        return first

    def pass_time(self, milliseconds: int, every: int = 5_000) -> None:
        """With the no-ops that idle controllers write, so many milliseconds apart."""
        for _ in range(0, milliseconds, every):
            self.now += every
            self.add(record("NoOp", 0, Values()))

    def image(self) -> Image:
        """All of it, folded."""
        image = Image()
        for each in batches.read(self.data):
            image.apply(each)
        return image

    def history(self) -> PartitionHistory | None:
        """Of `orders-0`, which has to be readable."""
        image = self.image()
        assert image.doubt is None, image.doubt
        return image.history(ORDERS, 0)


def batch(
    first: int, values: Sequence[bytes], time: int, epoch: int, *, control: int | None = None, stands_for: int = 0
) -> bytes:
    """A record batch of format 2; `control`: of records of this type, which are the quorum's own.

    `stands_for`: so many offsets, however few records it holds.
    """
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 2**30)
    for place, value in enumerate(values):
        builder.append(place, time, struct.pack(">hh", 0, control) if control else None, value, [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, first)
    struct.pack_into(">i", data, 12, epoch)
    if control:
        struct.pack_into(">h", data, 21, 0x20)
    if stands_for:
        struct.pack_into(">i", data, 23, stands_for - 1)
    struct.pack_into(">I", data, 17, calc_crc32c(memoryview(data)[21:]))
    return bytes(data)


def snapshot(*values: bytes) -> bytes:
    """One state, between a header and a footer."""
    now, end = 1_000_000, 1 + len(values)
    head, foot = batch(0, [b""], now, 3, control=SNAPSHOT_HEADER), batch(end, [b""], now, 3, control=SNAPSHOT_FOOTER)
    return head + (batch(1, values, now, 3) if values else b"") + foot


def created(*, minimum: int | None = 2, replicas: Sequence[int] = (A, B, C), places: Sequence[UUID] = ()) -> Written:
    """A log in which brokers A, B and C have registered and `orders-0` was created, all in sync."""
    log = Written()
    log.add(b"", control=LEADER_CHANGE)
    log.add(feature(elr=0))
    for broker in (A, B, C):
        log.add(registered(broker, log.end))
    configs = [] if minimum is None else [minimum_of("orders", str(minimum))]
    log.add(record("Topic", 0, Values(name="orders", topic_id=ORDERS)), *configs, whole(replicas, directories=places))
    return log


def cut_off(isr: Sequence[int], *epochs: int) -> bytes:
    """The snapshot behind which Kafka cuts such a log off: `orders-0` with this ISR, and each broker's registration."""
    brokers = [registered(broker, epoch) for broker, epoch in zip((A, B, C), epochs or (2, 3, 4), strict=True)]
    topic = record("Topic", 0, Values(name="orders", topic_id=ORDERS))
    return snapshot(topic, minimum_of("orders", "2"), *brokers, whole((A, B, C), isr=isr))


def feature(*, elr: int) -> bytes:
    """The level of KIP-966's feature."""
    return record("FeatureLevel", 0, Values(name="eligible.leader.replicas.version", feature_level=elr))


def registered(broker: int, epoch: int, *, incarnation: int | None = None, disks: Sequence[UUID] = ()) -> bytes:
    """A broker's process; another one each time, unless its incarnation is named."""
    known = UUID(int=incarnation if incarnation is not None else 1000 * broker + epoch)
    return record("RegisterBroker", 3, Values(
        broker_id=broker, is_migrating_zk_broker=False, incarnation_id=known, broker_epoch=epoch, end_points=[],
        features=[], rack=None, fenced=True, in_controlled_shutdown=False, log_dirs=list(disks) or [DISKS.get(broker)],
    ))  # fmt: skip


def minimum_of(name: str, value: str | None, *, kind: int = 2) -> bytes:
    """min.insync.replicas of a topic, or of a broker (4)."""
    return record("Config", 0, Values(resource_type=kind, resource_name=name, name="min.insync.replicas", value=value))


def whole(
    replicas: Sequence[int],
    *,
    isr: Sequence[int] | None = None,
    leader: int | None = None,
    leader_epoch: int = 0,
    topic_id: UUID = ORDERS,
    directories: Sequence[UUID] = (),
) -> bytes:
    """`orders-0`, as it is created or stands in a snapshot."""
    return record("Partition", 2, Values(
        partition_id=0, topic_id=topic_id, replicas=list(replicas), isr=list(isr or replicas), removing_replicas=[],
        adding_replicas=[], leader=replicas[0] if leader is None else leader, leader_epoch=leader_epoch,
        partition_epoch=0, directories=list(directories) or [DISKS.get(id, UUID(int=0)) for id in replicas],
        leader_recovery_state=0, eligible_leader_replicas=None, last_known_elr=None,
    ))  # fmt: skip


def changed(**fields: Any) -> bytes:
    """`orders-0` differs in these fields."""
    return record("PartitionChange", 2, Values(partition_id=0, topic_id=fields.pop("topic_id", ORDERS), **fields))
