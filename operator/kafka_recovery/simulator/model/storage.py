"""A broker's disk and page cache: what outlives the process, the host, the disk."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from kafka_recovery.domain.ids import TopicId, TopicPartition
from kafka_recovery.simulator.model.log import LoadedLog, Log
from kafka_recovery.simulator.model.messages import NO_BROKER_EPOCH
from kafka_recovery.simulator.model.network import Node
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.timeline import Timeline


@dataclass(slots=True)
class Storage:
    """All logs of one broker. `loaded`: logs given in bulk, shared between brokers until first touched.

    `clean_epoch`: the broker epoch of a clean stop, which the next registration names; NO_BROKER_EPOCH after any other.
    `full`: its volume has no room for another write. `losses`: when records were lost to a crash or a new disk. `disks`
    counts them, the present one too.
    """

    settings: Settings
    node: Node
    timeline: Timeline
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    loaded: dict[TopicPartition, tuple[TopicId, LoadedLog]] = field(default_factory=dict)
    clean_epoch: int = NO_BROKER_EPOCH
    losses: list[float] = field(default_factory=list)
    disks: int = 1
    full: bool = False
    _dirty: dict[int, Log] = field(default_factory=dict)

    @property
    def period(self) -> int:
        """Counts the intervals between two checkpoints of the high watermarks."""
        return int(self.node.scheduler.now / self.settings.watermark_checkpoint)

    def log(self, id: TopicPartition, topic_id: TopicId) -> Log:
        """The partition's log; a new one if there is none, or one of a deleted topic of that name."""
        known = self.peek(id)
        if known is None or known.topic_id != topic_id:
            known = self.logs[id] = Log(topic_id, self.settings.vector_limit)
        return known

    def peek(self, id: TopicPartition) -> Log | None:
        """The partition's log if there is one."""
        known = self.logs.get(id)
        if known is None and id in self.loaded:
            topic_id, given = self.loaded[id]
            known = self.logs[id] = Log.loaded(topic_id, given, self.settings.vector_limit)
        return known

    def delete(self, id: TopicPartition) -> None:
        """The replica was taken away or its topic deleted."""
        self.logs.pop(id, None)
        self.loaded.pop(id, None)

    def written(self, log: Log) -> None:
        """The log has records that are not on disk; they will be after the write-back time."""
        if not self._dirty:
            self.node.scheduler.after(self.settings.writeback, self.flush)
        self._dirty[id(log)] = log

    def flush(self) -> None:
        """Everything in the page cache goes to disk."""
        dirty, self._dirty = self._dirty, {}
        for log in dirty.values():
            log.flush()

    def stopped(self, clean_epoch: int | None) -> None:
        """The process ended; with a broker epoch, cleanly."""
        if clean_epoch is None:
            period = self.period
            for log in self.logs.values():
                log.killed(period)
            self.clean_epoch = NO_BROKER_EPOCH
            return
        for log in self.logs.values():
            log.closed()
        self._dirty.clear()
        self.clean_epoch = clean_epoch

    def lose_power(self) -> int:
        """The host died: what was not flushed is gone; returns how many records."""
        lost, self._dirty = sum(log.lost_power() for log in self.logs.values()), {}
        self.clean_epoch = NO_BROKER_EPOCH
        if lost:
            self.losses.append(self.node.scheduler.now)
        return lost

    def replace_disk(self) -> int:
        """Everything is gone; returns how many records."""
        lost = sum(log.end - log.start for log in self.logs.values())
        lost += sum(given.end - given.start for id, (_, given) in self.loaded.items() if id not in self.logs)
        self.logs, self.loaded, self._dirty = {}, {}, {}
        self.disks += 1
        self.clean_epoch = NO_BROKER_EPOCH
        self.losses.append(self.node.scheduler.now)
        return lost

    def recovery_time(self, replicas: Collection[TopicPartition]) -> float:
        """How long the logs take to load: a while for each after an unclean stop."""
        count = len(replicas) if self.clean_epoch == NO_BROKER_EPOCH else 0
        return count * self.settings.recovery
