"""What a client may ask a simulated broker, and what it is answered.

Each request says the type of its answer. A broker answers from its own applied metadata, which may be old; what changes
the cluster, reassignments and the quorum it forwards to the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from kafka_recovery.domain.evidence import MinInsyncReplicas, Reassignment
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.log import Batch

Answered = TypeVar("Answered")

ANY_EPOCH = LeaderEpoch(-1)
"""The broker does not compare leader epochs."""

SERVED = 1000
"""Partitions of one request that KIP-1275's two requests serve; the others are left out of the answer."""


class Request(Generic[Answered]):
    """A question whose answer is an `Answered`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The connection was refused at once: the host lives, no process listens (a host that is gone says nothing)."""

    broker: BrokerId


@dataclass(frozen=True, slots=True)
class Versions:
    """Who the broker is and how far it has applied the metadata log."""

    release: str
    features: tuple[tuple[str, int], ...]
    metadata_offset: int
    designated_elections: bool


@dataclass(frozen=True, slots=True)
class ApiVersions(Request[Versions]):
    """The look that needs no permission (finalized_features_epoch is the applied metadata offset)."""


class BrokerListed(NamedTuple):
    """One broker of DescribeCluster."""

    id: BrokerId
    fenced: bool
    rack: str | None


@dataclass(frozen=True, slots=True)
class ClusterDescribed:
    """`lists_fenced` False: fenced brokers are left out (before 4.0)."""

    cluster_id: str
    brokers: tuple[BrokerListed, ...]
    lists_fenced: bool


@dataclass(frozen=True, slots=True)
class DescribeCluster(Request[ClusterDescribed]):
    """DescribeCluster v2, from the broker's own metadata. `fenced_too`: IncludeFencedBrokers; clients leave it off."""

    fenced_too: bool = True


@dataclass(frozen=True, slots=True)
class PartitionDescribed:
    """One partition as the broker's metadata has it; `elr` and `last_known_elr` are empty where ELR is off.

    `offline`: replicas whose broker is fenced or gone, or whose log directory has failed.
    """

    topic_id: TopicId
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...]
    last_known_elr: tuple[BrokerId, ...]
    offline: tuple[BrokerId, ...] = ()


@dataclass(frozen=True, slots=True)
class PartitionsDescribed:
    """Partitions that exist; what was asked for and is absent is unknown to this broker."""

    partitions: Mapping[TopicPartition, PartitionDescribed]


@dataclass(frozen=True, slots=True)
class DescribePartitions(Request[PartitionsDescribed]):
    """DescribeTopicPartitions, all pages; None: every partition. `offline_only` saves copying what has a leader."""

    partitions: tuple[TopicPartition, ...] | None
    offline_only: bool = False


class TopicListed(NamedTuple):
    """One topic as the broker's metadata has it."""

    id: TopicId
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicsListed:
    """Topics that exist, in order of creation."""

    topics: Mapping[str, TopicListed]


@dataclass(frozen=True, slots=True)
class ListTopics(Request[TopicsListed]):
    """Which of these topics exist; None: all that do."""

    names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class TopicsNamed:
    """Names of the topics that exist."""

    names: Mapping[TopicId, str]


@dataclass(frozen=True, slots=True)
class NameTopics(Request[TopicsNamed]):
    """What the topics of these ids are called."""

    ids: tuple[TopicId, ...]


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The effective configs that matter here."""

    min_isr: MinInsyncReplicas
    unclean_election_enabled: bool
    tiered: bool = False


@dataclass(frozen=True, slots=True)
class ConfigsDescribed:
    """By topic; an unknown topic is absent."""

    topics: Mapping[str, TopicConfig]


@dataclass(frozen=True, slots=True)
class DescribeConfigs(Request[ConfigsDescribed]):
    """DescribeConfigs of these topics."""

    topics: tuple[str, ...]


class At(Enum):
    """Which offset ListOffsets looks for."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    SINCE = 0
    """The first record that is not older than a time."""


class OffsetFound(NamedTuple):
    """`leader_epoch`: the partition's current one; only for MAX_TIMESTAMP the found record's own. -1 with an error."""

    error: Error
    offset: Offset
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class OffsetsFound:
    """An answer for every partition asked."""

    partitions: Mapping[TopicPartition, OffsetFound]


@dataclass(frozen=True, slots=True)
class ListOffsets(Request[OffsetsFound]):
    """ListOffsets. `debugging` is replica id -2: any replica answers with its log end; else only the leader answers.

    `partitions` names the leader epoch to ask under, or ANY_EPOCH. `since`: a time of the leader's clock.
    """

    partitions: Mapping[TopicPartition, LeaderEpoch]
    at: At = At.LATEST
    debugging: bool = False
    since: float = 0.0


class ReadFrom(NamedTuple):
    """Where one partition is to be read. `topic_id` None: whatever topic has the name.

    `last_epoch`: the epoch of the record before `offset`, so that the broker can tell whether its log holds that one.
    """

    topic_id: TopicId | None
    leader_epoch: LeaderEpoch
    offset: Offset
    last_epoch: LeaderEpoch | None = None


class LogRead(NamedTuple):
    """What one partition's log holds from there on; with an error the rest means nothing.

    `diverging`: the largest epoch up to the one named and where it ends, if the log does not hold what the reader has.
    """

    error: Error
    start: Offset
    high_watermark: Offset
    diverging: tuple[LeaderEpoch, Offset] | None = None
    batches: tuple[Batch, ...] = ()


@dataclass(frozen=True, slots=True)
class LogsRead:
    """An answer for every partition asked."""

    partitions: Mapping[TopicPartition, LogRead]


@dataclass(frozen=True, slots=True)
class ReadLogs(Request[LogsRead]):
    """Fetch by a consumer, answered at once by any replica. `to_the_end`: beyond the high watermark too."""

    partitions: Mapping[TopicPartition, ReadFrom]
    to_the_end: bool = False


class LogInfo(NamedTuple):
    """One entry of GetReplicaLogInfo: the *current* leader epoch as the broker knows it, not the last record's."""

    error: Error
    leader_epoch: LeaderEpoch
    log_end: Offset


@dataclass(frozen=True, slots=True)
class ReplicaLogInfo:
    """The first 1000 partitions asked for; `has_more_data`: there were more (KIP-1275).

    `throttled`: seconds for which this client, over its quota, shall ask no more.
    """

    broker_epoch: int
    has_more_data: bool
    partitions: Mapping[TopicPartition, LogInfo]
    throttled: float = 0.0


@dataclass(frozen=True, slots=True)
class GetReplicaLogInfo(Request["ReplicaLogInfo | Unsupported"]):
    """KIP-1275; a fenced broker answers too. None: every partition that has a replica there.

    CLUSTER_ACTION on the cluster and DESCRIBE on the topic are needed; each partition tells what is missing, for the
    answer has no error of its own. `by`: who asks.
    """

    partitions: tuple[tuple[TopicPartition, TopicId], ...] | None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The broker does not know this request or this version of it."""


@dataclass(frozen=True, slots=True)
class QuorumDescribed:
    """`error` is REQUEST_TIMED_OUT where the broker did not reach a controller for as long as it forwards."""

    error: Error
    high_watermark: int


@dataclass(frozen=True, slots=True)
class DescribeQuorum(Request[QuorumDescribed]):
    """The metadata log's high watermark, forwarded to the active controller."""


@dataclass(frozen=True, slots=True)
class ReassignmentsListed:
    """Ongoing reassignments among the partitions asked for."""

    error: Error
    partitions: Mapping[TopicPartition, Reassignment]


@dataclass(frozen=True, slots=True)
class ListReassignments(Request[ReassignmentsListed]):
    """ListPartitionReassignments, forwarded; None: all."""

    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class Decided:
    """The controller's codes. `error` is for all of it: REQUEST_TIMED_OUT leaves the outcome open."""

    error: Error
    partitions: Mapping[TopicPartition, Error]


@dataclass(frozen=True, slots=True)
class AlterReassignments(Request[Decided]):
    """AlterPartitionReassignments, forwarded; None as target cancels. `by`: who asks, for whoever reads events."""

    targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]
    by: str
    allow_replication_factor_change: bool = False


class ElectionType(Enum):
    """ElectLeaders' election types; DESIGNATED is KIP-1275's."""

    PREFERRED = 0
    UNCLEAN = 1
    DESIGNATED = 2


@dataclass(frozen=True, slots=True)
class ElectLeaders(Request["Decided | Unsupported"]):
    """ElectLeaders, forwarded. `partitions` None: every partition without a leader. `by`: who asks.

    `designated` goes with DESIGNATED only, which needs CLUSTER_ACTION: a leader for each partition, by their order.
    `timeout`: how long a designated election may take (KIP-1275); the others take as long as the broker forwards.
    """

    type: ElectionType
    partitions: tuple[TopicPartition, ...] | None
    by: str
    designated: tuple[BrokerId, ...] | None = None
    timeout: float = 60.0
