"""A client of one simulated broker that speaks with kafka-python's messages, without a network between."""

from __future__ import annotations

import itertools
from typing import Any

from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.api_header import ResponseClassRegistry

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
