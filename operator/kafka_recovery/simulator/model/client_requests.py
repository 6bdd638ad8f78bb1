"""What ordinary clients ask of brokers besides: to write, to make topics, where epochs end, how large logs are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.log import Batch
from kafka_recovery.simulator.model.messages import Produced
from kafka_recovery.simulator.model.requests import Request


@dataclass(frozen=True, slots=True)
class Appended:
    """An answer for every partition."""

    partitions: Mapping[TopicPartition, Produced]


@dataclass(frozen=True, slots=True)
class AppendRecords(Request[Appended]):
    """Produce: one batch for each partition. `acks`: "all", "1" or "0". `timeout`: seconds to wait for replicas."""

    batches: Mapping[TopicPartition, Batch]
    acks: str
    timeout: float


@dataclass(frozen=True, slots=True)
class EpochsEnd:
    """By partition: an error, or the largest epoch up to the one asked for and where it ends."""

    partitions: Mapping[TopicPartition, tuple[Error, LeaderEpoch, Offset]]


@dataclass(frozen=True, slots=True)
class EndsOfEpochs(Request[EpochsEnd]):
    """OffsetForLeaderEpoch: the current epoch as the client knows it (-1: any), and the epoch it asks about."""

    partitions: Mapping[TopicPartition, tuple[LeaderEpoch, LeaderEpoch]]


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """`sizes`: bytes by partition; `failed`: replicas in a directory that is offline; `full`: the other has no room."""

    sizes: Mapping[TopicPartition, int]
    failed: tuple[TopicPartition, ...]
    full: bool = False


@dataclass(frozen=True, slots=True)
class DescribeLogDirectory(Request[LogDirectory]):
    """DescribeLogDirs; a simulated broker has one directory."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """`assignments` None: the controller spreads `partitions` partitions of `replicas` replicas over live brokers."""

    name: str
    partitions: int
    replicas: int
    assignments: tuple[tuple[BrokerId, ...], ...] | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicMade:
    """`id` is None with an error, and where it was only asked whether it could be."""

    error: Error
    id: TopicId | None = None
    partitions: int = -1
    replicas: int = -1


@dataclass(frozen=True, slots=True)
class TopicsMade:
    """`error` is for all of it: REQUEST_TIMED_OUT leaves the outcome open."""

    error: Error
    topics: Mapping[str, TopicMade]


@dataclass(frozen=True, slots=True)
class CreateTopics(Request[TopicsMade]):
    """CreateTopics, forwarded."""

    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """`error` is for all of it: REQUEST_TIMED_OUT leaves the outcome open."""

    error: Error
    topics: Mapping[str, Error]


@dataclass(frozen=True, slots=True)
class DeleteTopics(Request[TopicsDeleted]):
    """DeleteTopics, forwarded."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProducerNumbered:
    """-1 with an error."""

    error: Error
    id: int


@dataclass(frozen=True, slots=True)
class NumberProducer(Request[ProducerNumbered]):
    """InitProducerId without transactions, forwarded."""
