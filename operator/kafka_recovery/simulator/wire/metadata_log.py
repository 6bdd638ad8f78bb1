"""The controllers' metadata log as bytes: what the model's controller wrote, in the records of Kafka's."""

from __future__ import annotations

import struct
import uuid
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.metadata import MIN_ISR, BrokerState, Kind, MetadataLog, PartitionState, Record
from kafka_recovery.simulator.wire.exchange import Addresses, Values
from kafka_recovery.simulator.wire.ids import uuid_of
from kafka_recovery.simulator.wire.record_schemas import fields, record
from kafka_recovery.simulator.wire.records import ZERO

_LARGEST_BATCH = 500
_MAGIC, _CONTROL = 2, 0x20
_EPOCH_AT, _CRC_AT, _ATTRIBUTES_AT = 12, 17, 21
_LEADER_CHANGE, _HEADER, _FOOTER = (struct.pack(">hh", 0, kind) for kind in (2, 3, 4))
_TOPIC, _PLAINTEXT, _SASL_PLAINTEXT = 2, 0, 2
_FENCED, _UNFENCED = 1, -1
_IDENTITIES = uuid.UUID("5c7b6d1e-4f0e-4c1b-9c55-3c2d3f7e9a10")
"""Whatever needs a UUID that the model does not have gets one made from its name."""


@dataclass(frozen=True, slots=True)
class Written:
    """The log of one cluster. `sasl`: clients have to say who they are, as the listeners in registrations show."""

    kafka: SimulatedKafka
    addresses: Addresses
    sasl: bool = False

    @property
    def log(self) -> MetadataLog:
        """What the model has written."""
        return self.kafka.controllers.log

    def epoch_at(self, offset: int) -> int:
        """The quorum's epoch in which this record was written."""
        return self.log.epochs[bisect_right(self.log.epochs, offset, key=_began) - 1][0]

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to this one, and the offset at which it ends."""
        known = self.log.epochs
        if epoch >= len(known):
            return len(known), self.log.end
        return (epoch, known[epoch][1]) if epoch > 0 else (0, 0)

    def read(self, offset: int, room: int) -> bytes:
        """Whole batches from the one with this offset on, as many as fit, and one in any case."""
        found: list[bytes] = []
        first = self._batch_with(offset)
        while first < self.log.end:
            last = self._last_with(first)
            batch = self._batch(first, last)
            room -= len(batch)
            if found and room < 0:
                break
            found.append(batch)
            first = last + 1
        return b"".join(found)

    def begins_batch(self, offset: int) -> bool:
        """Whether a snapshot may end here: a batch is whole in it, or not at all."""
        return offset == self.log.end or self._begins_batch(offset)

    def snapshot(self, end: int) -> bytes:
        """What all records before this offset add up to (KIP-630)."""
        states = [
            *(self.value(offset) for offset in range(end) if self.log.records[offset].kind is Kind.FEATURE),
            *(self._registration(id, state) for id in self.log.broker_ids if (state := self.log.brokers.at(id, end))),
            *(value for name in self.log.topic_names for value in self._topic_at(end, name)),
        ]
        stamp, last = self._stamp(end - 1), len(states) + 1
        header, footer = _batch_of(0, stamp, 0, [b""], _HEADER), _batch_of(last, stamp, 0, [b""], _FOOTER)
        return header + (_batch_of(1, stamp, 0, states) if states else b"") + footer

    def _topic_at(self, end: int, name: str) -> Iterator[bytes]:
        topic = self.log.topics.at(name, end)
        if topic is None:
            return
        yield self._topic(end - 1, name)
        if topic.min_isr_source == "topic":
            yield self._config(end - 1, name, MIN_ISR)
        for index in range(topic.partitions):
            state = self.log.partitions.at(id := TopicPartition(name, index), end)
            if state is not None:
                yield record("Partition", self._partition_version, self._whole(end - 1, id, state))

    def _batch_with(self, offset: int) -> int:
        while 0 < offset < self.log.end and not self._begins_batch(offset):
            offset -= 1
        return offset

    def _last_with(self, first: int) -> int:
        last = first
        while last + 1 < self.log.end and not self._begins_batch(last + 1):
            last += 1
        return last

    def _begins_batch(self, offset: int) -> bool:
        """Records of one moment are one batch, as long as nobody else leads; who reads where makes no difference."""
        before, this = self.log.records[offset - 1], self.log.records[offset]
        return before.time != this.time or Kind.LEADER in (before.kind, this.kind) or not offset % _LARGEST_BATCH

    def _batch(self, first: int, last: int) -> bytes:
        key = _LEADER_CHANGE if self.log.records[first].kind is Kind.LEADER else None
        values = [self.value(offset) for offset in range(first, last + 1)]
        return _batch_of(first, self._stamp(first), self.epoch_at(first), values, key)

    def _stamp(self, offset: int) -> int:
        return int((self.log.records[offset].time + ZERO) * 1000)

    def value(self, offset: int) -> bytes:
        """What the record says."""
        written = self.log.records[offset]
        match written.kind:
            case Kind.LEADER:
                return self._leader(written)
            case Kind.FEATURE:
                name, level = _pair(written)
                return record("FeatureLevel", 0, Values(name=name, feature_level=level))
            case Kind.BROKER:
                return self._broker(offset, BrokerId(int(str(written.key))))
            case Kind.TOPIC:
                return self._topic(offset, str(written.key))
            case Kind.CONFIG:
                return self._config(offset, *_pair(written))
            case Kind.PARTITION:
                assert isinstance(written.key, TopicPartition)
                return self._partition(offset, written.key)
        return record("NoOp", 0, Values())

    def _leader(self, written: Record) -> bytes:
        controllers = self.kafka.controllers
        voters = [Values(voter_id=controllers.id_of(name)) for name in controllers.names]
        leader = controllers.id_of(str(written.key))
        return fields("LeaderChange", 0, Values(version=0, leader_id=leader, voters=voters, granting_voters=voters))

    def _broker(self, offset: int, id: BrokerId) -> bytes:
        before, after = self.log.brokers.at(id, offset), self.log.brokers.at(id, offset + 1)
        assert after is not None
        if before is None or (before.epoch, before.incarnation) != (after.epoch, after.incarnation):
            return self._registration(id, after)
        change = Values(broker_id=id, broker_epoch=after.epoch, log_dirs=None, fenced=0, in_controlled_shutdown=0)
        if before.fenced != after.fenced:
            change.fenced = _FENCED if after.fenced else _UNFENCED
        change.in_controlled_shutdown = int(after.stopping and not before.stopping)
        return record("BrokerRegistrationChange", change.in_controlled_shutdown, change)

    def _registration(self, id: BrokerId, state: BrokerState) -> bytes:
        host, port = self.addresses(id)
        protocol, name = (_SASL_PLAINTEXT, "SASL_PLAINTEXT") if self.sasl else (_PLAINTEXT, "PLAINTEXT")
        return record("RegisterBroker", 3, Values(
            broker_id=id,
            is_migrating_zk_broker=False,
            incarnation_id=self._identity(f"incarnation {state.incarnation}"),
            broker_epoch=state.epoch,
            end_points=[Values(name=name, host=host, port=port, security_protocol=protocol)],
            features=[],
            rack=state.rack,
            fenced=state.fenced,
            in_controlled_shutdown=state.stopping,
            log_dirs=[self._directory(id, state)],
        ))  # fmt: skip

    def _topic(self, offset: int, name: str) -> bytes:
        before, after = self.log.topics.at(name, offset), self.log.topics.at(name, offset + 1)
        if after is not None:
            return record("Topic", 0, Values(name=name, topic_id=uuid_of(after.id)))
        assert before is not None
        return record("RemoveTopic", 0, Values(topic_id=uuid_of(before.id)))

    def _config(self, offset: int, topic: object, name: object) -> bytes:
        state = self.log.topics.at(topic, offset + 1)
        assert state is not None
        value = str(state.min_isr) if name == MIN_ISR else str(state.unclean).lower()
        return record("Config", 0, Values(resource_type=_TOPIC, resource_name=topic, name=name, value=value))

    def _partition(self, offset: int, id: TopicPartition) -> bytes:
        before, after = self.log.partitions.at(id, offset), self.log.partitions.at(id, offset + 1)
        if after is None:  # RemoveTopic, which follows, stands for its partitions too
            return record("NoOp", 0, Values())
        if before is None:
            return record("Partition", self._partition_version, self._whole(offset, id, after))
        if before.partition_epoch == after.partition_epoch:
            return record("ClearElr", 0, Values(topic_name=id.topic))
        return record("PartitionChange", self._partition_version, self._changed(offset, id, before, after))

    @property
    def _partition_version(self) -> int:
        """Up to 3.9 there is no ELR."""
        return 1 if self.kafka.settings.release.startswith("3.") else 2

    def _whole(self, offset: int, id: TopicPartition, state: PartitionState) -> Values:
        return Values(
            partition_id=id.partition,
            topic_id=uuid_of(state.topic_id),
            replicas=state.replicas,
            isr=state.isr,
            removing_replicas=state.removing,
            adding_replicas=state.adding,
            leader=-1 if state.leader is None else state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            directories=self._directories(offset, state),
            leader_recovery_state=int(state.recovering),
            eligible_leader_replicas=state.elr or None,
            last_known_elr=state.last_known_elr or None,
        )

    def _changed(self, offset: int, id: TopicPartition, before: PartitionState, after: PartitionState) -> Values:
        """What differs. The leader stands there whenever its epoch is a new one."""
        change = Values(partition_id=id.partition, topic_id=uuid_of(after.topic_id))
        if after.leader_epoch != before.leader_epoch:
            change.leader = -1 if after.leader is None else after.leader
        if after.recovering != before.recovering:
            change.leader_recovery_state = int(after.recovering)
        if after.replicas != before.replicas:
            change.directories = self._directories(offset, after)
        for name, field in _LISTS:
            if getattr(after, name) != getattr(before, name):
                setattr(change, field, getattr(after, name))
        return change

    def _directories(self, offset: int, state: PartitionState) -> list[uuid.UUID]:
        holders = ((id, self.log.brokers.at(id, offset + 1)) for id in state.replicas)
        return [uuid.UUID(int=0) if holder is None else self._directory(id, holder) for id, holder in holders]

    def _directory(self, id: BrokerId, state: BrokerState) -> uuid.UUID:
        return self._identity(f"disk {state.disk} of broker {id}")

    def _identity(self, name: str) -> uuid.UUID:
        return uuid.uuid5(_IDENTITIES, f"{self.kafka.cluster_id} {name}")


def _batch_of(first: int, stamp: int, epoch: int, values: Sequence[bytes], control: bytes | None = None) -> bytes:
    """`control`: the key of records that are the quorum's own, or a snapshot's."""
    builder = DefaultRecordBatchBuilder(_MAGIC, 0, False, -1, -1, -1, 2**30)
    for place, value in enumerate(values):
        builder.append(place, stamp, control, value, [])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, first)
    struct.pack_into(">i", data, _EPOCH_AT, epoch)
    if control:
        struct.pack_into(">h", data, _ATTRIBUTES_AT, _CONTROL)
        struct.pack_into(">I", data, _CRC_AT, calc_crc32c(memoryview(data)[_ATTRIBUTES_AT:]))
    return bytes(data)


_LISTS = (
    ("isr", "isr"),
    ("replicas", "replicas"),
    ("removing", "removing_replicas"),
    ("adding", "adding_replicas"),
    ("elr", "eligible_leader_replicas"),
    ("last_known_elr", "last_known_elr"),
)
"""What the model calls a list, and what the record calls it."""


def _began(epoch: tuple[int, int]) -> int:
    return epoch[1]


def _pair(written: Record) -> tuple[object, object]:
    assert isinstance(written.key, tuple)
    return written.key[0], written.key[1]
