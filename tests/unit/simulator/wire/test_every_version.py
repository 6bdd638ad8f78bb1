"""Every request that the engine's client sends, in every version that both sides know."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest

from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest, GetReplicaLogInfoRequest
from kafka_recovery.cluster.metadata import topic_uuid
from kafka_recovery.domain.ids import TopicId, TopicPartition
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.model.switches import WITH_KIP_1275
from unit.simulator.wire.asking import Client, describe_quorum, fetch, log_end, reassignment

FIVE_RECORDS = TopicPartition("orders", 0)


@pytest.fixture
def kafka() -> SimulatedKafka:
    """Three brokers; orders-0 holds five acknowledged records."""
    kafka = SimulatedKafka(1, settings=Settings(release="4.4"), switches=WITH_KIP_1275)
    kafka.create_topic("orders", [[1, 2, 3], [2, 3, 1]], min_isr=2)
    kafka.producer("writer", FIVE_RECORDS).send(5)
    kafka.run_for(2)
    return kafka


def versions(request: Any, lowest: int, build: Callable[[TopicId], Any], expect: Callable[[Any], Any]) -> Iterator[Any]:
    """One case for each version."""
    for version in range(lowest, request.max_version + 1):
        yield pytest.param(version, build, expect, id=f"{request.__name__}-v{version}")


def api_versions(_: TopicId) -> Any:
    """With the name that v3 wants."""
    return ApiVersionsRequest(client_software_name="tester", client_software_version="1")


def describe_topic_partitions(_: TopicId) -> Any:
    """All of one topic."""
    make = DescribeTopicPartitionsRequest
    return make(topics=[make.TopicRequest(name="orders")], response_partition_limit=2000, cursor=None)


def describe_configs(_: TopicId) -> Any:
    """One config of one topic."""
    make = DescribeConfigsRequest.DescribeConfigsResource
    wanted = make(resource_type=2, resource_name="orders", configuration_keys=["min.insync.replicas"])
    return DescribeConfigsRequest(resources=[wanted])


def elect_leaders(_: TopicId) -> Any:
    """A preferred election where the preferred replica leads."""
    make = ElectLeadersRequest.TopicPartitions
    return ElectLeadersRequest(
        election_type=0, topic_partitions=[make(topic="orders", partitions=[0])], timeout_ms=1000
    )


def end_of_epoch(id: TopicId) -> Any:
    """Where epoch 0 ends."""
    return fetch(2**63 - 1, epoch=0, last_epoch=0, topic_id=topic_uuid(id))


def replica_log_info(id: TopicId) -> Any:
    """How long one replica is."""
    make = GetReplicaLogInfoRequest.TopicPartitions
    return GetReplicaLogInfoRequest(topic_partitions=[make(topic_id=topic_uuid(id), partitions=[0])])


CASES = [
    *versions(ApiVersionsRequest, 0, api_versions, lambda said: {api.api_key for api in said.api_keys} >= {1, 2, 43}),
    *versions(
        DescribeClusterRequest,
        0,
        lambda _: DescribeClusterRequest(include_cluster_authorized_operations=False),
        lambda said: [(b.broker_id, b.host) for b in said.brokers] == [(n, f"broker-{n}") for n in (1, 2, 3)],
    ),
    *versions(
        DescribeTopicPartitionsRequest,
        0,
        describe_topic_partitions,
        lambda said: [p.replica_nodes for p in said.topics[0].partitions] == [[1, 2, 3], [2, 3, 1]],
    ),
    *versions(
        DescribeConfigsRequest,
        1,
        describe_configs,
        lambda said: [(c.value, c.config_source) for c in said.results[0].configs] == [("2", 1)],
    ),
    *versions(
        DescribeQuorumRequest,
        0,
        lambda _: describe_quorum(),
        lambda said: said.topics[0].partitions[0].high_watermark > 0,
    ),
    *versions(
        ListPartitionReassignmentsRequest,
        0,
        lambda _: ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None),
        lambda said: said.error_code == 0 and said.topics == [],
    ),
    *versions(
        AlterPartitionReassignmentsRequest,
        0,
        lambda _: reassignment(),
        lambda said: [p.error_code for p in said.responses[0].partitions] == [0],
    ),
    *versions(
        ElectLeadersRequest,
        0,
        elect_leaders,
        lambda said: [p.error_code for p in said.replica_election_results[0].partition_result] == [84],
    ),
    *versions(
        ListOffsetsRequest,
        1,
        lambda _: log_end(),
        lambda said: [p.offset for p in said.topics[0].partitions] == [5],
    ),
    *versions(
        FetchRequest, 13, end_of_epoch, lambda said: said.responses[0].partitions[0].diverging_epoch.end_offset == 5
    ),
    *versions(
        GetReplicaLogInfoRequest,
        0,
        replica_log_info,
        lambda said: said.topic_partition_log_info_list[0].partition_log_info[0].log_end_offset == 5,
    ),
]


@pytest.mark.parametrize(("version", "build", "expect"), CASES)
def test_is_answered(
    kafka: SimulatedKafka, version: int, build: Callable[[TopicId], Any], expect: Callable[[Any], bool]
) -> None:
    id = kafka.controllers.state.topics["orders"].id

    answer = Client(kafka).ask(build(id), version)

    assert expect(answer), answer
