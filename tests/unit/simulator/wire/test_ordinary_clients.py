"""Every request that ordinary clients send, in every version that both sides know."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import pytest
from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeLogDirsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from kafka_recovery.cluster.metadata import topic_uuid
from kafka_recovery.domain.ids import TopicId, TopicPartition
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.settings import Settings
from unit.simulator.wire.asking import Client, fetch

WRITTEN = TopicPartition("orders", 0)


@pytest.fixture
def kafka() -> SimulatedKafka:
    """Three brokers; orders-0 holds five acknowledged records of a simulated producer."""
    kafka = SimulatedKafka(1, settings=Settings(release="4.4"))
    kafka.create_topic("orders", [[1, 2, 3], [2, 3, 1]], min_isr=2)
    kafka.producer("writer", WRITTEN).send(5)
    kafka.run_for(2)
    return kafka


def orders(kafka: SimulatedKafka) -> TopicId:
    """The topic's id."""
    return kafka.controllers.state.topics["orders"].id


def batch(*values: bytes, producer: int = -1, sequence: int = -1) -> bytes:
    """A record batch as a producer sends it."""
    builder = DefaultRecordBatchBuilder(2, 0, False, producer, 0 if producer >= 0 else -1, sequence, 1 << 20)
    for offset, value in enumerate(values):
        builder.append(offset, 1_700_000_000_000, b"key", value, [])
    return bytes(builder.build())


def produce(kafka: SimulatedKafka, version: int, records: bytes, acks: int = -1) -> Any:
    """One partition's answer."""
    make = ProduceRequest.TopicProduceData
    part = make.PartitionProduceData(index=0, records=records)
    topic = {"topic_id": topic_uuid(orders(kafka))} if version >= 13 else {"name": "orders"}
    request = ProduceRequest(
        transactional_id=None, acks=acks, timeout_ms=5000, topic_data=[make(partition_data=[part], **topic)]
    )
    return Client(kafka).ask(request, version).responses[0].partition_responses[0]


def fetched(kafka: SimulatedKafka, version: int, offset: int, room: int = 1 << 20, wait: int = 0) -> Any:
    """One partition's answer."""
    topic = {"topic_id": topic_uuid(orders(kafka))} if version >= 13 else {"topic": "orders"}
    return Client(kafka).ask(fetch(offset, wait=wait, room=room, **topic), version).responses[0].partitions[0]


def values_in(records: bytes) -> list[bytes]:
    """What consumers read."""
    found, pos = [], 0
    while pos < len(records):
        size = 12 + struct.unpack_from(">i", records, pos + 8)[0]
        one = DefaultRecordBatch(records[pos : pos + size])
        assert one.validate_crc()
        found += [record.value for record in one]
        pos += size
    return found


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_brokers_topics_and_leaders(kafka: SimulatedKafka, version: int) -> None:
    topic = MetadataRequest.MetadataRequestTopic(name="orders", topic_id=None)
    answer = Client(kafka).ask(MetadataRequest(topics=[topic]), version)

    assert [(broker.node_id, broker.host) for broker in answer.brokers] == [(n, f"broker-{n}") for n in (1, 2, 3)]
    assert [part.leader_id for part in answer.topics[0].partitions] == [1, 2]


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_everything(kafka: SimulatedKafka, version: int) -> None:
    kafka.create_topic("payments", [[3]])
    kafka.run_for(1)

    answer = Client(kafka).ask(MetadataRequest(topics=[] if version == 0 else None), version)

    assert [topic.name for topic in answer.topics] == ["orders", "payments"]


@pytest.mark.parametrize("version", range(10, 14))
def test_metadata_by_id(kafka: SimulatedKafka, version: int) -> None:
    make = MetadataRequest.MetadataRequestTopic
    wanted = [make(name=None, topic_id=topic_uuid(TopicId(id))) for id in (orders(kafka), "A" * 20 + "DA")]

    known, unknown = Client(kafka).ask(MetadataRequest(topics=wanted), version).topics

    assert (known.error_code, known.name) == (0, "orders")
    assert unknown.error_code == 100


@pytest.mark.parametrize("version", range(3, 14))
def test_what_is_produced_is_fetched(kafka: SimulatedKafka, version: int) -> None:
    answer = produce(kafka, version, batch(b"one", b"two"))

    assert (answer.error_code, answer.base_offset) == (0, 5)
    records = bytes(fetched(kafka, 12, 5).records)
    assert values_in(records) == [b"one", b"two"]
    assert [record.offset for record in DefaultRecordBatch(records)] == [5, 6]


@pytest.mark.parametrize("version", range(4, 19))
def test_records_of_simulated_producers_are_fetched(kafka: SimulatedKafka, version: int) -> None:
    answer = fetched(kafka, version, 3)

    assert (answer.error_code, answer.high_watermark) == (0, 5)
    assert values_in(bytes(answer.records)) == [b"writer 3", b"writer 4"]


def test_a_fetch_waits_for_records(kafka: SimulatedKafka) -> None:
    """They come half a second later, and the client would have waited for five."""
    kafka.scheduler.after(0.5, lambda: kafka.producer("late", WRITTEN).send(1))
    began = kafka.scheduler.now

    answer = fetched(kafka, 17, 5, wait=5000)

    assert values_in(bytes(answer.records)) == [b"late 0"]
    assert 0.5 <= kafka.scheduler.now - began < 1


def test_a_fetch_without_records_ends_when_the_client_has_waited(kafka: SimulatedKafka) -> None:
    began = kafka.scheduler.now

    answer = fetched(kafka, 17, 5, wait=1000)

    assert not answer.records
    assert kafka.scheduler.now - began == pytest.approx(1, abs=0.05)


def test_the_first_batch_comes_however_large(kafka: SimulatedKafka) -> None:
    produce(kafka, 9, batch(b"x" * 1000))
    produce(kafka, 9, batch(b"y"))

    assert values_in(bytes(fetched(kafka, 12, 5, room=10).records)) == [b"x" * 1000]


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (b"", 2),
        (batch(b"one")[:-1], 2),
        (batch(b"one")[:-1] + b"x", 2),
        (batch(b"one") + batch(b"two"), 87),
        (batch(b"one")[:16] + b"\1" + batch(b"one")[17:], 87),
    ],
    ids=["nothing", "cut", "another checksum", "two batches", "an old format"],
)
def test_batches_that_are_none_are_refused(kafka: SimulatedKafka, records: bytes, error: int) -> None:
    assert produce(kafka, 9, records).error_code == error


def test_an_idempotent_batch_that_comes_twice_is_written_once(kafka: SimulatedKafka) -> None:
    numbered = Client(kafka).ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1), 5)
    first = batch(b"one", b"two", producer=numbered.producer_id, sequence=0)

    offsets = [produce(kafka, 9, first).base_offset for _ in range(2)]
    skipped = produce(kafka, 9, batch(b"four", producer=numbered.producer_id, sequence=3))

    assert offsets == [5, 5]
    assert skipped.error_code == 45
    assert values_in(bytes(fetched(kafka, 12, 5).records)) == [b"one", b"two"]


def test_too_few_in_sync_replicas_refuse_what_wants_all(kafka: SimulatedKafka) -> None:
    kafka.kill(2)
    kafka.kill(3)
    kafka.run_for(5)

    assert produce(kafka, 9, batch(b"one")).error_code == 19
    assert produce(kafka, 9, batch(b"one"), acks=1).error_code == 0


def cases() -> Iterator[Any]:
    """A request, its versions, how it is built, and what to expect."""
    make_topic, make_ends = CreateTopicsRequest.CreatableTopic, OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    create = make_topic(name="new", num_partitions=3, replication_factor=2, assignments=[], configs=[])
    ends = make_ends(topic="orders", partitions=[make_ends.OffsetForLeaderPartition(partition=0, leader_epoch=0)])
    listed = ListOffsetsRequest.ListOffsetsTopic
    since = listed(name="orders", partitions=[listed.ListOffsetsPartition(partition_index=0, timestamp=1)])
    for version in range(2, 8):
        request = CreateTopicsRequest(topics=[create], timeout_ms=1000, validate_only=False)
        yield request, version, lambda said: [topic.error_code for topic in said.topics] == [0]
    for version in range(1, 6):
        request = DeleteTopicsRequest(topic_names=["orders", "none"], timeout_ms=1000)
        yield request, version, lambda said: [topic.error_code for topic in said.responses] == [0, 3]
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState(name="orders")], timeout_ms=1000)
    yield request, 6, lambda said: [topic.error_code for topic in said.responses] == [0]
    for version in range(1, 5):
        yield DescribeLogDirsRequest(topics=None), version, lambda said: said.results[0].topics[0].name == "orders"
    for version in range(6):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        yield request, version, lambda said: said.error_code == 0 and said.producer_id > 0
    for version in range(4):
        yield FindCoordinatorRequest(key="group"), version, lambda said: said.error_code == 15
    for version in range(4, 7):
        request = FindCoordinatorRequest(coordinator_keys=["group"], key_type=0)
        yield request, version, lambda said: [found.error_code for found in said.coordinators] == [15]
    for version in range(2, 5):
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[ends])
        yield request, version, lambda said: [part.end_offset for part in said.topics[0].partitions] == [5]
    for version in range(1, 12):
        request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[since], timeout_ms=0)
        yield request, version, lambda said: [part.offset for part in said.topics[0].partitions] == [0]


@pytest.mark.parametrize(
    ("request_", "version", "expect"),
    [pytest.param(*case, id=f"{case[0].name}-v{case[1]}") for case in cases()],
)
def test_is_answered(kafka: SimulatedKafka, request_: Any, version: int, expect: Callable[[Any], bool]) -> None:
    answer = Client(kafka).ask(request_, version)

    assert expect(answer), answer


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"name": "orders"}, 36),
        ({"name": "no spaces"}, 17),
        ({"replication_factor": 4}, 38),
        ({"num_partitions": 0}, 37),
    ],
    ids=["it exists", "its name", "too few brokers", "no partitions"],
)
def test_topics_that_can_not_be_are_not_made(kafka: SimulatedKafka, fields: dict[str, Any], error: int) -> None:
    usual = {"name": "new", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    topic = CreateTopicsRequest.CreatableTopic(**{**usual, **fields})

    answer = Client(kafka).ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False), 7)

    assert [made.error_code for made in answer.topics] == [error]


def new_topics(count: int, partitions: int) -> CreateTopicsRequest:
    """So many topics of so many partitions in one request, which is not to make them."""
    topics = [
        CreateTopicsRequest.CreatableTopic(
            name=f"t{number}", num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        for number in range(count)
    ]
    return CreateTopicsRequest(topics=topics, timeout_ms=1000, validate_only=True)


def test_of_too_many_partitions_in_one_request_none_is_made(kafka: SimulatedKafka) -> None:
    """Each topic alone would be one that may be made."""
    most = Client(kafka).ask(new_topics(2, 5000), 7)
    more = Client(kafka).ask(new_topics(3, 5000), 7)

    assert [made.error_code for made in most.topics] == [0, 0]
    assert [made.error_code for made in more.topics] == [44, 44, 44]


def test_a_request_for_very_many_topics_is_answered_as_fast_as_one_for_few(kafka: SimulatedKafka) -> None:
    """A request may have 16 MiB: who takes longer and longer for each topic would stand still for all others."""
    began = process_time()
    answer = Client(kafka).ask(new_topics(40_000, 1), 7)

    assert len(answer.topics) == 40_000
    assert process_time() - began < 10
