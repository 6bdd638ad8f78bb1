"""What a broker forwards to the controller: elections, reassignments, the quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafka_recovery.domain.evidence import Reassignment
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    AlterReassignments,
    Decided,
    DescribeQuorum,
    ElectionType,
    ElectLeaders,
    ListReassignments,
    QuorumDescribed,
    ReassignmentsListed,
    Unsupported,
)
from kafka_recovery.simulator.wire.exchange import Exchange, Values
from kafka_recovery.simulator.wire.ids import by_topic

_Decided = Mapping[TopicPartition, int]
_METADATA = "__cluster_metadata"


def quorum(exchange: Exchange) -> None:
    """DescribeQuorum of the one partition that there is."""
    asked = [(topic.topic_name, part.partition_index) for topic in exchange.asked.topics for part in topic.partitions]

    def told(answer: QuorumDescribed) -> None:
        if answer.error:
            exchange.answer(error_code=answer.error, error_message=None, topics=[], nodes=[])
            return
        topics = by_topic((TopicPartition(*each), answer.high_watermark) for each in asked)
        exchange.answer(
            error_code=0,
            error_message=None,
            topics=[
                Values(topic_name=name, partitions=[quorum_of(exchange, name, index, end) for index, end in parts])
                for name, parts in topics.items()
            ],
            nodes=[],
        )

    exchange.ask(DescribeQuorum(), told)


def quorum_of(exchange: Exchange, topic: str, index: int, end: int, *, leads: bool = True) -> Values:
    """The quorum, if that is the one partition that has one. A controller that does not lead it has nothing to say."""
    controllers = exchange.line.kafka.controllers
    known = (topic, index) == (_METADATA, 0) and leads
    error = Error.NONE if known else Error.UNKNOWN_TOPIC_OR_PARTITION if leads else Error.NOT_LEADER_OR_FOLLOWER
    voters = [
        Values(
            replica_id=controllers.id_of(name),
            replica_directory_id=None,
            log_end_offset=end,
            last_fetch_timestamp=-1,
            last_caught_up_timestamp=-1,
        )
        for name in controllers.names
    ]
    return Values(
        partition_index=index,
        error_code=error,
        error_message=None,
        leader_id=controllers.id_of(controllers.active) if known and controllers.active else -1,
        leader_epoch=controllers.log.epoch if known else -1,
        high_watermark=end if known else -1,
        current_voters=voters if known else [],
        observers=[],
    )


def list_reassignments(exchange: Exchange) -> None:
    """ListPartitionReassignments of these partitions, or of all."""
    topics = exchange.asked.topics
    wanted = None
    if topics is not None:
        wanted = tuple(TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes)

    def told(answer: ReassignmentsListed) -> None:
        ongoing = [
            Values(
                name=name,
                partitions=[_reassignment(exchange, TopicPartition(name, index), found) for index, found in parts],
            )
            for name, parts in by_topic(answer.partitions.items()).items()
        ]
        exchange.answer(throttle_time_ms=0, error_code=answer.error, error_message=None, topics=ongoing)

    exchange.ask(ListReassignments(wanted), told)


def _reassignment(exchange: Exchange, id: TopicPartition, found: Reassignment) -> Values:
    state = exchange.line.kafka.controllers.state.partitions.get(id)
    return Values(
        partition_index=id.partition,
        replicas=state.replicas if state else [],
        adding_replicas=found.adding,
        removing_replicas=found.removing,
    )


def refuse_quorum(exchange: Exchange, error: int) -> None:
    """DescribeQuorum is answered with an error."""
    exchange.answer(error_code=error, error_message=None, topics=[], nodes=[])


def refuse_list(exchange: Exchange, error: int) -> None:
    """ListPartitionReassignments is answered with an error."""
    exchange.answer(throttle_time_ms=0, error_code=error, error_message=None, topics=[])


def refuse_reassignments(exchange: Exchange, error: int) -> None:
    """AlterPartitionReassignments is answered with an error, for the whole and for each partition."""
    _reassigned(exchange, error, {}, _targets(exchange.asked))


def alter_reassignments(exchange: Exchange) -> None:
    """AlterPartitionReassignments; v0 knows no `allow_replication_factor_change` and means yes."""
    asked = exchange.asked
    targets = _targets(asked)
    request = AlterReassignments(targets, exchange.line.principal, asked.allow_replication_factor_change)
    exchange.ask(request, lambda answer: _reassigned(exchange, answer.error, answer.partitions, targets))


def _targets(asked: Any) -> dict[TopicPartition, tuple[BrokerId, ...] | None]:
    return {
        TopicPartition(topic.name, part.partition_index): None
        if part.replicas is None
        else tuple(map(BrokerId, part.replicas))
        for topic in asked.topics
        for part in topic.partitions
    }


def _reassigned(exchange: Exchange, error: int, decided: _Decided, targets: Iterable[TopicPartition]) -> None:
    responses = [
        Values(
            name=name,
            partitions=[Values(partition_index=index, error_code=code, error_message=None) for index, code in parts],
        )
        for name, parts in by_topic(_said_of_each(error, decided, targets)).items()
    ]
    exchange.answer(
        throttle_time_ms=0,
        allow_replication_factor_change=exchange.asked.allow_replication_factor_change,
        error_code=error,
        error_message=None,
        responses=responses,
    )


def refuse_elections(exchange: Exchange, error: int) -> None:
    """ElectLeaders is answered with an error, for the whole and for each partition that was named."""
    _elected(exchange, error, {}, _named(exchange.asked))


def elect_leaders(exchange: Exchange) -> None:
    """ElectLeaders; v0 knows the preferred election only, and partitions that are null are all of them."""
    asked = exchange.asked
    try:
        type = ElectionType(asked.election_type if exchange.version >= 1 else 0)
    except ValueError:
        exchange.answer(throttle_time_ms=0, error_code=Error.INVALID_REQUEST, replica_election_results=[])
        return
    topics, partitions, designated = asked.topic_partitions, _named(asked), None
    if type is ElectionType.DESIGNATED and topics is not None:
        leaders = [topic.designated_leaders or () for topic in topics]
        if any(len(named) != len(topic.partitions) for named, topic in zip(leaders, topics, strict=True)):
            exchange.answer(throttle_time_ms=0, error_code=Error.INVALID_REQUEST, replica_election_results=[])
            return
        designated = tuple(BrokerId(leader) for named in leaders for leader in named)

    def told(answer: Decided | Unsupported) -> None:
        if isinstance(answer, Unsupported):
            _elected(exchange, Error.UNSUPPORTED_VERSION, {}, partitions)
        else:
            _elected(exchange, answer.error, answer.partitions, partitions)

    timeout = max(asked.timeout_ms, 0) / 1000
    exchange.ask(ElectLeaders(type, partitions, exchange.line.principal, designated, timeout), told)


def _named(asked: Any) -> tuple[TopicPartition, ...] | None:
    """None: all of them."""
    topics = asked.topic_partitions
    if topics is None:
        return None
    return tuple(TopicPartition(topic.topic, index) for topic in topics for index in topic.partitions)


def _elected(exchange: Exchange, error: int, decided: _Decided, partitions: tuple[TopicPartition, ...] | None) -> None:
    results = [
        Values(
            topic=name,
            partition_result=[Values(partition_id=index, error_code=code, error_message=None) for index, code in parts],
        )
        for name, parts in by_topic(_said_of_each(error, decided, partitions or ())).items()
    ]
    exchange.answer(throttle_time_ms=0, error_code=error, replica_election_results=results)


def _said_of_each(
    error: int, decided: _Decided, asked: Iterable[TopicPartition]
) -> Iterable[tuple[TopicPartition, int]]:
    """What was decided; what is wrong with all of the request is said of each partition too."""
    return ((id, error) for id in asked) if error else decided.items()
