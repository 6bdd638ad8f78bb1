"""What a broker says of the cluster from its own metadata: brokers, topics, partitions, configs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    ClusterDescribed,
    ConfigsDescribed,
    DescribeCluster,
    DescribeConfigs,
    DescribePartitions,
    ListTopics,
    PartitionDescribed,
    PartitionsDescribed,
    TopicConfig,
    TopicsListed,
)
from kafka_recovery.simulator.wire.exchange import Exchange, Values
from kafka_recovery.simulator.wire.ids import is_internal, uuid_of

_NOT_ASKED_FOR = -(2**31)
"""Authorized operations, where the client does not want to know them."""

_PAGE = 2000
"""max.request.partition.size.limit"""

_TOPIC, _BROKER = 2, 4
_BOOLEAN, _INT = 1, 3
_STATIC, _DEFAULT = 4, 5
_SOURCES = {
    "topic": 1,
    "broker (dynamic)": 2,
    "cluster default (dynamic)": 3,
    "broker (static)": 4,
    "Kafka's default": 5,
}


def cluster(exchange: Exchange) -> None:
    """DescribeCluster. The controller's id is that of some live broker: clients do not talk to KRaft's controllers."""
    asked, addresses = exchange.asked, exchange.line.addresses

    def told(answer: ClusterDescribed) -> None:
        fenced_too = exchange.version >= 2 and asked.include_fenced_brokers
        brokers = []
        for broker in answer.brokers:
            if fenced_too or not broker.fenced:
                host, port = addresses(broker.id)
                brokers.append(
                    Values(broker_id=broker.id, host=host, port=port, rack=broker.rack, is_fenced=broker.fenced)
                )
        exchange.answer(
            throttle_time_ms=0,
            error_code=0,
            error_message=None,
            endpoint_type=1,
            cluster_id=answer.cluster_id,
            controller_id=next((broker.id for broker in answer.brokers if not broker.fenced), -1),
            brokers=brokers,
            authorized_operations=None,
        )

    exchange.ask(DescribeCluster(), told)


def topic_partitions(exchange: Exchange) -> None:
    """DescribeTopicPartitions: topics by name, partitions by index, as many as a page holds."""
    asked = exchange.asked
    names = {topic.name for topic in asked.topics}
    start = ("", 0) if asked.cursor is None else (asked.cursor.topic_name, asked.cursor.partition_index)
    if start[1] < 0 or (names and asked.cursor is not None and start[0] not in names):
        _refuse_topics(exchange, names)
        return

    def listed(answer: TopicsListed) -> None:
        page = _Page(answer, sorted(names or answer.topics), start, asked.response_partition_limit)

        def told(described: PartitionsDescribed) -> None:
            following = page.following
            exchange.answer(
                throttle_time_ms=0,
                topics=list(_topics(page, described.partitions)),
                next_cursor=following and Values(topic_name=following[0], partition_index=following[1]),
            )

        exchange.ask(DescribePartitions(tuple(page.partitions)), told)

    exchange.ask(ListTopics(tuple(names) if names else None), listed)


class _Page:
    """Which topics and partitions one page shows; `following`: where the next one begins."""

    def __init__(self, listed: TopicsListed, names: list[str], start: tuple[str, int], limit: int) -> None:
        self.listed = listed
        self.names: list[str] = []
        self.partitions: list[TopicPartition] = []
        self.following: tuple[str, int] | None = None
        room = max(1, min(limit, _PAGE))
        for name in names:
            if name < start[0]:
                continue
            if not room:
                self.following = name, 0
                return
            self.names.append(name)
            topic = listed.topics.get(name)
            if topic is None:
                continue
            first = start[1] if name == start[0] else 0
            last = min(topic.partitions, first + room)
            self.partitions += [TopicPartition(name, index) for index in range(first, last)]
            if last < topic.partitions:
                self.following = name, last
                return
            room -= max(0, last - first)


def _topics(page: _Page, partitions: Mapping[TopicPartition, PartitionDescribed]) -> Iterator[Values]:
    shown: dict[str, list[Values]] = {}
    for (topic, index), partition in partitions.items():
        shown.setdefault(topic, []).append(_partition(index, partition))
    for name in page.names:
        listed = page.listed.topics.get(name)
        yield Values(
            error_code=Error.NONE if listed else Error.UNKNOWN_TOPIC_OR_PARTITION,
            name=name,
            topic_id=listed and uuid_of(listed.id),
            is_internal=is_internal(name),
            partitions=shown.get(name, []),
            topic_authorized_operations=_NOT_ASKED_FOR,
        )


def _partition(index: int, described: PartitionDescribed) -> Values:
    return Values(
        error_code=0,
        partition_index=index,
        leader_id=-1 if described.leader is None else described.leader,
        leader_epoch=described.leader_epoch,
        replica_nodes=described.replicas,
        isr_nodes=described.isr,
        eligible_leader_replicas=described.elr,
        last_known_elr=described.last_known_elr,
        offline_replicas=described.offline,
    )


def _refuse_topics(exchange: Exchange, names: set[str]) -> None:
    refused = [
        Values(
            error_code=Error.INVALID_REQUEST,
            name=name,
            topic_id=None,
            is_internal=is_internal(name),
            partitions=[],
            topic_authorized_operations=_NOT_ASKED_FOR,
        )
        for name in sorted(names)
    ]
    exchange.answer(throttle_time_ms=0, topics=refused, next_cursor=None)


def configs(exchange: Exchange) -> None:
    """DescribeConfigs of topics and of the broker itself: those configs that the model has."""
    resources = exchange.asked.resources
    names = dict.fromkeys(each.resource_name for each in resources if each.resource_type == _TOPIC)

    def told(answer: ConfigsDescribed) -> None:
        exchange.answer(throttle_time_ms=0, results=[_configs_of(exchange, answer, each) for each in resources])

    exchange.ask(DescribeConfigs(tuple(names)), told)


def _configs_of(exchange: Exchange, answer: ConfigsDescribed, resource: Any) -> Values:
    error, message, known = Error.NONE, None, None
    if resource.resource_type == _BROKER and resource.resource_name == str(exchange.line.broker):
        known = _of_broker(exchange)
    elif resource.resource_type != _TOPIC:
        mine, asked = exchange.line.broker, resource.resource_name
        error = Error.INVALID_REQUEST
        message = f"Unexpected broker id, expected {mine} or empty string, but received {asked}"
    elif (topic := answer.topics.get(resource.resource_name)) is not None:
        known = _of_topic(topic)
    else:
        error = Error.UNKNOWN_TOPIC_OR_PARTITION
    wanted = resource.configuration_keys
    return Values(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_entry(config) for config in known or () if wanted is None or config.name in wanted],
    )


class _Config(NamedTuple):
    name: str
    value: str
    source: int
    kind: int
    read_only: bool = False


def _of_topic(topic: TopicConfig) -> tuple[_Config, ...]:
    minimum, unclean = topic.min_isr, topic.unclean_election_enabled
    return (
        _Config("min.insync.replicas", str(minimum.value), _SOURCES.get(minimum.source, 0), _INT),
        _Config("unclean.leader.election.enable", str(unclean).lower(), 1 if unclean else _DEFAULT, _BOOLEAN),
        _Config("remote.storage.enable", str(topic.tiered).lower(), 1 if topic.tiered else _DEFAULT, _BOOLEAN),
    )


def _of_broker(exchange: Exchange) -> tuple[_Config, ...]:
    kafka = exchange.line.kafka
    milliseconds = {
        "broker.session.timeout.ms": kafka.settings.session,
        "replica.fetch.wait.max.ms": kafka.settings.fetch_max_wait,
        "replica.lag.time.max.ms": kafka.settings.lag_max,
    }
    times = (_Config(name, str(round(1000 * time)), _STATIC, _INT, True) for name, time in milliseconds.items())
    return (_Config("node.id", str(exchange.line.broker), _STATIC, _INT, True), *times)


def _entry(config: _Config) -> Values:
    return Values(
        name=config.name,
        value=config.value,
        read_only=config.read_only,
        config_source=config.source,
        is_sensitive=False,
        synonyms=[],
        config_type=config.kind,
        documentation=None,
    )
