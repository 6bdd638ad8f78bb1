"""Topics for ordinary clients: Metadata, making and deleting them, and the directories they lie in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.simulator.model.client_requests import (
    CreateTopics,
    DeleteTopics,
    DescribeLogDirectory,
    LogDirectory,
    NewTopic,
    TopicMade,
    TopicsDeleted,
    TopicsMade,
)
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    DescribeCluster,
    DescribePartitions,
    ListTopics,
    NameTopics,
    PartitionDescribed,
    TopicListed,
)
from kafka_recovery.simulator.wire.exchange import Exchange, Values
from kafka_recovery.simulator.wire.ids import by_topic, is_internal, topic_id_of, uuid_of

_NOT_ASKED_FOR = None
_DIRECTORY = "/simulated/kafka-logs"
_CAPACITY = 2**40


def metadata(exchange: Exchange) -> None:
    """Metadata: live brokers, and topics by name or id."""
    asked = exchange.asked
    every = asked.topics is None or (exchange.version == 0 and not asked.topics)
    wanted = [] if every else list(asked.topics)
    named = exchange.look(NameTopics(tuple(topic_id_of(topic.topic_id) for topic in wanted if topic.topic_id)))
    cluster = exchange.look(DescribeCluster())
    if named is None or cluster is None:
        return
    names = [topic.name if topic.name is not None else named.names.get(topic_id_of(topic.topic_id)) for topic in wanted]
    listed = exchange.look(ListTopics(None if every else tuple(name for name in names if name is not None)))
    if listed is None:
        return
    ids = tuple(
        TopicPartition(name, index) for name, topic in listed.topics.items() for index in range(topic.partitions)
    )
    described = exchange.look(DescribePartitions(ids))
    if described is None:
        return
    partitions = by_topic(described.partitions.items())
    if every:
        topics = [_topic(name, topic, partitions.get(name, [])) for name, topic in listed.topics.items()]
    else:
        topics = [
            _topic(name, listed.topics[name], partitions.get(name, []))
            if name is not None and name in listed.topics
            else _unknown(topic)
            for name, topic in zip(names, wanted, strict=True)
        ]
    alive = [broker for broker in cluster.brokers if not broker.fenced]
    exchange.answer(
        throttle_time_ms=0,
        brokers=[
            Values(node_id=broker.id, host=host, port=port, rack=broker.rack)
            for broker in alive
            for host, port in (exchange.line.addresses(broker.id),)
        ],
        cluster_id=cluster.cluster_id,
        controller_id=alive[0].id if alive else -1,
        topics=topics,
        authorized_operations=_NOT_ASKED_FOR,
        error_code=0,
    )


def _topic(name: str, listed: TopicListed, partitions: list[tuple[int, PartitionDescribed]]) -> Values:
    return Values(
        error_code=0,
        name=name,
        topic_id=uuid_of(listed.id),
        is_internal=is_internal(name),
        partitions=[_partition(index, described) for index, described in partitions],
        authorized_operations=_NOT_ASKED_FOR,
    )


def _partition(index: int, described: PartitionDescribed) -> Values:
    led = described.leader is not None
    return Values(
        error_code=Error.NONE if led else Error.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=described.leader if led else -1,
        leader_epoch=described.leader_epoch,
        replica_nodes=described.replicas,
        isr_nodes=described.isr,
        offline_replicas=described.offline,
    )


def _unknown(topic: Any) -> Values:
    by_name = topic.name is not None
    return Values(
        error_code=Error.UNKNOWN_TOPIC_OR_PARTITION if by_name else Error.UNKNOWN_TOPIC_ID,
        name=topic.name if by_name else "",
        topic_id=topic.topic_id,
        is_internal=False,
        partitions=[],
        authorized_operations=_NOT_ASKED_FOR,
    )


def create(exchange: Exchange) -> None:
    """CreateTopics. One that is named twice is refused."""
    asked = exchange.asked
    names = Counter(topic.name for topic in asked.topics)
    wanted = [_new(topic) for topic in asked.topics if names[topic.name] == 1]
    new = tuple(topic for topic in wanted if topic is not None)
    exchange.ask(CreateTopics(new, asked.validate_only), partial(_created, exchange, names))


def _new(topic: Any) -> NewTopic | None:
    """None for assignments that leave out a partition or name one twice."""
    assignments = sorted((each.partition_index, tuple(map(BrokerId, each.broker_ids))) for each in topic.assignments)
    if [index for index, _ in assignments] != list(range(len(assignments))):
        return None
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple(replicas for _, replicas in assignments) or None,
        {config.name: config.value for config in topic.configs},
    )


def _created(exchange: Exchange, names: Iterable[str], answer: TopicsMade) -> None:
    refused = TopicMade(answer.error or Error.INVALID_REQUEST)
    exchange.answer(throttle_time_ms=0, topics=[_made(name, answer.topics.get(name, refused)) for name in names])


def _made(name: str, made: TopicMade) -> Values:
    return Values(
        name=name,
        topic_id=None if made.id is None else uuid_of(made.id),
        error_code=made.error,
        error_message=None,
        num_partitions=made.partitions,
        replication_factor=made.replicas,
        configs=[],
    )


def delete(exchange: Exchange) -> None:
    """DeleteTopics, by name or by id."""
    asked = exchange.asked
    wanted: list[tuple[str | None, TopicId | None]] = [(name, None) for name in asked.topic_names or ()]
    if exchange.version >= 6:
        wanted = [(topic.name, topic.topic_id and topic_id_of(topic.topic_id)) for topic in asked.topics]
    named = exchange.look(NameTopics(tuple(id for _, id in wanted if id is not None)))
    if named is None:
        return
    names = [name if name is not None or id is None else named.names.get(id) for name, id in wanted]

    def told(answer: TopicsDeleted) -> None:
        responses = [
            Values(
                name=name,
                topic_id=id and uuid_of(id),
                error_code=Error.UNKNOWN_TOPIC_ID if name is None else answer.topics.get(name, answer.error),
                error_message=None,
            )
            for name, (_, id) in zip(names, wanted, strict=True)
        ]
        exchange.answer(throttle_time_ms=0, responses=responses)

    exchange.ask(DeleteTopics(tuple(name for name in names if name is not None)), told)


def log_dirs(exchange: Exchange) -> None:
    """DescribeLogDirs: one directory, and another one that has failed if replicas lie in it."""
    topics = exchange.asked.topics
    wanted = None
    if topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions}

    def told(answer: LogDirectory) -> None:
        exchange.answer(throttle_time_ms=0, error_code=0, results=list(_directories(answer, wanted)))

    exchange.ask(DescribeLogDirectory(), told)


def _directories(answer: LogDirectory, wanted: set[TopicPartition] | None) -> Iterator[Values]:
    sizes = {id: size for id, size in sorted(answer.sizes.items()) if wanted is None or id in wanted}
    found = [
        Values(
            name=name,
            partitions=[
                Values(partition_index=index, partition_size=size, offset_lag=0, is_future_key=False)
                for index, size in parts
            ],
        )
        for name, parts in by_topic(sizes.items()).items()
    ]
    usable = 0 if answer.full else _CAPACITY - sum(answer.sizes.values())
    healthy = {"log_dir": _DIRECTORY, "total_bytes": _CAPACITY, "usable_bytes": usable}
    yield Values(error_code=0, **healthy, topics=found, is_cordoned=False)
    if answer.failed:
        failed = {"log_dir": _DIRECTORY + "-failed", "total_bytes": -1, "usable_bytes": -1}
        yield Values(error_code=Error.KAFKA_STORAGE_ERROR, **failed, topics=[], is_cordoned=False)
