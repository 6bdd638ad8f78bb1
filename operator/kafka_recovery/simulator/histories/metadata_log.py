"""The metadata log as engines read it, and what only the brokers' hosts tell beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafka_recovery.cluster.metadata_log import batches
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.domain.history import BrokerStart, PartitionHistory
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.wire.ids import uuid_of
from kafka_recovery.simulator.wire.metadata_log import Written

_ALL = 1 << 30


@dataclass(slots=True)
class ReadLog:
    """One cluster's log, folded as far as it was asked for; who reads it where makes no difference."""

    kafka: SimulatedKafka
    _image: Image = field(default_factory=Image)

    def histories(self, ids: Iterable[TopicPartition]) -> Mapping[TopicPartition, PartitionHistory]:
        """Of those partitions that were in sync at some time, as of now."""
        written = Written(self.kafka, _nowhere)
        for batch in batches.read(written.read(self._image.upto, _ALL)):
            if batch.last >= self._image.upto:
                self._image.apply(batch)
        assert self._image.doubt is None, self._image.doubt
        states = self.kafka.controllers.state.partitions
        told = {id: self._image.history(uuid_of(states[id].topic_id), id.partition) for id in ids if id in states}
        return {id: self._with_hosts(history) for id, history in told.items() if history is not None}

    def _with_hosts(self, history: PartitionHistory) -> PartitionHistory:
        """Volumes and boots too: what Kubernetes tells of a broker's node."""
        return replace(history, starts=tuple(map(self._with_host, history.starts)))

    def _with_host(self, start: BrokerStart) -> BrokerStart:
        volume, boot = self.kafka.truth.host(start.broker, start.epoch)
        return replace(start, volume=volume, boot=boot)


def _nowhere(broker: BrokerId) -> tuple[str, int]:
    """Addresses, which nobody looks at here."""
    return f"kafka-{broker}", 9092
