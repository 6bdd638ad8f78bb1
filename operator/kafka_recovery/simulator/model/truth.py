"""The truth that no client can see: every record ever sent, what each replica really holds, what really happened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.simulator.model.broker import Broker
from kafka_recovery.simulator.model.controller import Controllers
from kafka_recovery.simulator.model.log import Batch, RecordId, record_ids
from kafka_recovery.simulator.model.metadata import PartitionState


@dataclass(slots=True)
class Sent:
    """`count` records that a producer sent at once, with ids from `sequence` on. Times in virtual seconds.

    `topic_id` is set when a leader is about to append them; `offset`, `leader_epoch` (of who acknowledged them) and
    `acknowledged_at` when the producer heard of it.
    """

    partition: TopicPartition
    producer: str
    sequence: int
    count: int
    acks: str
    sent_at: float
    topic_id: TopicId | None = None
    leader_epoch: int = -1
    offset: int | None = None
    acknowledged_at: float | None = None

    @property
    def ids(self) -> tuple[RecordId, ...]:
        """Its records."""
        return tuple(RecordId(self.producer, self.sequence + index) for index in range(self.count))


@dataclass(slots=True)
class Truth:
    """For oracles and tests; nothing here costs virtual time or changes anything."""

    controllers: Controllers
    brokers: Mapping[BrokerId, Broker]
    _sent: dict[TopicPartition, list[Sent]] = field(default_factory=dict)
    _deleted: dict[TopicPartition, set[RecordId]] = field(default_factory=dict)

    def deleted(self, id: TopicPartition, records: Iterable[RecordId]) -> None:
        """Somebody had these deleted, on purpose, by a leader that held them."""
        self._deleted.setdefault(id, set()).update(records)

    def add(self, sent: Sent) -> None:
        """A producer sends these."""
        self._sent.setdefault(sent.partition, []).append(sent)

    def sent(self, id: TopicPartition) -> Sequence[Sent]:
        """Everything ever sent to the partition, oldest first."""
        return self._sent.get(id, ())

    def acknowledged(self, id: TopicPartition) -> Sequence[Sent]:
        """What was acknowledged with acks=all, of the topic that now has the name."""
        state = self.state(id)
        topic_id = state.topic_id if state else None
        return [
            sent
            for sent in self.sent(id)
            if sent.acks == "all" and sent.acknowledged_at is not None and sent.topic_id == topic_id
        ]

    def log(self, broker: int, id: TopicPartition) -> tuple[Batch, ...]:
        """The replica's records as they are now, also where nobody can ask for them."""
        log = self.brokers[BrokerId(broker)].storage.peek(id)
        return tuple(log.batches) if log else ()

    def log_end(self, broker: int, id: TopicPartition) -> int:
        """The replica's log end; 0 if there is none."""
        log = self.brokers[BrokerId(broker)].storage.peek(id)
        return log.end if log else 0

    def high_watermark(self, broker: int, id: TopicPartition) -> int:
        """What the replica believes."""
        log = self.brokers[BrokerId(broker)].storage.peek(id)
        return log.high_watermark if log else 0

    def epochs(self, broker: int, id: TopicPartition) -> tuple[tuple[int, int], ...]:
        """The replica's leader-epoch vector."""
        log = self.brokers[BrokerId(broker)].storage.peek(id)
        return tuple((entry.epoch, entry.start) for entry in log.epochs) if log else ()

    def records(self, broker: int, id: TopicPartition) -> frozenset[RecordId]:
        """The ids of the replica's records."""
        log = self.brokers[BrokerId(broker)].storage.peek(id)
        return frozenset(record_ids(log.batches, log.start)) if log else frozenset()

    def missing(self, broker: int, id: TopicPartition) -> tuple[RecordId, ...]:
        """What was acknowledged with acks=all and is not in this replica's log: lost if it leads now.

        What a leader was told to delete is not missing anywhere.
        """
        held = self.records(broker, id)
        gone = self._deleted.get(id, set())
        return tuple(
            record for sent in self.acknowledged(id) for record in sent.ids if record not in held and record not in gone
        )

    def state(self, id: TopicPartition) -> PartitionState | None:
        """The controller's own state of the partition."""
        return self.controllers.state.partitions.get(id)

    def fenced(self, broker: int) -> bool:
        """By the controller's own state."""
        return self.controllers.state.brokers[BrokerId(broker)].fenced

    def stopping(self, broker: int) -> bool:
        """By the controller's own state."""
        return self.controllers.state.brokers[BrokerId(broker)].stopping

    def broker_epoch(self, broker: int) -> int:
        """By the controller's own state."""
        return self.controllers.state.brokers[BrokerId(broker)].epoch

    def incarnation(self, broker: int) -> str:
        """The process that runs, or ran last, on the broker's node."""
        return self.brokers[BrokerId(broker)].incarnation

    def leads(self, broker: int, id: TopicPartition) -> bool:
        """Whether the broker takes itself for the leader."""
        copy = self.brokers[BrokerId(broker)].copies.get(id)
        return copy is not None and copy.leading is not None

    def host(self, broker: BrokerId, epoch: int) -> tuple[str, str]:
        """The volume that held the broker's logs when it registered with this epoch, and its host's boot.

        What was not flushed is lost with the host's power: then its boot is another one.
        """
        log, losses = self.controllers.log, self.brokers[broker].storage.losses
        disks = {state.epoch: state.disk for _, state in log.brokers.all_of(broker) if state is not None}
        boot = sum(lost <= log.time(epoch) for lost in losses)
        return f"volume {disks[epoch]} of broker {broker}", f"boot {boot} of broker {broker}"
