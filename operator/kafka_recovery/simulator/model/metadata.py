"""The controller's metadata log: every state of every broker, topic and partition, seen by a broker up to an offset.

There is one log. A broker's own, possibly old, view is that log up to the offset the broker has applied, so that a
hundred brokers cost no more than one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition


class PartitionState(NamedTuple):
    """One partition. `leader` None: offline. `adding`, `removing`: an ongoing reassignment.

    `recovering`: led after an unclean election, until its next ISR change (LeaderRecoveryState).
    """

    topic_id: TopicId
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId | None
    leader_epoch: LeaderEpoch = LeaderEpoch(0)
    partition_epoch: int = 0
    elr: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    recovering: bool = False


class BrokerState(NamedTuple):
    """One registration. `epoch`: the broker epoch (KIP-343's incarnation id): the offset it was registered at."""

    epoch: int
    incarnation: str
    fenced: bool
    stopping: bool = False
    rack: str | None = None


class TopicState(NamedTuple):
    """One topic and its configs; `min_isr_source` as DescribeConfigs names it."""

    id: TopicId
    partitions: int
    min_isr: int
    unclean: bool
    min_isr_source: str = "topic"


Stated = TypeVar("Stated")


class Versions(Generic[Stated]):
    """Every state that each key ever had, with the offset of the record that set it; None: deleted."""

    __slots__ = ("_of",)

    def __init__(self) -> None:
        self._of: dict[object, list[tuple[int, Stated | None]]] = {}

    def put(self, key: object, offset: int, state: Stated | None) -> None:
        """The newest state."""
        versions = self._of.get(key)
        if versions is None:
            self._of[key] = [(offset, state)]
        else:
            versions.append((offset, state))

    def at(self, key: object, applied: int) -> Stated | None:
        """The state for one who has applied all records before offset `applied`."""
        versions = self._of.get(key)
        if versions is None:
            return None
        if versions[-1][0] < applied:
            return versions[-1][1]
        index = bisect_left(versions, applied, key=_offset_of)
        return versions[index - 1][1] if index else None

    def all_of(self, key: object) -> list[tuple[int, Stated | None]]:
        """Every state of one key, oldest first."""
        return self._of.get(key, [])


class News(NamedTuple):
    """A record that concerns a broker: one of its partitions has a new state."""

    offset: int
    partition: TopicPartition


@dataclass(slots=True)
class MetadataLog:
    """`end`: the next offset, which is also the high watermark: what is written is committed.

    `held`: every partition a broker ever had a replica of. `times`: when a record was written, by offset.
    `names_by_id`: of every topic that ever was.
    """

    end: int = 0
    partitions: Versions[PartitionState] = field(default_factory=Versions)
    topics: Versions[TopicState] = field(default_factory=Versions)
    brokers: Versions[BrokerState] = field(default_factory=Versions)
    topic_names: dict[str, None] = field(default_factory=dict)
    names_by_id: dict[TopicId, str] = field(default_factory=dict)
    broker_ids: list[BrokerId] = field(default_factory=list)
    held: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    _news: dict[BrokerId, list[News]] = field(default_factory=dict)

    def no_op(self) -> None:
        """A record that says nothing, written so that observers can tell silence from standstill."""
        self.end += 1

    def put_partition(self, id: TopicPartition, state: PartitionState | None, now: float) -> None:
        """A partition's new state."""
        before = self.partitions.at(id, self.end)
        self.partitions.put(id, self.end, state)
        self.times[self.end] = now
        if state is not None and (before is None or before.replicas is not state.replicas):
            for broker in state.replicas:
                self.held.setdefault(broker, {})[id] = None
        news = News(self.end, id)
        for broker in {*(before.replicas if before else ()), *(state.replicas if state else ())}:
            self._news.setdefault(broker, []).append(news)
        self.end += 1

    def load_partition(self, id: TopicPartition, state: PartitionState) -> None:
        """A partition that was there from the beginning: nobody has to react to it."""
        self.partitions.put(id, -1, state)
        for broker in state.replicas:
            self.held.setdefault(broker, {})[id] = None

    def put_topic(self, name: str, state: TopicState | None) -> None:
        """A topic's new state."""
        self.topics.put(name, self.end, state)
        self.topic_names[name] = None
        if state is not None:
            self.names_by_id[state.id] = name
        self.end += 1

    def put_broker(self, id: BrokerId, state: BrokerState) -> None:
        """A broker's new registration state."""
        if id not in self.broker_ids:
            self.broker_ids = sorted([*self.broker_ids, id])
        self.brokers.put(id, self.end, state)
        self.end += 1

    def news(self, broker: BrokerId, applied: int, end: int) -> tuple[TopicPartition, ...]:
        """The broker's partitions that records from offset `applied` up to before `end` are about, each once."""
        news = self._news.get(broker, [])
        if not news or news[-1].offset < applied:
            return ()
        first = bisect_left(news, applied, key=_offset_of)
        return tuple(dict.fromkeys(one.partition for one in news[first:] if one.offset < end))

    def partitions_of(self, broker: BrokerId) -> tuple[TopicPartition, ...]:
        """Every partition that ever had a replica there."""
        return tuple(self.held.get(broker, ()))

    def partition_ids(self, applied: int) -> Iterator[TopicPartition]:
        """Every partition that exists for one who has applied so much, by topic in order of creation."""
        for name in self.topic_names:
            topic = self.topics.at(name, applied)
            if topic is not None:
                for index in range(topic.partitions):
                    yield TopicPartition(name, index)


def _offset_of(entry: tuple[int, object]) -> int:
    return entry[0]
