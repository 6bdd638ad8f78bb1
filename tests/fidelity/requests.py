"""What scripts ask of brokers, in Kafka's own messages: real and simulated ones are asked by the same bytes."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecordsBuilder

from fidelity.script import OBSERVER, TOPIC
from kafka_recovery.simulator.model.errors import Error
from testbed.wire import accept

DEADLINE_MS = 20_000
LATEST, CONSUMER, DEBUGGER = -1, -1, -2


class Requests(ABC):
    """`topic`: what the script's topic is called here."""

    topic: str

    @abstractmethod
    def ask(self, broker: int, request: Any, version: int) -> Any:
        """The answer of this broker."""

    def log_end(self, broker: int) -> int | str:
        error, offset, _ = self.offsets(broker, -1, True)
        return offset if error == "NONE" else error

    def reassignment(self) -> tuple[list[int], list[int]]:
        kind = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        wanted = [kind(name=self.topic, partition_indexes=[0])]
        answer = self.ask(OBSERVER, ListPartitionReassignmentsRequest(timeout_ms=DEADLINE_MS, topics=wanted), 0)
        accept("ListPartitionReassignments", answer.error_code)
        for topic in answer.topics:
            for told in topic.partitions:
                return sorted(told.adding_replicas), sorted(told.removing_replicas)
        return [], []

    def write(self, broker: int, records: int, acks: int) -> str:
        builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
        for number in range(records):
            builder.append(timestamp=round(time.time() * 1000), key=None, value=f"{number}".encode())
        builder.close()
        kind = ProduceRequest.TopicProduceData
        data = [kind.PartitionProduceData(index=0, records=builder.buffer())]
        request = ProduceRequest(
            transactional_id=None,
            acks=acks,
            timeout_ms=DEADLINE_MS,
            topic_data=[kind(name=self.topic, partition_data=data)],
        )
        # Up to version 12 topics go by name.
        return _named(self.ask(broker, request, 9).responses[0].partition_responses[0].error_code)

    def offsets(self, broker: int, epoch: int, debugging: bool) -> tuple[str, int, int]:
        kind = ListOffsetsRequest.ListOffsetsTopic
        wanted = kind.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=DEBUGGER if debugging else CONSUMER,
            isolation_level=0,
            topics=[kind(name=self.topic, partitions=[wanted])],
        )
        told = self.ask(broker, request, 9).topics[0].partitions[0]
        return _named(told.error_code), told.offset, told.leader_epoch

    def elect(self, preferred: bool, topic: str) -> str:
        name = self.topic if topic == TOPIC else topic
        wanted = [ElectLeadersRequest.TopicPartitions(topic=name, partitions=[0])]
        request = ElectLeadersRequest(
            election_type=0 if preferred else 1, topic_partitions=wanted, timeout_ms=DEADLINE_MS
        )
        answer = self.ask(OBSERVER, request, 2)
        accept("ElectLeaders", answer.error_code)
        return _named(answer.replica_election_results[0].partition_result[0].error_code)

    def reassign(self, replicas: Sequence[int] | None, same_count: bool) -> str:
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        target = None if replicas is None else list(replicas)
        wanted = [kind(name=self.topic, partitions=[kind.ReassignablePartition(partition_index=0, replicas=target)])]
        request = AlterPartitionReassignmentsRequest(timeout_ms=DEADLINE_MS, topics=wanted)
        if same_count:
            request.allow_replication_factor_change = False
        # Version 0 has no such field, and allows it.
        answer = self.ask(OBSERVER, request, 1 if same_count else 0)
        accept("AlterPartitionReassignments", answer.error_code)
        return _named(answer.responses[0].partitions[0].error_code)


def _named(code: int) -> str:
    try:
        return Error(code).name
    except ValueError:
        return f"error {code}"
