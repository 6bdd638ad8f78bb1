"""What answers mean: pages, elections, epochs, and how far a broker is."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import (
    DescribeConfigsRequest,
    DescribeTopicPartitionsRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest

from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest
from kafka_recovery.cluster.metadata import topic_uuid
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.switches import WITH_KIP_1275
from unit.simulator.wire.asking import Client, fetch


def page(client: Client, limit: int, cursor: Any = None, *names: str) -> tuple[list[tuple[str, int]], Any]:
    """The partitions of one page of DescribeTopicPartitions, and where the next one begins."""
    make = DescribeTopicPartitionsRequest
    wanted = [make.TopicRequest(name=name) for name in names]
    answer = client.ask(make(topics=wanted, response_partition_limit=limit, cursor=cursor), 0)
    shown = [(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions]
    return shown, answer.next_cursor


def test_pages_go_by_topic_and_partition() -> None:
    kafka = SimulatedKafka(1)
    kafka.create_topic("b", [[1]] * 3)
    kafka.create_topic("a", [[2]] * 2)
    kafka.run_for(1)
    client = Client(kafka)
    make = DescribeTopicPartitionsRequest.Cursor

    first, after_first = page(client, 3)
    second, after_second = page(client, 3, make(topic_name=after_first.topic_name, partition_index=1))

    assert first == [("a", 0), ("a", 1), ("b", 0)]
    assert (after_first.topic_name, after_first.partition_index) == ("b", 1)
    assert (second, after_second) == ([("b", 1), ("b", 2)], None)


def test_no_page_is_larger_than_the_broker_allows() -> None:
    kafka = SimulatedKafka(1)
    kafka.create_topic("many", [[1]] * 2001)
    kafka.run_for(1)

    shown, following = page(Client(kafka), 100_000)

    assert len(shown) == 2000
    assert following.partition_index == 2000


def test_a_cursor_in_a_topic_that_was_not_asked_for_is_refused() -> None:
    kafka = SimulatedKafka(1)
    kafka.create_topic("a", [[1]])
    kafka.run_for(1)
    make = DescribeTopicPartitionsRequest
    request = make(
        topics=[make.TopicRequest(name="a")], response_partition_limit=1,
        cursor=make.Cursor(topic_name="b", partition_index=0),
    )  # fmt: skip

    assert [topic.error_code for topic in Client(kafka).ask(request, 0).topics] == [42]


def test_features_tell_how_far_the_metadata_is_applied() -> None:
    kafka = SimulatedKafka(1)
    request = ApiVersionsRequest(client_software_name="tester", client_software_version="1")
    client = Client(kafka)

    offsets = []
    for _ in range(2):
        kafka.run_for(5)
        offsets.append(client.ask(request, 4).finalized_features_epoch)
        assert offsets[-1] == kafka.brokers[next(iter(kafka.brokers))].applied - 1

    assert offsets[0] < offsets[1]


def leaderless(kafka: SimulatedKafka) -> None:
    """orders-0 loses its only in-sync replica; 2 and 3 are alive."""
    kafka.create_topic("orders", [[1, 2, 3]])
    kafka.run_for(1)
    for broker in (2, 3):
        kafka.pause(broker)
    kafka.run_for(5)
    kafka.producer("writer", TopicPartition("orders", 0)).send(3)
    kafka.run_for(2)
    kafka.kill(1)
    for broker in (2, 3):
        kafka.thaw(broker)
    kafka.run_for(6)


def elect(kafka: SimulatedKafka, version: int, **fields: Any) -> int:
    """The error of one partition's election."""
    topic = {"topic": "orders", "partitions": [0], **fields.pop("topic", {})}
    request = ElectLeadersRequest(
        topic_partitions=[ElectLeadersRequest.TopicPartitions(**topic)], timeout_ms=1000, **fields
    )
    answer = Client(kafka, 2).ask(request, version)
    return int(answer.replica_election_results[0].partition_result[0].error_code)


def leader(kafka: SimulatedKafka) -> int | None:
    """Who leads orders-0."""
    state = kafka.truth.state(TopicPartition("orders", 0))
    assert state is not None
    return state.leader


def test_an_election_of_version_0_is_a_preferred_one() -> None:
    """Whatever type the client had in mind: the version has no field for it."""
    kafka = SimulatedKafka(1)
    leaderless(kafka)

    assert elect(kafka, 0, election_type=1) == 80
    assert leader(kafka) is None
    assert elect(kafka, 1, election_type=1) == 0
    assert leader(kafka) == 2


def test_a_designated_leader_leads() -> None:
    kafka = SimulatedKafka(1, switches=WITH_KIP_1275)
    leaderless(kafka)

    assert elect(kafka, 3, election_type=2, topic={"designated_leaders": [3]}) == 0
    assert leader(kafka) == 3


@pytest.mark.parametrize(
    ("epoch", "offset", "error", "diverging"),
    [(0, 2**63 - 1, 0, (0, 3)), (1, 2**63 - 1, 1, None), (0, 3, 0, None), (-1, 4, 1, None)],
    ids=["where epoch 0 ends", "an epoch that nobody wrote in", "what the log holds", "beyond the end"],
)
def test_fetch_tells_where_epochs_end(epoch: int, offset: int, error: int, diverging: tuple[int, int] | None) -> None:
    kafka = SimulatedKafka(1)
    id = kafka.create_topic("orders", [[1, 2, 3]])
    kafka.producer("writer", TopicPartition("orders", 0)).send(3)
    kafka.run_for(2)
    request = fetch(offset, last_epoch=epoch, topic_id=topic_uuid(id))

    found = Client(kafka, 2).ask(request, 17).responses[0].partitions[0]

    assert found.error_code == error
    seen = found.diverging_epoch and (found.diverging_epoch.epoch, found.diverging_epoch.end_offset)
    assert seen == diverging


def test_a_partition_that_is_named_twice_is_not_answered_and_the_others_are() -> None:
    kafka = SimulatedKafka(1)
    kafka.create_topic("orders", [[1], [1]])
    kafka.run_for(1)
    make = ListOffsetsRequest.ListOffsetsTopic
    parts = [
        make.ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=-1) for index in (0, 0, 1)
    ]
    request = ListOffsetsRequest(replica_id=-2, isolation_level=0, topics=[make(name="orders", partitions=parts)])

    answered = Client(kafka).ask(request, 7).topics[0].partitions

    assert {part.partition_index: part.error_code for part in answered} == {0: 42, 1: 0}


def test_a_broker_describes_itself_and_no_other() -> None:
    make = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [make(resource_type=4, resource_name=name, configuration_keys=["node.id"]) for name in ("2", "3")]

    mine, others = Client(SimulatedKafka(1), 2).ask(DescribeConfigsRequest(resources=wanted), 4).results

    assert [(config.name, config.value) for config in mine.configs] == [("node.id", "2")]
    assert (others.error_code, others.configs) == (42, [])


def test_a_reassignment_that_goes_on_is_listed_whole() -> None:
    """Broker 3, which is to get a replica, is down."""
    kafka = SimulatedKafka(1)
    kafka.create_topic("orders", [[1, 2]])
    kafka.kill(3)
    kafka.run_for(5)
    kafka.reassign(TopicPartition("orders", 0), (BrokerId(1), BrokerId(3)), by="somebody")
    kafka.run_for(1)

    answer = Client(kafka).ask(ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None), 0)

    (found,) = answer.topics[0].partitions
    assert (found.replicas, found.adding_replicas, found.removing_replicas) == ([1, 3, 2], [3], [2])
