"""Fetch: what consumers, and who looks for leader epochs, read from a broker's logs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafka_recovery.domain.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import LogRead, LogsRead, NameTopics, ReadFrom, ReadLogs
from kafka_recovery.simulator.wire.exchange import Exchange, Values
from kafka_recovery.simulator.wire.ids import topic_id_of
from kafka_recovery.simulator.wire.records import outgoing

_FUTURE = -3
"""The replica of another log directory reads to the log's end."""

_BY_ID = 13
_AGAIN = 0.02
"""Seconds after which a broker that has nothing new looks again, while the client waits."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """One partition of a request; `id` None: of a topic that this broker does not know by its id."""

    id: TopicPartition | None
    topic_id: TopicId | None
    part: Any


def fetch(exchange: Exchange) -> None:
    """Fetch without a session: a broker may always decline to keep one."""
    asked = exchange.asked
    if asked.session_id:
        _answer(exchange, Error.FETCH_SESSION_ID_NOT_FOUND, [])
        return
    topics = _by_name(asked) if exchange.version < _BY_ID else _by_id(exchange)
    if topics is None:
        return
    wanted = {
        each.id: _read_from(each.topic_id, each.part) for parts in topics for each in parts if each.id is not None
    }
    _read(exchange, topics, ReadLogs(wanted, _asked_by(exchange) == _FUTURE), asked.max_wait_ms / 1000)


_Topics = list[list[_Wanted]]


def _by_name(asked: Any) -> _Topics:
    return [
        [_Wanted(TopicPartition(topic.topic, part.partition), None, part) for part in topic.partitions]
        for topic in asked.topics
    ]


def _by_id(exchange: Exchange) -> _Topics | None:
    ids = [topic_id_of(topic.topic_id) for topic in exchange.asked.topics]
    named = exchange.look(NameTopics(tuple(dict.fromkeys(ids))))
    if named is None:
        return None
    return [
        [_Wanted(_partition(named.names, id, part), id, part) for part in topic.partitions]
        for id, topic in zip(ids, exchange.asked.topics, strict=True)
    ]


def _partition(names: Mapping[TopicId, str], id: TopicId, part: Any) -> TopicPartition | None:
    return TopicPartition(names[id], part.partition) if id in names else None


def _asked_by(exchange: Exchange) -> int:
    """The replica id, which moved into a tagged field."""
    asked = exchange.asked
    if exchange.version < 15:
        return int(asked.replica_id)
    return -1 if asked.replica_state is None else int(asked.replica_state.replica_id)


def _read_from(id: TopicId | None, part: Any) -> ReadFrom:
    last = part.last_fetched_epoch
    return ReadFrom(
        id, LeaderEpoch(part.current_leader_epoch), Offset(part.fetch_offset), LeaderEpoch(last) if last >= 0 else None
    )


def _read(exchange: Exchange, topics: _Topics, request: ReadLogs, patience: float) -> None:
    """Answer, or look again later as long as the client waits and there is nothing to say."""
    read = exchange.look(request)
    if read is None:
        return
    if patience > 0 and exchange.asked.min_bytes > 0 and not any(map(_says_something, read.partitions.values())):
        line = exchange.line
        again = exchange.contained(partial(_read, exchange, topics, request, patience - _AGAIN))
        line.kafka.brokers[line.broker].node.after(min(_AGAIN, patience), again)
        return
    _answer(exchange, Error.NONE, list(_responses(exchange, topics, read)))


def _says_something(read: LogRead) -> bool:
    return read.error is not Error.NONE or bool(read.batches) or read.diverging is not None


def _responses(exchange: Exchange, topics: _Topics, read: LogsRead) -> Iterable[Values]:
    unknown = LogRead(Error.UNKNOWN_TOPIC_ID, Offset(-1), Offset(-1))
    room = max(1, exchange.asked.max_bytes)
    begun = False
    for parts, topic in zip(topics, exchange.asked.topics, strict=True):
        partitions = []
        for each in parts:
            found = unknown if each.id is None else read.partitions[each.id]
            records = _records(found, each.part.fetch_offset, min(room, each.part.partition_max_bytes), not begun)
            begun, room = begun or bool(records), room - len(records)
            partitions.append(_log(each.part.partition, found, records))
        yield Values(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions)


def _records(read: LogRead, offset: int, room: int, at_least_one: bool) -> bytes:
    """Whole batches, as many as fit; the first of a response even if it does not."""
    found: list[bytes] = []
    for batch in read.batches:
        data = outgoing(batch, offset)
        room -= len(data)
        if room < 0 and not (at_least_one and not found):
            break
        found.append(data)
        if batch.data is None:
            break  # of records that are made up there may be more in the same batch
    return b"".join(found)


def _log(index: int, read: LogRead, records: bytes) -> Values:
    values = Values(
        partition_index=index,
        error_code=read.error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.high_watermark,
        log_start_offset=read.start,
        aborted_transactions=None,
        preferred_read_replica=-1,
        records=records,
    )
    if read.diverging is not None:
        values.diverging_epoch = Values(epoch=read.diverging[0], end_offset=read.diverging[1])
    return values


def _answer(exchange: Exchange, error: Error, responses: list[Values]) -> None:
    exchange.answer(throttle_time_ms=0, error_code=error, session_id=0, responses=responses, node_endpoints=[])
