"""Whoever lacks a right is told so in the way of Kafka's brokers."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest
from kafka_recovery.simulator.model.grants import EVERY_TOPIC, Operation
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from unit.simulator.wire.asking import Client

TOPIC_DENIED, CLUSTER_DENIED = 29, 31


@pytest.fixture
def client() -> Client:
    """Two topics, and nothing denied yet."""
    kafka = SimulatedKafka(1)
    for name in ("orders", "payments"):
        kafka.create_topic(name, [[1, 2, 3]])
    kafka.run_for(2)
    return Client(kafka)


def quorum(client: Client) -> int:
    return int(client.ask(DescribeQuorumRequest(topics=[]), 2).error_code)


def reassignments(client: Client) -> int:
    return int(client.ask(ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None), 0).error_code)


def reassign(client: Client) -> int:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    parts = [topic.ReassignablePartition(partition_index=0, replicas=[2, 1, 3])]
    request = AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic(name="orders", partitions=parts)])
    return int(client.ask(request, 0).error_code)


def elect(client: Client) -> int:
    topic = ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[0])
    request = ElectLeadersRequest(election_type=1, topic_partitions=[topic], timeout_ms=1000)
    answer = client.ask(request, 2)
    ((result,),) = [each.partition_result for each in answer.replica_election_results]
    assert answer.error_code in (0, result.error_code)
    return int(answer.error_code)


def described(client: Client, *names: str) -> dict[str, int]:
    make = DescribeTopicPartitionsRequest
    topics = [make.TopicRequest(name=name) for name in names]
    answer = client.ask(make(topics=topics, response_partition_limit=10, cursor=None), 0)
    return {topic.name: topic.error_code for topic in answer.topics}


def metadata(client: Client, *names: str) -> dict[str, int]:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names] or None
    return {topic.name: topic.error_code for topic in client.ask(MetadataRequest(topics=topics), 9).topics}


def partitions(answer: Any) -> list[int]:
    return [part.error_code for topic in answer.topics for part in topic.partitions]


def offset(client: Client) -> list[int]:
    topic = ListOffsetsRequest.ListOffsetsTopic
    part = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    topics = [topic(name="orders", partitions=[part])]
    return partitions(client.ask(ListOffsetsRequest(replica_id=-2, isolation_level=0, topics=topics), 7))


def fetch(client: Client) -> list[int]:
    topic = FetchRequest.FetchTopic
    part = topic.FetchPartition(
        partition=0, current_leader_epoch=-1, fetch_offset=0, last_fetched_epoch=-1, log_start_offset=-1,
        partition_max_bytes=100,
    )  # fmt: skip
    request = FetchRequest(
        replica_id=-1, max_wait_ms=0, min_bytes=0, max_bytes=100, isolation_level=0, session_id=0, session_epoch=-1,
        topics=[topic(topic="orders", partitions=[part])], forgotten_topics_data=[], rack_id="",
    )  # fmt: skip
    return [part.error_code for topic in client.ask(request, 12).responses for part in topic.partitions]


def configs(client: Client) -> list[int]:
    wanted = DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="orders")
    return [result.error_code for result in client.ask(DescribeConfigsRequest(resources=[wanted]), 4).results]


@pytest.mark.parametrize(
    ("operation", "asked"),
    [
        (Operation.DESCRIBE_CLUSTER, quorum),
        (Operation.DESCRIBE_CLUSTER, reassignments),
        (Operation.ALTER_CLUSTER, reassign),
        (Operation.ALTER_CLUSTER, elect),
    ],
)
def test_a_right_on_the_cluster(client: Client, operation: Operation, asked: Any) -> None:
    client.kafka.grants.deny("tester", operation)
    before = dict(client.kafka.controllers.state.partitions)

    assert asked(client) == CLUSTER_DENIED
    assert client.kafka.controllers.state.partitions == before
    client.kafka.grants.allow("tester", operation)
    assert asked(client) == 0


@pytest.mark.parametrize(
    ("operation", "asked"),
    [(Operation.DESCRIBE, offset), (Operation.READ, fetch), (Operation.DESCRIBE_CONFIGS, configs)],
)
@pytest.mark.parametrize("topic", ["orders", EVERY_TOPIC])
def test_a_right_on_a_topic(client: Client, operation: Operation, asked: Any, topic: str) -> None:
    client.kafka.grants.deny("tester", operation, "payments")
    assert asked(client) == [0]

    client.kafka.grants.deny("tester", operation, topic)

    assert asked(client) == [TOPIC_DENIED]


@pytest.mark.parametrize("listed", [described, metadata])
def test_a_topic_that_may_not_be_described_is_left_out_of_all_and_denied_by_name(client: Client, listed: Any) -> None:
    assert listed(client) == {"orders": 0, "payments": 0}

    client.kafka.grants.deny("tester", Operation.DESCRIBE, "orders")

    assert listed(client) == {"payments": 0}
    assert listed(client, "orders", "payments") == {"orders": TOPIC_DENIED, "payments": 0}
