"""What a controller answers on a listener of its own: the metadata log, the quorum, the other controllers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafka_recovery.cluster.metadata_log.messages import ID
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.grants import Operation
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.requests import ApiVersions, Request, Versions
from kafka_recovery.simulator.wire.changes import quorum_of
from kafka_recovery.simulator.wire.exchange import Exchange, Failed, Values
from kafka_recovery.simulator.wire.metadata_log import Written

_CONTROLLERS = 2
"""The endpoint type that a controller describes."""

_AGAIN = 0.02
"""Seconds after which a controller that has nothing new looks again, while the client waits."""


def answer(kafka: SimulatedKafka, request: Request[Any], reply: Callable[[Any], None], _: Failed | None = None) -> None:
    """What a controller says of itself without anybody's help."""
    if isinstance(request, ApiVersions):
        settings = kafka.settings
        features = (("eligible.leader.replicas.version", int(settings.elr)),)
        last = kafka.controllers.log.end - 1
        reply(Versions(settings.release, features, last, kafka.switches.designated_elections))


def fetch(exchange: Exchange) -> None:
    """Fetch of the metadata log, and of nothing else; waits for news as long as the client does."""
    asked, line = exchange.asked, exchange.line
    if asked.cluster_id is not None and asked.cluster_id != line.kafka.cluster_id:
        _refuse(exchange, Error.INCONSISTENT_CLUSTER_ID)
    elif not line.kafka.grants.permits(line.principal, Operation.CLUSTER_ACTION):
        _refuse(exchange, Error.CLUSTER_AUTHORIZATION_FAILED)
    elif [(topic.topic_id, [part.partition for part in topic.partitions]) for topic in asked.topics] != [(ID, [0])]:
        _refuse(exchange, Error.INVALID_REQUEST)
    else:
        _read(exchange, asked.topics[0].partitions[0], asked.max_wait_ms / 1000)


def _read(exchange: Exchange, part: Any, patience: float) -> None:
    written = _log(exchange)
    error = _refusal(exchange, part)
    if error is not Error.NONE:
        _told(exchange, error)
        return
    epoch, end = written.end_of(part.last_fetched_epoch)
    if part.fetch_offset and (epoch != part.last_fetched_epoch or end < part.fetch_offset):
        _told(exchange, Error.NONE, diverging_epoch=Values(epoch=epoch, end_offset=end))
        return
    room = min(exchange.asked.max_bytes, part.partition_max_bytes)
    records = written.read(part.fetch_offset, room)
    if not records and patience > 0 and exchange.asked.min_bytes > 0:
        node = exchange.line.kafka.network.nodes[_name(exchange)]
        again = exchange.contained(partial(_read, exchange, part, patience - _AGAIN))
        node.after(min(_AGAIN, patience), again)
        return
    _told(exchange, Error.NONE, records=records)


def _refusal(exchange: Exchange, part: Any) -> Error:
    """Kafka's checks, in Kafka's order."""
    controllers = exchange.line.kafka.controllers
    now, named = controllers.log.epoch, part.current_leader_epoch
    if min(part.fetch_offset, part.last_fetched_epoch, named, exchange.asked.max_wait_ms) < 0:
        return Error.INVALID_REQUEST
    if named != now:
        return Error.FENCED_LEADER_EPOCH if named < now else Error.UNKNOWN_LEADER_EPOCH
    if controllers.active != _name(exchange):
        return Error.NOT_LEADER_OR_FOLLOWER
    return Error.INVALID_REQUEST if part.last_fetched_epoch > named else Error.NONE


def _told(exchange: Exchange, error: Error, **more: Any) -> None:
    """An answer about the one partition; without an error it says how far the log reaches."""
    controllers, good = exchange.line.kafka.controllers, error is Error.NONE
    end = controllers.log.end if good else -1
    leader = -1 if controllers.active is None else controllers.id_of(controllers.active)
    fields = {
        "partition_index": 0,
        "error_code": error,
        "high_watermark": end,
        "last_stable_offset": end,
        "log_start_offset": 0 if good else -1,
        "current_leader": Values(leader_id=leader, leader_epoch=controllers.log.epoch),
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": b"",
    }
    topic = Values(topic="", topic_id=ID, partitions=[Values(**(fields | more))])
    endpoints = [] if good or leader < 0 or exchange.version < _ENDPOINTS_SINCE else [_endpoint(exchange, leader)]
    exchange.answer(throttle_time_ms=0, error_code=0, session_id=0, responses=[topic], node_endpoints=endpoints)


_ENDPOINTS_SINCE = 17


def _endpoint(exchange: Exchange, id: Any) -> Values:
    host, port = exchange.line.addresses(id)
    return Values(node_id=id, host=host, port=port, rack=None)


def _refuse(exchange: Exchange, error: Error) -> None:
    exchange.answer(throttle_time_ms=0, error_code=error, session_id=0, responses=[], node_endpoints=[])


def fetch_snapshot(exchange: Exchange) -> None:
    """FetchSnapshot: there is never one, because the log is never shortened."""
    asked, line = exchange.asked, exchange.line
    error = Error.UNKNOWN_SERVER_ERROR
    if asked.cluster_id is not None and asked.cluster_id != line.kafka.cluster_id:
        error = Error.INCONSISTENT_CLUSTER_ID
    elif not line.kafka.grants.permits(line.principal, Operation.CLUSTER_ACTION):
        error = Error.CLUSTER_AUTHORIZATION_FAILED
    exchange.answer(throttle_time_ms=0, error_code=error, topics=[])


def quorum(exchange: Exchange) -> None:
    """DescribeQuorum, which only the active controller can answer."""
    controllers, asked = exchange.line.kafka.controllers, exchange.asked
    leads = controllers.active == _name(exchange)
    topics = [
        Values(
            topic_name=topic.topic_name,
            partitions=[
                quorum_of(exchange, topic.topic_name, part.partition_index, controllers.log.end, leads=leads)
                for part in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    nodes = [
        Values(node_id=id, listeners=[_listener(exchange, id)]) for id in map(controllers.id_of, controllers.names)
    ]
    exchange.answer(error_code=0, error_message=None, topics=topics, nodes=nodes)


def _listener(exchange: Exchange, id: Any) -> Values:
    host, port = exchange.line.addresses(id)
    return Values(name="CONTROLLER", host=host, port=port)


def cluster(exchange: Exchange) -> None:
    """DescribeCluster: the controllers, if it is they that are asked for."""
    controllers, asked = exchange.line.kafka.controllers, exchange.asked
    wanted = exchange.version >= 1 and asked.endpoint_type == _CONTROLLERS
    described = []
    for id in map(controllers.id_of, controllers.names) if wanted else ():
        host, port = exchange.line.addresses(id)
        described.append(Values(broker_id=id, host=host, port=port, rack=None, is_fenced=False))
    exchange.answer(
        throttle_time_ms=0,
        error_code=Error.NONE if wanted else Error.MISMATCHED_ENDPOINT_TYPE,
        error_message=None,
        endpoint_type=_CONTROLLERS,
        cluster_id=exchange.line.kafka.cluster_id,
        controller_id=-1 if controllers.active is None else controllers.id_of(controllers.active),
        brokers=described,
        authorized_operations=None,
    )


def _log(exchange: Exchange) -> Written:
    line = exchange.line
    return Written(line.kafka, line.addresses, sasl=line.authentication.needed)


def _name(exchange: Exchange) -> str:
    """The controller that is asked."""
    name = exchange.line.kafka.controllers.name_of(exchange.line.broker)
    assert name is not None
    return name
