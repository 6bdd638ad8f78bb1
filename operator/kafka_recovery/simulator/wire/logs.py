"""What a broker says of its own logs: offsets, leader epochs, records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from kafka_recovery.domain.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    At,
    GetReplicaLogInfo,
    ListOffsets,
    LogRead,
    LogsRead,
    NameTopics,
    OffsetFound,
    ReadFrom,
    ReadLogs,
    ReplicaLogInfo,
)
from kafka_recovery.simulator.wire.exchange import Exchange, Values
from kafka_recovery.simulator.wire.ids import topic_id_of, uuid_of

_DEBUGGING, _FUTURE = -2, -3
"""Replica ids: who debugs is answered by any replica; the replica of another log directory reads to the log's end."""

_AT = {-1: At.LATEST, -2: At.EARLIEST, -3: At.MAX_TIMESTAMP, -4: At.EARLIEST}
_LATEST_TIERED = -5
_NOWHERE = OffsetFound(Error.NONE, Offset(-1), LeaderEpoch(-1))
_NO_SESSION = Error.FETCH_SESSION_ID_NOT_FOUND


def list_offsets(exchange: Exchange) -> None:
    """ListOffsets. A partition that is named twice is not answered, the others are."""
    asked = exchange.asked
    wanted: dict[At, dict[TopicPartition, LeaderEpoch]] = {}
    found: dict[TopicPartition, OffsetFound] = {}
    seen: set[TopicPartition] = set()
    for topic in asked.topics:
        for part in topic.partitions:
            id = TopicPartition(topic.name, part.partition_index)
            at = _AT.get(part.timestamp)
            if id in seen:
                found[id] = _NOWHERE._replace(error=Error.INVALID_REQUEST)
            elif at is not None:
                wanted.setdefault(at, {})[id] = LeaderEpoch(part.current_leader_epoch)
            elif part.timestamp == _LATEST_TIERED:
                found[id] = _NOWHERE
            else:
                found[id] = _NOWHERE._replace(error=Error.UNSUPPORTED_VERSION)
            seen.add(id)
    for at, partitions in wanted.items():
        answer = exchange.look(ListOffsets(partitions, at, asked.replica_id == _DEBUGGING))
        if answer is None:
            return
        found = {**answer.partitions, **found}
    topics = [
        Values(
            name=topic.name,
            partitions=[
                _offset(part.partition_index, found[TopicPartition(topic.name, part.partition_index)])
                for part in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    exchange.answer(throttle_time_ms=0, topics=topics)


def _offset(index: int, found: OffsetFound) -> Values:
    error, offset, epoch = found
    return Values(partition_index=index, error_code=error, timestamp=-1, offset=offset, leader_epoch=epoch)


def fetch(exchange: Exchange) -> None:
    """Fetch by topic id, without a session: a broker may always decline to keep one."""
    asked = exchange.asked
    if asked.session_id:
        exchange.answer(throttle_time_ms=0, error_code=_NO_SESSION, session_id=0, responses=[], node_endpoints=[])
        return
    ids = [topic_id_of(topic.topic_id) for topic in asked.topics]
    named = exchange.look(NameTopics(tuple(dict.fromkeys(ids))))
    if named is None:
        return
    wanted = {
        TopicPartition(named.names[id], part.partition): _read_from(id, part)
        for id, topic in zip(ids, asked.topics, strict=True)
        if id in named.names
        for part in topic.partitions
    }
    read = exchange.look(ReadLogs(wanted, _asked_by(exchange) == _FUTURE))
    if read is not None:
        _fetched(exchange, named.names, read)


def _asked_by(exchange: Exchange) -> int:
    """The replica id, which moved into a tagged field."""
    asked = exchange.asked
    if exchange.version < 15:
        return int(asked.replica_id)
    return -1 if asked.replica_state is None else int(asked.replica_state.replica_id)


def _read_from(id: TopicId, part: Any) -> ReadFrom:
    last = part.last_fetched_epoch
    return ReadFrom(
        id, LeaderEpoch(part.current_leader_epoch), Offset(part.fetch_offset), LeaderEpoch(last) if last >= 0 else None
    )


def _fetched(exchange: Exchange, names: Mapping[TopicId, str], read: LogsRead) -> None:
    responses = []
    unknown = LogRead(Error.UNKNOWN_TOPIC_ID, Offset(-1), Offset(-1))
    for topic in exchange.asked.topics:
        name = names.get(topic_id_of(topic.topic_id))
        partitions = [
            _log(part.partition, unknown if name is None else read.partitions[TopicPartition(name, part.partition)])
            for part in topic.partitions
        ]
        responses.append(Values(topic_id=topic.topic_id, partitions=partitions))
    exchange.answer(throttle_time_ms=0, error_code=0, session_id=0, responses=responses, node_endpoints=[])


def _log(index: int, read: LogRead) -> Values:
    values = Values(
        partition_index=index,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.high_watermark,
        log_start_offset=read.start,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=b"",
    )
    if read.diverging is not None:
        values.diverging_epoch = Values(epoch=read.diverging[0], end_offset=read.diverging[1])
    return values


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
    told = exchange.look(GetReplicaLogInfo(tuple(wanted)))
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
