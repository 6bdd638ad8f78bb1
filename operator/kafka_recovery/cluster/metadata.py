"""What a broker's copy of the controller's metadata says: brokers, partitions, configs, reassignments, quorum."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)

from kafka_recovery.cluster.brokers import ATTEMPTS, Address, Brokers
from kafka_recovery.cluster.errors import InvalidAnswer, reason_for
from kafka_recovery.domain.election import Gone, Unseen
from kafka_recovery.domain.evidence import MinInsyncReplicas, Reassignment
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset, TopicId, TopicPartition
from kafka_recovery.domain.quickly import made_quickly
from kafka_recovery.domain.reason import Reason

MOST_BROKERS = 10_000
"""More than any cluster has; whoever lists more does not tell the truth."""

MOST_PARTITIONS = 2_000_000
"""More than KRaft's controllers hold; pages that show more are not gone on with."""

_TOPICS_KEPT = 10_000
"""Topics whose ids are not read anew each time that a broker is asked about them."""

PAGE = 2000
"""Partitions a page of DescribeTopicPartitions: the most a broker gives (max.request.partition.size.limit)."""

_DESCRIBE_CLUSTER = (0, 2)
_LISTS_FENCED = 2

_UNKNOWN_TOPIC = "UnknownTopicOrPartition"
"""The only error that says that there is no such topic; a broker hides none that way from who names it."""

_NO_UUID = uuid.UUID(int=0)
_TOPIC_RESOURCE = 2
_MIN_ISR, _UNCLEAN, _TIERED = "min.insync.replicas", "unclean.leader.election.enable", "remote.storage.enable"
_CONFIG_SOURCES = {
    1: "topic",
    2: "broker (dynamic)",
    3: "cluster default (dynamic)",
    4: "broker (static)",
    5: "Kafka's default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}


@dataclass(frozen=True, slots=True)
class BrokerEntry:
    """One broker of DescribeCluster."""

    id: BrokerId
    address: Address
    rack: str | None
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """DescribeCluster's answer. `lists_fenced`: fenced brokers are among `brokers` (Kafka 4.0+, KIP-1073)."""

    cluster_id: str
    brokers: Mapping[BrokerId, BrokerEntry]
    lists_fenced: bool


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition of DescribeTopicPartitions (KIP-966).

    `offline`: replicas that the controller would not elect: their broker is fenced or gone, or their log directory has
    failed (KIP-858).
    """

    id: TopicPartition
    topic_id: TopicId
    internal: bool
    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...]
    last_known_elr: tuple[BrokerId, ...]
    offline: frozenset[BrokerId]


@dataclass(frozen=True, slots=True)
class Partitions:
    """Partitions that can be seen, and topics that can't and why. `topics`: those that were told of without an error.

    `as_of`: the metadata are at least this new; None: the broker did not say.
    """

    states: Mapping[TopicPartition, PartitionState]
    unseen: Mapping[str, Reason]
    topics: Collection[str] = frozenset()
    as_of: MetadataOffset | None = None

    def absent(self, id: TopicPartition) -> Unseen | Gone:
        """What it means that this partition is not among those seen, though it was asked about."""
        why = self.unseen.get(id.topic)
        if why is not None:
            return (Gone if why.code == _UNKNOWN_TOPIC else Unseen)(id, why)
        if id.topic in self.topics:
            return Gone(id, Reason("PartitionGone", f"topic {id.topic} has no partition {id.partition}"))
        return Unseen(id, Reason("AnswerIncomplete", f"the answer about topic {id.topic} was left out"))


@dataclass(frozen=True, slots=True)
class TopicConfigs:
    """The configs of a topic that matter to a recovery; None where one could not be read. `problem`: why none could."""

    min_isr: MinInsyncReplicas | None = None
    unclean_election_enabled: bool | None = None
    tiered: bool | None = None
    problem: Reason | None = None


def topic_id_text(id: uuid.UUID | None) -> TopicId:
    """A topic's UUID in Kafka's base64 form (22 characters)."""
    return TopicId(base64.urlsafe_b64encode((id or _NO_UUID).bytes).decode().rstrip("="))


@lru_cache(_TOPICS_KEPT)
def topic_uuid(id: TopicId) -> uuid.UUID:
    """The UUID of a topic id in Kafka's base64 form."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(id + "=="))


async def describe_cluster(
    brokers: Brokers, at: Address, deadline: timedelta, attempts: int = ATTEMPTS
) -> ClusterEntry:
    """All brokers that `at` knows of, the fenced ones too where the release lists them."""
    version = await brokers.version_for(at, DescribeClusterRequest, _DESCRIBE_CLUSTER, deadline)
    lists_fenced = version >= _LISTS_FENCED
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=False, **({"include_fenced_brokers": True} if lists_fenced else {})
    )
    answer = await brokers.ask(at, request, _DESCRIBE_CLUSTER, deadline, attempts=attempts)
    return cluster_entry(at, answer, lists_fenced)


def cluster_entry(at: Address, answer: Any, lists_fenced: bool) -> ClusterEntry:
    """DescribeCluster's answer, checked. Raises InvalidAnswer."""
    if answer.error_code:
        raise InvalidAnswer(at, f"DescribeCluster was refused: {reason_for(answer.error_code, 'DescribeCluster')}")
    entries = [
        BrokerEntry(BrokerId(b.broker_id), Address(b.host, b.port), b.rack, bool(lists_fenced and b.is_fenced))
        for b in answer.brokers
    ]
    if len(entries) > MOST_BROKERS:
        raise InvalidAnswer(at, f"DescribeCluster named {len(entries)} brokers; at most {MOST_BROKERS} are believed")
    if len({entry.id for entry in entries}) != len(entries) or any(entry.id < 0 for entry in entries):
        raise InvalidAnswer(at, "DescribeCluster named a broker twice or a negative broker id")
    return ClusterEntry(answer.cluster_id, {entry.id: entry for entry in entries}, lists_fenced)


async def describe_partitions(
    brokers: Brokers, at: Address, partitions: Iterable[TopicPartition] | None, deadline: timedelta
) -> Partitions:
    """These partitions and others of their topics, or, for None, all that the principal may describe. Page by page.

    Of a single topic only the stretch from the first to the last wanted partition is read.
    """
    indexes = None if partitions is None else by_topic(set(partitions))
    if indexes is not None and not indexes:
        return Partitions({}, {})
    names = None if indexes is None else sorted(indexes)
    states: dict[TopicPartition, PartitionState] = {}
    unseen: dict[str, Reason] = {}
    topics: set[str] = set()
    limit, cursor, last = _stretch(indexes)
    make = DescribeTopicPartitionsRequest
    while True:
        request = make(
            topics=[make.TopicRequest(name=name) for name in names or ()],
            response_partition_limit=limit,
            cursor=cursor,
        )
        answer = await brokers.ask(at, request, versions=(0, 0), deadline=deadline)
        _note_page(at, names, answer, cursor, states, unseen)
        topics.update(topic.name for topic in answer.topics if not topic.error_code)
        cursor = following_page(at, answer, cursor)
        if cursor is None or (last is not None and cursor.partition_index > last):
            return Partitions(states, unseen, topics)


def following_page(at: Address, answer: Any, cursor: Any) -> Any:
    """Where the page after `answer` begins, itself begun at `cursor`; None after the last one.

    Raises InvalidAnswer for a page that does not advance: it would never end.
    """
    following = answer.next_cursor
    if following is None:
        return None
    place = following.topic_name, following.partition_index
    if cursor is not None and place <= (cursor.topic_name, cursor.partition_index):
        raise InvalidAnswer(at, f"DescribeTopicPartitions does not advance beyond {following.topic_name}")
    return DescribeTopicPartitionsRequest.Cursor(topic_name=place[0], partition_index=place[1])


def check_turn(at: Address, topic: Any, cursor: Any) -> None:
    """Raises InvalidAnswer where a topic's partitions on a page that began at `cursor` do not follow one another.

    Kafka numbers them without a gap, removes none, and shows them in their order (KIP-966). What is garbled on its way
    would else be a partition that is not there, and the one in its place would be gone.
    """
    expected = cursor.partition_index if cursor is not None and cursor.topic_name == topic.name else 0
    for partition in topic.partitions:
        if partition.partition_index != expected:
            wrong = f"{topic.name}-{partition.partition_index} where {topic.name}-{expected} has its turn"
            raise InvalidAnswer(at, f"DescribeTopicPartitions shows {wrong}")
        expected += 1


def _stretch(indexes: Mapping[str, Sequence[int]] | None) -> tuple[int, Any, int | None]:
    """Partitions a page, where the first page begins, and the last wanted index (None: all are)."""
    if indexes is None or len(indexes) > 1:
        return PAGE, None, None
    ((name, wanted),) = indexes.items()
    first, last = wanted[0], wanted[-1]
    cursor = DescribeTopicPartitionsRequest.Cursor(topic_name=name, partition_index=first)
    return min(PAGE, last - first + 1), cursor, last


def _note_page(
    at: Address,
    names: Collection[str] | None,
    answer: Any,
    cursor: Any,
    states: dict[TopicPartition, PartitionState],
    unseen: dict[str, Reason],
) -> None:
    """Add what one page shows. Raises InvalidAnswer for a topic that was not asked about (`names` None: all were)."""
    for topic in answer.topics:
        if names is not None and topic.name not in names:
            raise InvalidAnswer(at, f"DescribeTopicPartitions answered about {topic.name!r}, which was not asked")
        if topic.error_code:
            needs = f"DESCRIBE on topic {topic.name}"
            unseen[topic.name] = reason_for(topic.error_code, f"topic {topic.name}", needs=needs)
            continue
        check_turn(at, topic, cursor)
        for state in partition_states(at, topic, topic.partitions):
            states[state.id] = state
    if len(states) > MOST_PARTITIONS:
        raise InvalidAnswer(at, f"DescribeTopicPartitions shows more than {MOST_PARTITIONS} partitions")


def partition_states(at: Address, topic: Any, partitions: Iterable[Any]) -> Iterator[PartitionState]:
    """These partitions of a topic on a page, checked. Raises InvalidAnswer."""
    name, internal, topic_id = topic.name, bool(topic.is_internal), topic_id_text(topic.topic_id)
    for partition in partitions:
        id = TopicPartition(name, partition.partition_index)
        replicas: tuple[BrokerId, ...] = tuple(partition.replica_nodes)
        if id.partition < 0 or not replicas or len(set(replicas)) != len(replicas) or min(replicas) < 0:
            raise InvalidAnswer(at, f"{id} has the replicas {list(replicas)}, which can't be")
        if partition.leader_epoch >= _NO_NEXT_EPOCH:
            raise InvalidAnswer(at, f"{id} has the leader epoch {partition.leader_epoch}, which no other could follow")
        yield _state(
            id=id,
            topic_id=topic_id,
            internal=internal,
            leader=BrokerId(partition.leader_id) if partition.leader_id >= 0 else None,
            leader_epoch=LeaderEpoch(partition.leader_epoch),
            replicas=replicas,
            isr=tuple(partition.isr_nodes),
            elr=tuple(partition.eligible_leader_replicas or ()),
            last_known_elr=tuple(partition.last_known_elr or ()),
            offline=frozenset(partition.offline_replicas or ()),
        )


_state = made_quickly(PartitionState)
_NO_NEXT_EPOCH = 2**31 - 1
"""Kafka's leader epochs are of 32 bits with a sign, and each election takes the next one."""


async def quorum_high_watermark(brokers: Brokers, at: Address, deadline: timedelta) -> int | Reason:
    """The metadata log's high watermark as the active controller gives it, or why it can't be had."""
    make = DescribeQuorumRequest
    partition = make.TopicData.PartitionData(partition_index=0)
    request = make(topics=[make.TopicData(topic_name="__cluster_metadata", partitions=[partition])])
    answer = await brokers.ask(at, request, versions=(0, 2), deadline=deadline)
    if answer.error_code:
        return reason_for(answer.error_code, "DescribeQuorum", needs="DESCRIBE on the cluster")
    found = answer.topics[0].partitions[0] if answer.topics and answer.topics[0].partitions else None
    if found is None or found.error_code or found.high_watermark < 0:
        return reason_for(found.error_code if found else -1, "DescribeQuorum", needs="DESCRIBE on the cluster")
    return int(found.high_watermark)


async def reassignments(
    brokers: Brokers, at: Address, partitions: Iterable[TopicPartition], deadline: timedelta
) -> Mapping[TopicPartition, Reassignment] | Reason:
    """Ongoing reassignments among `partitions`, asked of the controller through `at`; a Reason if it does not say."""
    make = ListPartitionReassignmentsRequest
    topics = [
        make.ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
        for name, indexes in by_topic(partitions).items()
    ]
    request = make(timeout_ms=int(deadline.total_seconds() * 1000), topics=topics)
    answer = await brokers.ask(at, request, versions=(0, 0), deadline=deadline)
    if answer.error_code:
        return reason_for(answer.error_code, "ListPartitionReassignments", needs="DESCRIBE on the cluster")
    return {
        TopicPartition(topic.name, partition.partition_index): Reassignment(
            tuple(map(BrokerId, partition.adding_replicas)), tuple(map(BrokerId, partition.removing_replicas))
        )
        for topic in answer.topics
        for partition in topic.partitions
    }


async def topic_configs(
    brokers: Brokers, at: Address, topics: Collection[str], deadline: timedelta
) -> Mapping[str, TopicConfigs]:
    """Configs of each of these topics, or why they could not be read."""
    make = DescribeConfigsRequest
    keys = [_MIN_ISR, _UNCLEAN, _TIERED]
    resources = [
        make.DescribeConfigsResource(resource_type=_TOPIC_RESOURCE, resource_name=name, configuration_keys=keys)
        for name in sorted(topics)
    ]
    answer = await brokers.ask(at, make(resources=resources), versions=(1, 4), deadline=deadline)
    found = {result.resource_name: _configs(result) for result in answer.results}
    left_out = Reason("AnswerIncomplete", "the answer to DescribeConfigs left the topic out")
    return {name: found.get(name) or TopicConfigs(problem=left_out) for name in topics}


def _configs(result: Any) -> TopicConfigs:
    if result.error_code:
        name = result.resource_name
        needs = f"DESCRIBE_CONFIGS on topic {name}"
        return TopicConfigs(problem=reason_for(result.error_code, f"DescribeConfigs of topic {name}", needs=needs))
    found = {config.name: config for config in result.configs}
    minimum = found.get(_MIN_ISR)
    min_isr = None
    if minimum is not None and minimum.value is not None and str(minimum.value).isdigit():
        min_isr = MinInsyncReplicas(int(minimum.value), _CONFIG_SOURCES.get(minimum.config_source, "unknown"))
    return TopicConfigs(min_isr, _flag(found.get(_UNCLEAN)), _flag(found.get(_TIERED)) if _TIERED in found else None)


def _flag(config: Any) -> bool | None:
    return None if config is None or config.value not in ("true", "false") else bool(config.value == "true")


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition indexes by topic, both sorted: the shape most requests want."""
    grouped: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        grouped.setdefault(topic, []).append(index)
    return grouped
