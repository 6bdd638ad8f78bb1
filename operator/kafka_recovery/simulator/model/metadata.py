"""The controller's metadata log: every state of every broker, topic and partition, seen by a broker up to an offset.

There is one log. A broker's own, possibly old, view is that log up to the offset the broker has applied, so that a
hundred brokers cost no more than one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
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
    """One registration. `epoch`: the broker epoch (KIP-343's incarnation id): the offset it was registered at.

    `disk` counts the disks that the broker has had.
    """

    epoch: int
    incarnation: str
    fenced: bool
    stopping: bool = False
    rack: str | None = None
    disk: int = 1


class TopicState(NamedTuple):
    """One topic and its configs; `min_isr_source` as DescribeConfigs names it."""

    id: TopicId
    partitions: int
    min_isr: int
    unclean: bool
    min_isr_source: str = "topic"
    tiered: bool = False


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


class Kind(Enum):
    """What a record is about, and the key that goes with it."""

    NO_OP = "nothing"
    LEADER = "the quorum has a new leader; its name"
    FEATURE = "a feature has a level; its name and the level"
    BROKER = "a broker; its id"
    TOPIC = "a topic; its name"
    CONFIG = "a topic's config; the names of both"
    PARTITION = "a partition; its id"


class Record(NamedTuple):
    """What one offset of the log holds. What it says is the key's state as of the next offset."""

    kind: Kind
    key: object
    time: float


MIN_ISR, UNCLEAN, TIERED = "min.insync.replicas", "unclean.leader.election.enable", "remote.storage.enable"


class News(NamedTuple):
    """A record that concerns a broker: one of its partitions has a new state."""

    offset: int
    partition: TopicPartition


@dataclass(slots=True)
class MetadataLog:
    """What is written is committed. `epochs`: each epoch of the quorum, and the offset at which it began.

    `held`: every partition a broker ever had a replica of. `names_by_id`: of every topic that ever was.
    """

    now: Callable[[], float]
    records: list[Record] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    partitions: Versions[PartitionState] = field(default_factory=Versions)
    topics: Versions[TopicState] = field(default_factory=Versions)
    brokers: Versions[BrokerState] = field(default_factory=Versions)
    topic_names: dict[str, None] = field(default_factory=dict)
    names_by_id: dict[TopicId, str] = field(default_factory=dict)
    broker_ids: list[BrokerId] = field(default_factory=list)
    held: dict[BrokerId, dict[TopicPartition, None]] = field(default_factory=dict)
    _news: dict[BrokerId, list[News]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The next offset, which is also the high watermark."""
        return len(self.records)

    @property
    def epoch(self) -> int:
        """The quorum's, from 1 on."""
        return len(self.epochs)

    def time(self, offset: int) -> float:
        """When this record was written."""
        return self.records[offset].time

    def no_op(self) -> None:
        """A record that says nothing, written so that observers can tell silence from standstill."""
        self._write(Kind.NO_OP, None)

    def lead(self, controller: str) -> None:
        """The first record of a new leader of the quorum."""
        self.epochs.append((len(self.epochs) + 1, self.end))
        self._write(Kind.LEADER, controller)

    def feature(self, name: str, level: int) -> None:
        """A feature's level."""
        self._write(Kind.FEATURE, (name, level))

    def put_partition(self, id: TopicPartition, state: PartitionState | None) -> None:
        """A partition's new state."""
        before = self.partitions.at(id, self.end)
        self.partitions.put(id, self.end, state)
        if state is not None and (before is None or before.replicas is not state.replicas):
            for broker in state.replicas:
                self.held.setdefault(broker, {})[id] = None
        news = News(self.end, id)
        for broker in {*(before.replicas if before else ()), *(state.replicas if state else ())}:
            self._news.setdefault(broker, []).append(news)
        self._write(Kind.PARTITION, id)

    def load_partition(self, id: TopicPartition, state: PartitionState) -> None:
        """A partition that was there from the beginning: nobody has to react to it."""
        self.partitions.put(id, self.end, state)
        for broker in state.replicas:
            self.held.setdefault(broker, {})[id] = None
        self._write(Kind.PARTITION, id)

    def put_topic(self, name: str, state: TopicState | None) -> None:
        """A topic's new state: a record for the topic where it comes or goes, and one for each config that is set."""
        before = self.topics.at(name, self.end)
        self.topics.put(name, self.end, state)
        self.topic_names[name] = None
        if before is None or state is None:
            self._write(Kind.TOPIC, name)
        if state is None:
            return
        self.names_by_id[state.id] = name
        for config in _set(before, state):
            self._write(Kind.CONFIG, (name, config))

    def put_broker(self, id: BrokerId, state: BrokerState) -> None:
        """A broker's new registration state."""
        if id not in self.broker_ids:
            self.broker_ids = sorted([*self.broker_ids, id])
        self.brokers.put(id, self.end, state)
        self._write(Kind.BROKER, id)

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

    def _write(self, kind: Kind, key: object) -> None:
        self.records.append(Record(kind, key, self.now()))


def _set(before: TopicState | None, state: TopicState) -> tuple[str, ...]:
    """Configs for which there are records; of a topic that was there already, at least one."""
    if before is None:
        named = (MIN_ISR,) if state.min_isr_source == "topic" else ()
        return (*named, UNCLEAN) if state.unclean else named
    unclean = before.unclean != state.unclean
    tiered = before.tiered != state.tiered
    minimum = before.min_isr != state.min_isr or not (unclean or tiered)
    changed = {MIN_ISR: minimum, UNCLEAN: unclean, TIERED: tiered}
    return tuple(name for name, is_new in changed.items() if is_new)


def _offset_of(entry: tuple[int, object]) -> int:
    return entry[0]
