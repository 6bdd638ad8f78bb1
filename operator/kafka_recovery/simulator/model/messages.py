"""What brokers say to each other and to the controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.log import Batch
from kafka_recovery.simulator.model.metadata import PartitionState

NO_BROKER_EPOCH = -1
"""The broker epoch is not known, and the check is not supported (KIP-903)."""


class BrokerStatus(Enum):
    """KIP-343's BrokerState, with KIP-343's numbers."""

    INITIAL = 0
    """Has not reached the controller yet."""
    INACTIVE = 1
    """Fenced: not in metadata for clients, leads nothing."""
    ACTIVE = 2
    STOPPING = 3
    """Serves, and its leaderships are being moved away."""


@dataclass(frozen=True, slots=True)
class Registration:
    """BrokerRegistration. `previous_epoch`: of the last clean stop, NO_BROKER_EPOCH after an unclean one (KIP-966).

    `endpoint`: host and port at which clients and other brokers are to find it. `disk`: which of its disks this is.
    """

    broker: BrokerId
    incarnation: str
    previous_epoch: int
    rack: str | None
    endpoint: str
    disk: int = 1


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """KIP-343's MetadataHeartbeatRequest, with what KRaft's adds: applied metadata, dead log directories.

    `incarnation_id` is the broker epoch.
    """

    broker: BrokerId
    incarnation_id: int
    target: BrokerStatus
    applied: int
    offline: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """KIP-343's MetadataHeartbeatResponse. `may_stop`: nothing is led there any more.

    `broker`, `incarnation_id`: those to use, where there is no error.
    """

    error: Error
    current: BrokerStatus
    may_stop: bool = False
    broker: BrokerId | None = None
    incarnation_id: int = NO_BROKER_EPOCH


@dataclass(frozen=True, slots=True)
class IsrProposal:
    """AlterPartition for one partition; KIP-343's request holds many.

    `isr` names broker epochs; NO_BROKER_EPOCH where the leader does not know one or the version has none.
    """

    broker: BrokerId
    broker_epoch: int
    partition: TopicPartition
    topic_id: TopicId
    leader_epoch: int
    partition_epoch: int
    isr: Mapping[BrokerId, int]


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """`top` is the error of the whole request; `state` the partition's new state if it was accepted."""

    top: Error
    error: Error
    state: PartitionState | None = None


@dataclass(frozen=True, slots=True)
class IsrChangeRequest:
    """KIP-343's: of one broker process, by topic."""

    broker: BrokerId
    incarnation_id: int
    topics: tuple[tuple[str, tuple[IsrProposal, ...]], ...]


@dataclass(frozen=True, slots=True)
class IsrChangeResponse:
    """A result for each partition, in the order of the request; none where `top` is an error."""

    top: Error
    results: tuple[IsrAnswer, ...] = ()

    @property
    def alone(self) -> IsrAnswer:
        """The result of a request about one partition."""
        return self.results[0] if self.top is Error.NONE else IsrAnswer(self.top, self.top)


class FetchPosition(NamedTuple):
    """Where a follower stands in one partition. `last_epoch`: its vector's last.

    `high_watermark`: how far it knows records to be committed; Kafka's Fetch does not say (KAFKA-1211's title).
    """

    topic_id: TopicId
    leader_epoch: int
    offset: int
    last_epoch: int
    high_watermark: int = -1


@dataclass(frozen=True, slots=True)
class Fetch:
    """One Fetch of an incremental session (KIP-227): what changed since the last one.

    `broker_epoch` is ReplicaState's (Fetch v15, KIP-903). `first`: begins a new session.
    """

    broker: BrokerId
    broker_epoch: int
    first: bool
    changed: Mapping[TopicPartition, FetchPosition]
    forgotten: tuple[TopicPartition, ...] = ()


class Fetched(NamedTuple):
    """The leader's answer for one partition. `diverging`: the follower's log parts from the leader's here (KIP-595)."""

    error: Error
    leader_epoch: int
    batches: tuple[Batch, ...] = ()
    high_watermark: int = -1
    start: int = 0
    end: int = 0
    diverging: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Produced:
    """The leader's answer to a Produce. `leader_epoch`: under which it acknowledges; real Kafka does not say."""

    error: Error
    offset: int = -1
    leader_epoch: int = -1
