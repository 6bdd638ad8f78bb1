"""Produce, and what producers and consumers ask before: producer ids, coordinators, where epochs end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kafka_recovery.domain.ids import LeaderEpoch, TopicPartition
from kafka_recovery.simulator.model.client_requests import (
    Appended,
    AppendRecords,
    EndsOfEpochs,
    EpochsEnd,
    NumberProducer,
    ProducerNumbered,
)
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.log import Batch
from kafka_recovery.simulator.model.messages import Produced
from kafka_recovery.simulator.model.requests import NameTopics
from kafka_recovery.simulator.wire.exchange import Exchange, Values
from kafka_recovery.simulator.wire.ids import topic_id_of
from kafka_recovery.simulator.wire.records import incoming

_ACKS = {-1: "all", 1: "1", 0: "0"}
_BY_ID = 13


def produce(exchange: Exchange) -> None:
    """Produce without transactions. With acks=0 there is no answer."""
    asked = exchange.asked
    names = _names(exchange)
    if names is None:
        return
    batches: dict[TopicPartition, Batch] = {}
    refused: dict[tuple[int, int], Error] = {}
    for place, (topic, name) in enumerate(zip(asked.topic_data, names, strict=True)):
        for part in topic.partition_data:
            found = incoming(part.records)
            if asked.transactional_id is not None or asked.acks not in _ACKS:
                refused[place, part.index] = Error.INVALID_REQUEST
            elif name is None:
                refused[place, part.index] = Error.UNKNOWN_TOPIC_ID
            elif isinstance(found, Error):
                refused[place, part.index] = found
            else:
                batches[TopicPartition(name, part.index)] = found.batch(exchange.line.another_name())
    request = AppendRecords(batches, _ACKS.get(asked.acks, "all"), max(0.0, asked.timeout_ms / 1000))
    exchange.ask(request, partial(_produced, exchange, names, refused))


def _names(exchange: Exchange) -> list[str | None] | None:
    topics = exchange.asked.topic_data
    if exchange.version < _BY_ID:
        return [topic.name for topic in topics]
    ids = [topic_id_of(topic.topic_id) for topic in topics]
    named = exchange.look(NameTopics(tuple(dict.fromkeys(ids))))
    return None if named is None else [named.names.get(id) for id in ids]


def _produced(
    exchange: Exchange, names: list[str | None], refused: Mapping[tuple[int, int], Error], answer: Appended
) -> None:
    if exchange.asked.acks == 0:
        exchange.answered(None)
        return
    responses = []
    for place, (topic, name) in enumerate(zip(exchange.asked.topic_data, names, strict=True)):
        parts = []
        for part in topic.partition_data:
            error = refused.get((place, part.index))
            found = Produced(error) if error is not None else answer.partitions[TopicPartition(name or "", part.index)]
            parts.append(_part(part.index, found))
        responses.append(Values(name=topic.name, topic_id=topic.topic_id, partition_responses=parts))
    exchange.answer(responses=responses, throttle_time_ms=0, node_endpoints=[])


def _part(index: int, produced: Produced) -> Values:
    return Values(
        index=index,
        error_code=produced.error,
        base_offset=produced.offset if produced.error is Error.NONE else -1,
        log_append_time_ms=-1,
        log_start_offset=0 if produced.error is Error.NONE else -1,
        record_errors=[],
        error_message=None,
    )


def init_producer_id(exchange: Exchange) -> None:
    """InitProducerId for idempotence; there are no transactions."""
    asked = exchange.asked
    if asked.transactional_id is not None:
        _numbered(exchange, ProducerNumbered(Error.COORDINATOR_NOT_AVAILABLE, -1))
    else:
        exchange.ask(NumberProducer(), partial(_numbered, exchange))


def _numbered(exchange: Exchange, answer: ProducerNumbered) -> None:
    exchange.answer(
        throttle_time_ms=0,
        error_code=answer.error,
        producer_id=answer.id,
        producer_epoch=0 if answer.id >= 0 else -1,
        ongoing_txn_producer_id=-1,
        ongoing_txn_producer_epoch=-1,
    )


def find_coordinator(exchange: Exchange) -> None:
    """FindCoordinator: there are no groups and no transactions; who has partitions assigned goes on without."""
    asked, error = exchange.asked, Error.COORDINATOR_NOT_AVAILABLE
    nobody = {"node_id": -1, "host": "", "port": -1, "error_code": error, "error_message": None}
    keys = asked.coordinator_keys if exchange.version >= 4 else ()
    exchange.answer(throttle_time_ms=0, **nobody, coordinators=[Values(key=key, **nobody) for key in keys])


def end_of_epochs(exchange: Exchange) -> None:
    """OffsetForLeaderEpoch."""
    topics = exchange.asked.topics
    wanted = {
        TopicPartition(topic.topic, part.partition): (
            LeaderEpoch(part.current_leader_epoch),
            LeaderEpoch(part.leader_epoch),
        )
        for topic in topics
        for part in topic.partitions
    }

    def told(answer: EpochsEnd) -> None:
        found = [
            Values(
                topic=topic.topic,
                partitions=[
                    Values(error_code=error, partition=part.partition, leader_epoch=epoch, end_offset=end)
                    for part in topic.partitions
                    for error, epoch, end in (answer.partitions[TopicPartition(topic.topic, part.partition)],)
                ],
            )
            for topic in topics
        ]
        exchange.answer(throttle_time_ms=0, topics=found)

    exchange.ask(EndsOfEpochs(wanted), told)
