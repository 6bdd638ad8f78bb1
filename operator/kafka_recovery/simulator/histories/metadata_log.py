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
_CUT_OFF = 4


@dataclass(slots=True)
class ReadLog:
    """One cluster's log, folded as far as it was asked for; who reads it where makes no difference.

    In one history of four each reading is another process's: the log was cut off meanwhile, up to some snapshot, and
    what the process before had kept is all that tells of before.
    """

    kafka: SimulatedKafka
    _image: Image = field(default_factory=Image)

    def histories(self, ids: Iterable[TopicPartition]) -> Mapping[TopicPartition, PartitionHistory]:
        """Of those partitions that were in sync at some time, as of now."""
        written = Written(self.kafka, _nowhere)
        if self.kafka.seed % _CUT_OFF == 0:
            self._image = restarted(self._image, written)
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


def restarted(image: Image, written: Written) -> Image:
    """A new process's fold, of a snapshot and what was kept: it has read no more than the one before."""
    kept = image.kept()
    if kept is None:
        return image
    end = next(offset for offset in range(kept.upto // 2 + 1, kept.upto + 1) if written.begins_batch(offset))
    again = Image(awaited=kept)
    again.load(end, written.epoch_at(end - 1), batches.read_snapshot(written.snapshot(end)))
    for batch in batches.read(written.read(end, _ALL)):
        if end <= batch.first < kept.upto:
            again.apply(batch)
    assert again.awaited is None or again.doubt, "all was read of which something was kept"
    return again


def _nowhere(broker: BrokerId) -> tuple[str, int]:
    """Addresses, which nobody looks at here."""
    return f"kafka-{broker}", 9092
