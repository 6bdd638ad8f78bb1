"""What a broker says of its own logs: offsets, leader epochs, records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kafka_recovery.domain.ids import LeaderEpoch, Offset, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    At,
    GetReplicaLogInfo,
    ListOffsets,
    NameTopics,
    OffsetFound,
    ReplicaLogInfo,
)
from kafka_recovery.simulator.wire.exchange import Exchange, Values
from kafka_recovery.simulator.wire.ids import topic_id_of, uuid_of
from kafka_recovery.simulator.wire.records import ZERO

_DEBUGGING = -2
"""The replica id of who debugs: any replica answers."""

_AT = {-1: At.LATEST, -2: At.EARLIEST, -3: At.MAX_TIMESTAMP, -4: At.EARLIEST_LOCAL}
_LATEST_TIERED = -5
_NOWHERE = OffsetFound(Error.NONE, Offset(-1), LeaderEpoch(-1))


def list_offsets(exchange: Exchange) -> None:
    """ListOffsets. A partition that is named twice is not answered, the others are."""
    asked = exchange.asked
    wanted: dict[int, dict[TopicPartition, LeaderEpoch]] = {}
    found: dict[TopicPartition, OffsetFound] = {}
    seen: set[TopicPartition] = set()
    for topic in asked.topics:
        for part in topic.partitions:
            id = TopicPartition(topic.name, part.partition_index)
            if id in seen:
                found[id] = _NOWHERE._replace(error=Error.INVALID_REQUEST)
            elif part.timestamp >= 0 or part.timestamp in _AT:
                wanted.setdefault(part.timestamp, {})[id] = LeaderEpoch(part.current_leader_epoch)
            elif part.timestamp == _LATEST_TIERED:
                found[id] = _NOWHERE
            else:
                found[id] = _NOWHERE._replace(error=Error.UNSUPPORTED_VERSION)
            seen.add(id)
    for time, partitions in wanted.items():
        at, since = _AT.get(time, At.SINCE), time / 1000 - ZERO
        answer = exchange.look(ListOffsets(partitions, at, asked.replica_id == _DEBUGGING, since))
        if answer is None:
            return
        found = {**answer.partitions, **found}
    topics = [
        Values(
            name=topic.name,
            partitions=[
                _offset(part, found[TopicPartition(topic.name, part.partition_index)]) for part in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    exchange.answer(throttle_time_ms=0, topics=topics)


def _offset(part: Any, found: OffsetFound) -> Values:
    error, offset, epoch = found
    return Values(
        partition_index=part.partition_index,
        error_code=error,
        timestamp=part.timestamp if offset >= 0 and part.timestamp >= 0 else -1,
        offset=offset,
        leader_epoch=epoch,
    )


def replica_log_info(exchange: Exchange) -> None:
    """GetReplicaLogInfo (KIP-1275)."""
    topics = exchange.asked.topic_partitions or ()
    ids = [topic_id_of(topic.topic_id) for topic in topics]
    named = exchange.look(NameTopics(tuple(dict.fromkeys(ids))))
    if named is None:
        return
    # A topic that is unknown by its id goes by that id: it has no log under this name either.
    names = {id: named.names.get(id, id) for id in ids}
    wanted = [
        (TopicPartition(names[id], index), id)
        for id, topic in zip(ids, topics, strict=True)
        for index in topic.partitions
    ]
    told = exchange.look(GetReplicaLogInfo(tuple(wanted), exchange.line.client))
    if isinstance(told, ReplicaLogInfo):
        _log_infos(exchange, {name: uuid_of(id) for id, name in names.items()}, told)


def _log_infos(exchange: Exchange, uuids: Mapping[str, UUID], told: ReplicaLogInfo) -> None:
    topics: dict[str, list[Values]] = {}
    for (topic, index), info in told.partitions.items():
        entry = Values(
            partition=index,
            partition_leader_epoch=info.leader_epoch,
            log_end_offset=info.log_end,
            error_code=info.error,
        )
        topics.setdefault(topic, []).append(entry)
    exchange.answer(
        throttle_time_ms=0,
        broker_epoch=told.broker_epoch,
        has_more_data=told.has_more_data,
        topic_partition_log_info_list=[
            Values(topic_id=uuids[topic], partition_log_info=entries) for topic, entries in topics.items()
        ],
    )
