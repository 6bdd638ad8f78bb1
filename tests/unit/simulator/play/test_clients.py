"""Clients that know nothing of a simulator work with a played cluster as with Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec  # type: ignore[attr-defined]
from kafka import KafkaAdminClient

from kafka_recovery.domain.ids import TopicPartition as Partition
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from unit.simulator.play.playing import Played, eventually, played

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def cluster() -> Iterator[Played]:
    """Three brokers, and a topic of two partitions."""
    kafka = SimulatedKafka(1)
    kafka.create_topic("orders", [[1, 2, 3], [2, 3, 1]], min_isr=2)
    kafka.run_for(2)
    with played(kafka) as found:
        yield found


def write(cluster: Played, values: list[bytes], **config: Any) -> list[int]:
    """The offsets at which the values were acknowledged."""
    offsets: list[int] = []

    def acknowledged(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 1, **config})
    for value in values:
        producer.produce("orders", value, key=b"k", headers=[("h", b"1")], partition=0, on_delivery=acknowledged)
    assert producer.flush(10) == 0
    return offsets


def read(cluster: Played, count: int, since: int = 0) -> list[tuple[int, bytes]]:
    """Offsets and values from there on."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "enable.auto.commit": False}
    consumer, found = Consumer(settings), list[tuple[int, bytes]]()
    try:
        consumer.assign([TopicPartition("orders", 0, since)])
        until = time.monotonic() + 10
        while len(found) < count and time.monotonic() < until:
            message = consumer.poll(0.5)
            if message is not None:
                assert message.error() is None, message.error()
                found.append((message.offset() or 0, message.value() or b""))
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize(
    "config",
    [{}, {"enable.idempotence": True}, {"compression.type": "gzip"}, {"acks": 1}],
    ids=["plain", "idempotent", "compressed", "acks=1"],
)
def test_what_is_written_is_read_again(cluster: Played, config: dict[str, Any]) -> None:
    values = [b"value-%d" % number for number in range(50)]

    offsets = write(cluster, values, **config)

    assert sorted(offsets) == list(range(50))
    assert read(cluster, 50) == list(enumerate(values))


def test_a_producer_follows_the_leader(cluster: Played) -> None:
    """The leader is killed, a follower takes over, and what was acknowledged is all there."""
    write(cluster, [b"before"])
    cluster.do(lambda: cluster.kafka.kill(1))

    write(cluster, [b"after"])

    assert [value for _, value in read(cluster, 2)] == [b"before", b"after"]


def test_records_of_simulated_producers_can_be_read(cluster: Played) -> None:
    id = Partition("orders", 0)
    cluster.do(lambda: cluster.kafka.producer("writer", id).send(3))
    eventually(lambda: cluster.kafka.truth.log_end(1, id) == 3)

    assert read(cluster, 2, since=1) == [(1, b"writer 1"), (2, b"writer 2")]


def test_confluents_admin_makes_and_describes_topics(cluster: Played) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    admin.create_topics([NewTopic("payments", num_partitions=3, replication_factor=2)])["payments"].result(10)

    def sizes() -> dict[str, int]:
        return {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=10).topics.items()}

    # The controller answers once the topic is made; a broker shows it once it has heard of it.
    eventually(lambda: sizes() == {"orders": 2, "payments": 3})
    assert sorted(node.id for node in admin.describe_cluster().result(10).nodes) == [1, 2, 3]
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders")
    assert admin.describe_configs([resource])[resource].result(10)["min.insync.replicas"].value == "2"
    ends = admin.list_offsets({ORDERS: OffsetSpec.latest()})  # type: ignore[no-untyped-call]
    assert ends[ORDERS].result(10).offset == 0
    admin.delete_topics(["payments"])["payments"].result(10)


def test_a_topic_that_exists_is_not_made_again(cluster: Played) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    with pytest.raises(Exception, match="TOPIC_ALREADY_EXISTS"):
        admin.create_topics([NewTopic("orders", num_partitions=1, replication_factor=1)])["orders"].result(10)


def test_kafka_pythons_admin_sees_the_cluster(cluster: Played) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
    try:
        (orders,) = admin.describe_topics(["orders"])
        assert [partition["replica_nodes"] for partition in orders["partitions"]] == [[1, 2, 3], [2, 3, 1]]
        assert len(admin.describe_cluster()["brokers"]) == 3
        assert admin.describe_metadata_quorum()["topics"][0]["partitions"][0]["high_watermark"] > 0
        assert admin.list_partition_reassignments() in ([], {})
    finally:
        admin.close()
