"""How brokers treat a client besides answering it: rights that it lacks, quotas, errors that nobody expects."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.metadata import MetadataRequest

from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest
from kafka_recovery.cluster.metadata import topic_uuid
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.host.weather import Weather, WireFault
from kafka_recovery.simulator.model.grants import Operation
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from unit.simulator.wire.asking import Client, describe_quorum, fetch, log_end, reassignment

CLUSTER_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED = 31, 29
ORDERS = TopicPartition("orders", 0)


def kafka_with_a_topic() -> SimulatedKafka:
    kafka = SimulatedKafka(1)
    kafka.create_topic("orders", [[1, 2, 3]])
    kafka.create_topic("payments", [[1, 2, 3]])
    kafka.run_for(1)
    return kafka


def election() -> Any:
    topic = ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[0])
    return ElectLeadersRequest(election_type=1, topic_partitions=[topic], timeout_ms=1000)


def fetched(kafka: SimulatedKafka) -> Any:
    state = kafka.truth.state(ORDERS)
    assert state
    return fetch(0, topic_id=topic_uuid(state.topic_id))


class TestRights:
    @pytest.mark.parametrize(
        ("request_", "version", "right"),
        [
            (reassignment(), 0, Operation.ALTER),
            (election(), 2, Operation.ALTER),
            (describe_quorum(), 2, Operation.DESCRIBE_CLUSTER),
            (ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None), 0, Operation.DESCRIBE_CLUSTER),
        ],
        ids=lambda value: getattr(value, "name", str(value)),
    )
    def test_what_needs_a_right_on_the_cluster_is_refused_and_not_done(
        self, request_: Any, version: int, right: Operation
    ) -> None:
        kafka = kafka_with_a_topic()
        before = kafka.truth.state(ORDERS)
        kafka.grants.deny("tester", right)
        refused = Client(kafka).ask(request_, version)

        assert refused.error_code == CLUSTER_AUTHORIZATION_FAILED
        assert kafka.truth.state(ORDERS) == before

        kafka.grants.allow("tester", right)
        assert Client(kafka).ask(request_, version).error_code == 0

    def test_a_topic_that_may_not_be_seen_is_hidden_from_who_does_not_name_it(self) -> None:
        kafka = kafka_with_a_topic()
        kafka.grants.deny("tester", Operation.DESCRIBE, "orders")
        make = DescribeTopicPartitionsRequest
        client = Client(kafka)

        every = client.ask(make(topics=[], response_partition_limit=10, cursor=None), 0)
        named = client.ask(make(topics=[make.TopicRequest(name="orders")], response_partition_limit=10, cursor=None), 0)
        metadata = client.ask(MetadataRequest(topics=None), 12)

        assert [topic.name for topic in every.topics] == ["payments"]
        assert [topic.name for topic in metadata.topics] == ["payments"]
        (orders,) = named.topics
        assert (orders.error_code, orders.partitions) == (TOPIC_AUTHORIZATION_FAILED, [])

    def test_nor_are_its_offsets_configs_and_records_told(self) -> None:
        kafka = kafka_with_a_topic()
        kafka.grants.deny("tester", Operation.DESCRIBE, "orders")
        client, make = Client(kafka), DescribeConfigsRequest.DescribeConfigsResource
        resource = make(resource_type=2, resource_name="orders", configuration_keys=None)

        offsets = client.ask(log_end(), 8).topics[0].partitions[0]
        configs = client.ask(DescribeConfigsRequest(resources=[resource]), 4).results[0]
        records = client.ask(fetched(kafka), 16).responses[0].partitions[0]

        assert [offsets.error_code, configs.error_code, records.error_code] == [TOPIC_AUTHORIZATION_FAILED] * 3
        assert (offsets.offset, configs.configs) == (-1, [])

    def test_who_may_not_read_a_log_may_still_know_where_it_ends(self) -> None:
        kafka = kafka_with_a_topic()
        kafka.grants.deny("tester", Operation.READ, "orders")
        client = Client(kafka)

        assert client.ask(fetched(kafka), 16).responses[0].partitions[0].error_code == TOPIC_AUTHORIZATION_FAILED
        assert client.ask(log_end(), 8).topics[0].partitions[0].error_code == 0


class TestThrottling:
    def test_a_throttled_client_is_answered_at_once_and_not_heard_for_that_long(self) -> None:
        """KIP-219: the answer says how long to be quiet, and the broker does not read on meanwhile."""
        kafka = kafka_with_a_topic()
        weather = Weather(Random(1), {WireFault.THROTTLED: 1.0})
        client = Client(kafka, whims=weather)
        ask = DescribeClusterRequest(include_cluster_authorized_operations=False)

        began = kafka.scheduler.now
        answer = client.ask(ask, 1)
        assert answer.throttle_time_ms > 0
        assert kafka.scheduler.now == began

        client.ask(ask, 1)
        assert kafka.scheduler.now - began == pytest.approx(answer.throttle_time_ms / 1000)


class TestUnknownErrors:
    def test_a_read_is_answered_with_an_error_somewhere(self) -> None:
        kafka = kafka_with_a_topic()
        client = Client(kafka, whims=Weather(Random(1), {WireFault.UNKNOWN_ERROR: 1.0}))

        assert client.ask(log_end(), 8).topics[0].partitions[0].error_code in (-1, 4242, 32_767)

    @pytest.mark.parametrize("code", [-1, 4242])
    def test_a_change_is_refused_with_one_of_a_newer_kafka_and_may_be_done_after_one_that_says_nothing(
        self, code: int
    ) -> None:
        kafka = kafka_with_a_topic()

        class Always(Weather):
            def error(self) -> int | None:
                return code

        Client(kafka, whims=Always()).ask(reassignment(), 0)
        kafka.run_for(1)

        state = kafka.truth.state(ORDERS)
        assert (state and state.replicas) == ((3, 2, 1) if code < 0 else (1, 2, 3))


def test_a_broker_that_is_wrong_about_its_log_end_is_so_to_who_debugs_only() -> None:
    kafka = kafka_with_a_topic()
    kafka.brokers[BrokerId(1)].misreports = 7

    asked_by_debugger = Client(kafka).ask(log_end(), 8).topics[0].partitions[0].offset
    consumer = log_end()
    consumer.replica_id = -1

    assert asked_by_debugger == 7
    assert Client(kafka).ask(consumer, 8).topics[0].partitions[0].offset == 0
