"""Scripts on a real Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecordsBuilder

from fidelity.script import BROKERS, OBSERVER, TOPIC, UNCLEAN_CHECK, Partition, Script, Sight
from kafka_recovery.simulator.model.errors import Error
from testbed import metadata
from testbed.cluster import RealKafka
from testbed.waiting import wait_until
from testbed.wire import Connection, accept

DEADLINE_MS = 20_000
LATEST, CONSUMER, DEBUGGER = -1, -1, -2


def wish(release: str, elr: bool) -> dict[str, Any]:
    """The cluster that scripts want, in the words of RealKafka.

    Sessions outlast a follower's last fetch by far, on a busy machine too: what is written once it is fenced must not
    reach it any more.
    """
    choice = elr if elr else None if release == "3.9" else False
    checks = {"unclean.leader.election.interval.ms": str(UNCLEAN_CHECK * 1000)}
    return {"release": release, "brokers": len(BROKERS), "elr": choice, "properties": checks, "session_timeout": 3.0}


def play(script: Script, kafka: RealKafka) -> list[Sight]:
    """The script on a running cluster without topics; what it broke there is left so."""
    return script.play(BrokerStage(kafka))


class BrokerStage:
    """A real cluster; what is changed is asked of the broker that no script touches."""

    def __init__(self, kafka: RealKafka) -> None:
        self.kafka = kafka
        # Brokers keep high watermarks by name: a topic must not inherit that of another script's.
        self._topic = f"{TOPIC}-{uuid.uuid4().hex[:8]}"

    def create(self, replicas: Sequence[int], min_isr: int, unclean: bool) -> None:
        configs: dict[str, str | int] = {"min.insync.replicas": min_isr}
        if unclean:
            configs["unclean.leader.election.enable"] = "true"
        self.kafka.create_topic(self._topic, [replicas], **configs)

    def delete(self) -> None:
        self.kafka.delete_topic(self._topic)

    def configure(self, key: str, value: str) -> None:
        self.kafka.configure_topic(self._topic, key, value)
        self.settle()

    def kill(self, broker: int) -> None:
        self.kafka.kill(broker)

    def stop(self, broker: int) -> None:
        self.kafka.terminate(broker)

    def freeze(self, broker: int) -> None:
        self.kafka.freeze(broker)

    def thaw(self, broker: int) -> None:
        self.kafka.thaw(broker)

    def start(self, broker: int) -> None:
        self.kafka.start(broker)

    def wipe(self, broker: int) -> None:
        self.kafka.wipe(broker)

    def fence(self, broker: int) -> None:
        self.kafka.wait_until_fenced(broker)

    def unfence(self, broker: int) -> None:
        self.kafka.wait_until_unfenced(broker)

    def partition(self) -> Partition:
        seen = self.kafka.describe(self._topic)[0]
        return Partition(
            seen.leader, seen.leader_epoch, frozenset(seen.isr), frozenset(seen.elr), seen.last_known_elr, seen.replicas
        )

    def wait(self, what: str, met: Callable[[], bool]) -> None:
        wait_until(what, met, bool)

    def settle(self) -> None:
        current = metadata.committed(self.kafka.controller_address)

        def all_know() -> bool:
            return all(metadata.applied(self.kafka.address(broker)) >= current for broker in self.running())

        self.wait("all brokers have applied the metadata", all_know)
        # Applied is published before the replica manager is done with it: no request tells when that is.
        time.sleep(0.2)

    def running(self) -> Sequence[int]:
        return self.kafka.running

    def log_end(self, broker: int) -> int | str:
        error, offset, _ = self.offsets(broker, -1, True)
        return offset if error == "NONE" else error

    def reassignment(self) -> tuple[list[int], list[int]]:
        kind = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics
        wanted = [kind(name=self._topic, partition_indexes=[0])]
        answer = self._ask(OBSERVER, ListPartitionReassignmentsRequest(timeout_ms=DEADLINE_MS, topics=wanted), 0)
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
            topic_data=[kind(name=self._topic, partition_data=data)],
        )
        # Up to version 12 topics go by name.
        return _named(self._ask(broker, request, 9).responses[0].partition_responses[0].error_code)

    def offsets(self, broker: int, epoch: int, debugging: bool) -> tuple[str, int, int]:
        kind = ListOffsetsRequest.ListOffsetsTopic
        wanted = kind.ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=DEBUGGER if debugging else CONSUMER,
            isolation_level=0,
            topics=[kind(name=self._topic, partitions=[wanted])],
        )
        told = self._ask(broker, request, 9).topics[0].partitions[0]
        return _named(told.error_code), told.offset, told.leader_epoch

    def elect(self, preferred: bool, topic: str) -> str:
        name = self._topic if topic == TOPIC else topic
        wanted = [ElectLeadersRequest.TopicPartitions(topic=name, partitions=[0])]
        request = ElectLeadersRequest(
            election_type=0 if preferred else 1, topic_partitions=wanted, timeout_ms=DEADLINE_MS
        )
        answer = self._ask(OBSERVER, request, 2)
        accept("ElectLeaders", answer.error_code)
        return _named(answer.replica_election_results[0].partition_result[0].error_code)

    def reassign(self, replicas: Sequence[int] | None, same_count: bool) -> str:
        kind = AlterPartitionReassignmentsRequest.ReassignableTopic
        target = None if replicas is None else list(replicas)
        wanted = [kind(name=self._topic, partitions=[kind.ReassignablePartition(partition_index=0, replicas=target)])]
        request = AlterPartitionReassignmentsRequest(timeout_ms=DEADLINE_MS, topics=wanted)
        if same_count:
            request.allow_replication_factor_change = False
        # Version 0 has no such field, and allows it.
        answer = self._ask(OBSERVER, request, 1 if same_count else 0)
        accept("AlterPartitionReassignments", answer.error_code)
        return _named(answer.responses[0].partitions[0].error_code)

    def _ask(self, broker: int, request: Any, version: int) -> Any:
        with Connection(self.kafka.address(broker), deadline=DEADLINE_MS / 1000 + 5) as node:
            return node.ask(request, version)


def _named(code: int) -> str:
    try:
        return Error(code).name
    except ValueError:
        return f"error {code}"
