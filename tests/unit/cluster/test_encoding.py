"""Requests on the wire: byte for byte what kafka-python writes, several fields at a time."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, DescribeClusterRequest, ElectLeadersRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest

from kafka_recovery.cluster.encoding import _encoder, encoded


def fetch(partitions: int, **more: Any) -> FetchRequest:
    """Of one topic, whose name is its id."""
    of = FetchRequest.FetchTopic
    asked = [
        of.FetchPartition(
            partition=index, current_leader_epoch=-1, last_fetched_epoch=7, fetch_offset=2**63 - 1,
            log_start_offset=-1, partition_max_bytes=1, **more,
        )
        for index in range(partitions)
    ]  # fmt: skip
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1, isolation_level=0, session_id=0, session_epoch=-1,
        topics=[of(topic_id=UUID(int=5), topic="orders", partitions=asked)], forgotten_topics_data=[], rack_id="",
    )  # fmt: skip


def list_offsets() -> ListOffsetsRequest:
    topic = ListOffsetsRequest.ListOffsetsTopic
    asked = [topic.ListOffsetsPartition(partition_index=n, current_leader_epoch=3, timestamp=-1) for n in (0, 200)]
    return ListOffsetsRequest(replica_id=-2, isolation_level=0, topics=[topic(name="orders", partitions=asked)])


def elect_leaders() -> ElectLeadersRequest:
    topic = ElectLeadersRequest.TopicPartitions(topic="orders", partitions=list(range(300)))
    return ElectLeadersRequest(election_type=1, topic_partitions=[topic], timeout_ms=1000)


def reassignments() -> AlterPartitionReassignmentsRequest:
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    orders = [topic.ReassignablePartition(partition_index=n, replicas=of) for n, of in enumerate(([3, 1, 2], None))]
    return AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic(name="orders", partitions=orders)])


@pytest.mark.parametrize(
    ("message", "versions"),
    [
        (fetch(3), range(4, 19)),
        (list_offsets(), range(1, 12)),
        (elect_leaders(), range(3)),
        (reassignments(), range(2)),
        (ApiVersionsRequest(client_software_name="a", client_software_version="1"), range(5)),
        (DescribeClusterRequest(include_cluster_authorized_operations=False), range(3)),
    ],
    ids=lambda given: type(given).__name__ if hasattr(given, "API_KEY") else "",
)
def test_a_request_is_what_the_library_writes(message: Any, versions: range) -> None:
    for version in versions:
        assert encoded(message, version) == bytes(message.encode(version=version))


def test_a_tagged_field_that_is_set_is_written() -> None:
    asked = fetch(2, high_watermark=12)

    assert encoded(asked, 18) == bytes(asked.encode(version=18))
    assert encoded(asked, 18) != encoded(fetch(2), 18)


def test_a_request_may_be_larger_than_the_first_buffer() -> None:
    asked = fetch(5000)

    assert encoded(asked, 16) == bytes(asked.encode(version=16))


def test_the_fields_of_one_partition_are_packed_at_once() -> None:
    """Else a request would still be right, and nobody would notice that it takes longer."""
    encoder: Any = _encoder(FetchRequest, 16)

    assert ">iiqiqi" in encoder.__code__.co_consts
