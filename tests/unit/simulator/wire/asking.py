"""A client of one simulated broker that speaks with kafka-python's messages, without a network between."""

from __future__ import annotations

import itertools
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, DescribeQuorumRequest
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.wire.session import Session
from kafka_recovery.simulator.wire.whims import FAIR, Whims


def address(broker: BrokerId) -> tuple[str, int]:
    """Where brokers say they listen."""
    return f"broker-{broker}", 9092


def frame_of(request: Any, version: int, correlation_id: int = 1) -> bytes:
    """A request as it travels, without its length."""
    request.API_VERSION = version
    request.with_header(correlation_id=correlation_id, client_id="tester")
    return bytes(request.encode(version=version, header=True))


def describe_quorum() -> Any:
    """About the metadata log's only partition: a request that waits for the controller."""
    make = DescribeQuorumRequest.TopicData
    partition = make.PartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=[make(topic_name="__cluster_metadata", partitions=[partition])])


def fetch(
    offset: int, *, epoch: int = -1, last_epoch: int = -1, wait: int = 0, room: int = 1, cluster: str | None = None,
    **topic: Any,
) -> Any:  # fmt: skip
    """A Fetch of a topic's partition 0, named by `topic` or by `topic_id`; it waits so many ms for records."""
    part = FetchRequest.FetchTopic.FetchPartition(
        partition=0, current_leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last_epoch,
        log_start_offset=-1, partition_max_bytes=room,
    )  # fmt: skip
    return FetchRequest(
        cluster_id=cluster, max_wait_ms=wait, min_bytes=1, max_bytes=room, isolation_level=0, session_id=0,
        session_epoch=-1, topics=[FetchRequest.FetchTopic(partitions=[part], **topic)], forgotten_topics_data=[],
        rack_id="",
    )  # fmt: skip


def log_end() -> Any:
    """The end of orders-0, as a debugging consumer asks for it."""
    topic = ListOffsetsRequest.ListOffsetsTopic
    part = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
    return ListOffsetsRequest(replica_id=-2, isolation_level=0, topics=[topic(name="orders", partitions=[part])])


def reassignment() -> Any:
    """Another order of the replicas of orders-0."""
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    part = topic.ReassignablePartition(partition_index=0, replicas=[3, 2, 1])
    return AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic(name="orders", partitions=[part])])


class Client:
    """Asks and waits; virtual time goes on as far as an answer needs it."""

    def __init__(self, kafka: SimulatedKafka, broker: int = 1, whims: Whims = FAIR) -> None:
        self.kafka = kafka
        self.session = Session(kafka, BrokerId(broker), "tester", address, whims=whims)
        self._ids = itertools.count(1)

    def ask(self, request: Any, version: int) -> Any:
        """The decoded answer; raises TimeoutError after 90 virtual seconds of silence."""
        id = next(self._ids)
        answers: list[bytes] = []
        frame = frame_of(request, version, id)
        response = ResponseClassRegistry.get_response_class(request.header)
        self.session.received(frame, answers.append)
        if self.kafka.run_while(lambda: not answers, at_most=90):
            raise TimeoutError(f"{request.name} v{version} was not answered")
        (answer,) = answers
        found = response[None].decode(answer, version=version, header=True)
        assert found.header.correlation_id == id
        return found
