"""What scripts ask of brokers, in Kafka's own messages: real and simulated ones are asked by the same bytes."""

from __future__ import annotations

import time
import uuid
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
from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.record.default_records import DefaultRecordBatch

from fidelity.script import OBSERVER, TOPIC
from kafka_recovery.simulator.model.errors import Error
from testbed.replicas import CONSUMER, DEBUGGER, EARLIEST, FUTURE_LOCAL, LATEST, NO_EPOCH, fetch_request
from testbed.wire import accept

DEADLINE_MS = 20_000
BEYOND_ANY_END = 2**63 - 1


class Requests(ABC):
    """`topic`: what the script's topic is called here; `writes`: how many there were."""

    topic: str
    writes = 0

    @abstractmethod
    def ask(self, broker: int, request: Any, version: int) -> Any:
        """The answer of this broker."""

    @abstractmethod
    def topic_id(self) -> uuid.UUID:
        """The id of the topic of that name as of now."""

    def log_end(self, broker: int) -> int | str:
        error, offset, _ = self.offsets(broker, -1, True)
        return offset if error == "NONE" else error

    def log(self, broker: int) -> list[str]:
        _, at, _ = self._offsets(broker, EARLIEST, -1, DEBUGGER)
        held: list[str] = []
        while batches := self._batches(broker, at):
            held += [f"{b.base_offset}-{b.last_offset} epoch {b.leader_epoch} write {_writes(b)}" for b in batches]
            at = batches[-1].last_offset + 1
        return held

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
        self.writes += 1
        builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=1 << 20)
        for _ in range(records):
            builder.append(timestamp=round(time.time() * 1000), key=None, value=f"{self.writes}".encode())
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
        return self._offsets(broker, LATEST, epoch, DEBUGGER if debugging else CONSUMER)

    def _offsets(self, broker: int, timestamp: int, epoch: int, replica: int) -> tuple[str, int, int]:
        kind = ListOffsetsRequest.ListOffsetsTopic
        wanted = kind.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=timestamp)
        topics = [kind(name=self.topic, partitions=[wanted])]
        request = ListOffsetsRequest(replica_id=replica, isolation_level=0, topics=topics)
        told = self.ask(broker, request, 9).topics[0].partitions[0]
        return _named(told.error_code), told.offset, told.leader_epoch

    def epochs(self, broker: int, latest: int) -> list[str]:
        return [self._end_of_epoch(broker, epoch) for epoch in range(latest + 1)]

    def _end_of_epoch(self, broker: int, epoch: int) -> str:
        """As the engine asks: a Fetch far beyond any end is answered with the largest epoch of at most this one."""
        told = self._fetch(broker, BEYOND_ANY_END, epoch, CONSUMER)
        if told.error_code:
            return f"{epoch}: {_named(told.error_code)}"
        return f"{epoch}: {told.diverging_epoch.epoch} ends at {told.diverging_epoch.end_offset}"

    def _batches(self, broker: int, offset: int) -> list[DefaultRecordBatch]:
        """Some of a replica's batches from there on; none: it ends there."""
        told = self._fetch(broker, offset, NO_EPOCH, FUTURE_LOCAL)
        accept(f"Fetch of {self.topic} at broker {broker}", told.error_code)
        records = MemoryRecords(bytes(told.records or b""))
        found: list[DefaultRecordBatch] = []
        while records.has_next():
            found.append(records.next_batch())
        return found

    def _fetch(self, broker: int, offset: int, last_epoch: int, replica: int) -> Any:
        answer = self.ask(broker, fetch_request(self.topic_id(), 0, offset, replica, last_epoch), 16)
        accept("Fetch", answer.error_code)
        return answer.responses[0].partitions[0]

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


def _writes(batch: DefaultRecordBatch) -> str:
    """Which writes its records are of."""
    return ",".join(sorted({bytes(record.value or b"").decode() for record in batch}))


def _named(code: int) -> str:
    try:
        return Error(code).name
    except ValueError:
        return f"error {code}"
