"""What a client may not do or see, answered as Kafka's brokers answer it.

What needs a right on the cluster is refused before anybody carries it out. Topics that a client may not describe are
left out where it asked for all, and refused where it named them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kafka.protocol import admin, consumer, metadata

from kafka_recovery.cluster import kip_1275
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.grants import Operation
from kafka_recovery.simulator.wire import changes
from kafka_recovery.simulator.wire.exchange import Exchange, Values
from kafka_recovery.simulator.wire.ids import topic_id_of

_TOPIC = 2
"""The type of a resource that has configs."""

_ON_THE_CLUSTER: Mapping[Any, tuple[Operation, Callable[[Exchange, int], None]]] = MappingProxyType(
    {
        admin.DescribeQuorumRequest: (Operation.DESCRIBE_CLUSTER, changes.refuse_quorum),
        admin.ListPartitionReassignmentsRequest: (Operation.DESCRIBE_CLUSTER, changes.refuse_list),
        admin.AlterPartitionReassignmentsRequest: (Operation.ALTER, changes.refuse_reassignments),
        kip_1275.ElectLeadersRequest: (Operation.ALTER, changes.refuse_elections),
    }
)


def refuses(exchange: Exchange) -> bool:
    """Whether the client lacks the right that this request needs; then it has its answer."""
    operation, refuse = _ON_THE_CLUSTER.get(type(exchange.asked), (None, None))
    if operation is None or refuse is None or _may(exchange, operation):
        return False
    refuse(exchange, Error.CLUSTER_AUTHORIZATION_FAILED)
    return True


def refuses_for(exchange: Exchange, code: int | None) -> bool:
    """Whether a change is refused with this error of a newer Kafka; one that says nothing may follow what was done."""
    operation, refuse = _ON_THE_CLUSTER.get(type(exchange.asked), (None, None))
    if code is None or code < 0 or refuse is None or operation is not Operation.ALTER:
        return False
    refuse(exchange, code)
    return True


def with_what_may_be_seen(exchange: Exchange, values: Any) -> None:
    """Take out of an answer what the client may not see."""
    hide = _OF_TOPICS.get(type(exchange.asked))
    if hide is not None and exchange.line.kafka.grants.denies_topics(exchange.line.principal):
        hide(exchange, values)


def _may(exchange: Exchange, operation: Operation, topic: str | None = None) -> bool:
    return exchange.line.kafka.grants.permits(exchange.line.principal, operation, topic)


def _describes(exchange: Exchange, topic: str) -> bool:
    return _may(exchange, Operation.DESCRIBE, topic)


def _hide_described(exchange: Exchange, values: Any) -> None:
    named = {topic.name for topic in exchange.asked.topics or ()}
    values.topics = list(_hidden(exchange, values.topics, named))


def _hidden(exchange: Exchange, topics: Iterable[Any], named: set[str]) -> Iterable[Any]:
    for topic in topics:
        if _describes(exchange, topic.name):
            yield topic
        elif topic.name in named:
            topic.error_code, topic.topic_id, topic.partitions = Error.TOPIC_AUTHORIZATION_FAILED, None, []
            yield topic


def _hide_offsets(exchange: Exchange, values: Any) -> None:
    for topic in values.topics:
        if not _describes(exchange, topic.name):
            for part in topic.partitions:
                part.error_code, part.offset, part.leader_epoch = Error.TOPIC_AUTHORIZATION_FAILED, -1, -1


def _hide_records(exchange: Exchange, values: Any) -> None:
    names = exchange.line.kafka.controllers.log.names_by_id
    for topic in values.responses:
        name = topic.topic or names.get(topic_id_of(topic.topic_id), "")
        if not (_describes(exchange, name) and _may(exchange, Operation.READ, name)):
            topic.partitions = [_unread(part.partition_index) for part in topic.partitions]


def _unread(index: int) -> Values:
    return Values(
        partition_index=index,
        error_code=Error.TOPIC_AUTHORIZATION_FAILED,
        high_watermark=-1,
        last_stable_offset=-1,
        log_start_offset=-1,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=b"",
    )


def _hide_configs(exchange: Exchange, values: Any) -> None:
    for result in values.results:
        if result.resource_type == _TOPIC and not _describes(exchange, result.resource_name):
            result.error_code, result.configs = Error.TOPIC_AUTHORIZATION_FAILED, []


_OF_TOPICS: Mapping[Any, Callable[[Exchange, Any], None]] = MappingProxyType(
    {
        metadata.MetadataRequest: _hide_described,
        admin.DescribeTopicPartitionsRequest: _hide_described,
        admin.DescribeConfigsRequest: _hide_configs,
        consumer.ListOffsetsRequest: _hide_offsets,
        consumer.FetchRequest: _hide_records,
    }
)
