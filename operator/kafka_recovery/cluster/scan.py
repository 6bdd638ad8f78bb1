"""Going through every topic of a cluster, page by page, and keeping only what matters to a watcher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice

from kafka.protocol.admin import DescribeTopicPartitionsRequest

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.errors import InvalidAnswer
from kafka_recovery.cluster.metadata import PartitionState
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition

_TOPICS_AT_ONCE = 500
"""Topics whose configs are asked for in one request."""


@dataclass(frozen=True, slots=True)
class OfflinePartition:
    """A partition without a leader, by the metadata of the broker that was gone through. `assignment` in its order."""

    id: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch
    assignment: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Scan:
    """What one pass over all topics found. `topics` in order; `partitions`: how many were looked at."""

    offline: tuple[OfflinePartition, ...]
    topics: tuple[str, ...]
    partitions: int


@dataclass(frozen=True, slots=True)
class UncleanTopics:
    """Topics in which Kafka elects uncleanly by itself. `unread`: how many did not show their configs."""

    topics: tuple[str, ...]
    unread: int


async def scan(brokers: Brokers, at: Address, deadline: timedelta) -> Scan:
    """Every partition that the principal may describe; `deadline` is for each page.

    Of one that has a leader nothing is kept. Pages are read one after the other, so they may differ by what changed
    in between.
    """
    offline: list[OfflinePartition] = []
    topics: dict[str, None] = {}
    partitions, cursor = 0, None
    while True:
        request = DescribeTopicPartitionsRequest(topics=[], response_partition_limit=metadata.PAGE, cursor=cursor)
        answer = await brokers.ask(at, request, versions=(0, 0), deadline=deadline)
        for topic in answer.topics:
            if topic.error_code:
                continue  # deleted while it was gone through
            metadata.check_turn(at, topic, cursor)
            topics[topic.name] = None
            partitions += len(topic.partitions)
            leaderless = [found for found in topic.partitions if found.leader_id < 0]
            offline += map(_offline, metadata.partition_states(at, topic, leaderless))
        if partitions > metadata.MOST_PARTITIONS:
            raise InvalidAnswer(at, f"DescribeTopicPartitions shows more than {metadata.MOST_PARTITIONS} partitions")
        cursor = metadata.following_page(at, answer, cursor)
        if cursor is None:
            return Scan(tuple(sorted(offline, key=lambda found: found.id)), tuple(topics), partitions)


async def unclean_topics(brokers: Brokers, at: Address, topics: Sequence[str], deadline: timedelta) -> UncleanTopics:
    """Those of `topics` whose effective unclean.leader.election.enable is true, wherever it is set.

    `deadline` is for each request.
    """
    found: list[str] = []
    unread, rest = 0, iter(topics)
    while some := tuple(islice(rest, _TOPICS_AT_ONCE)):
        configs = await metadata.topic_configs(brokers, at, some, deadline)
        known = {name: config.unclean_election_enabled for name, config in configs.items()}
        found += [name for name in some if known.get(name)]
        unread += sum(known.get(name) is None for name in some)
    return UncleanTopics(tuple(found), unread)


def _offline(state: PartitionState) -> OfflinePartition:
    return OfflinePartition(state.id, state.topic_id, state.leader_epoch, state.replicas, state.isr, state.elr)
