"""Changing topics and moving records: what a test does to a cluster as any client or administrator would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from confluent_kafka import KafkaError as DeliveryError
from confluent_kafka import Message as Delivered
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # re-exported without saying so
from kafka.errors import for_code
from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest

from testbed.wire import Connection, accept

ADMIN_DEADLINE = 60.0
UNCLEAN = 1

Setting = str | int | float | bool


def client(bootstrap: str, **properties: Setting) -> dict[str, Setting]:
    """A librdkafka configuration; `properties` with underscores for dots.

    Without its log: it writes every broken connection to standard error, and here they break on purpose.
    """
    fixed: dict[str, Setting] = {"bootstrap.servers": bootstrap, "log_level": 0}
    return fixed | {name.replace("_", "."): value for name, value in properties.items()}


def create(bootstrap: str, name: str, assignments: Sequence[Sequence[int]], configs: Mapping[str, str]) -> None:
    """A topic with exactly these replicas, a list per partition, preferred leader first; KafkaException if refused."""
    topic = NewTopic(name, len(assignments), replica_assignment=[list(a) for a in assignments], config=dict(configs))
    admin = AdminClient(client(bootstrap))  # held until the answer is there: when it goes, so does what it has asked
    admin.create_topics([topic], request_timeout=ADMIN_DEADLINE)[name].result()


def delete(bootstrap: str, name: str) -> None:
    """KafkaException if refused."""
    admin = AdminClient(client(bootstrap))
    admin.delete_topics([name], request_timeout=ADMIN_DEADLINE)[name].result()


def produce(
    bootstrap: str, topic: str, partitions: Iterable[int], count: int, label: str, acks: str, patience: float
) -> dict[int, list[str]]:
    """Writes `label-0`, `label-1`... to each partition; returns what was acknowledged within `patience` seconds."""
    acknowledged: dict[int, list[str]] = {partition: [] for partition in partitions}

    def note(partition: int, value: str, error: DeliveryError | None, _: Delivered) -> None:
        if error is None:
            acknowledged[partition].append(value)

    milliseconds = round(patience * 1000)
    producer = Producer(
        client(
            bootstrap, acks=acks, linger_ms=5, message_timeout_ms=milliseconds, topic_metadata_refresh_interval_ms=500
        )
    )
    for number in range(count):
        for partition in acknowledged:
            value = f"{label}-{number}"
            producer.produce(topic, value, partition=partition, on_delivery=partial(note, partition, value))
        producer.poll(0)
    producer.flush(patience + 5)
    return acknowledged


def reassign(address: str, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
    """New replicas per partition, in this order; Refused for the first that is refused."""
    kind = AlterPartitionReassignmentsRequest.ReassignableTopic
    partitions = [kind.ReassignablePartition(partition_index=p, replicas=list(order)) for p, order in replicas.items()]
    with Connection(address, deadline=ADMIN_DEADLINE + 5) as broker:
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=round(ADMIN_DEADLINE * 1000), topics=[kind(name=topic, partitions=partitions)]
        )
        answer = broker.ask(request, 0)
    accept("AlterPartitionReassignments", answer.error_code)
    for told in answer.responses:
        for part in told.partitions:
            accept(f"AlterPartitionReassignments of {topic}-{part.partition_index}", part.error_code)


def elect_uncleanly(address: str, topic: str, partitions: Iterable[int]) -> dict[int, str]:
    """A plain unclean election of these partitions; per partition Kafka's answer, `NoError` when it elected one."""
    # Named one by one: the list left out would elect every offline partition of the cluster.
    wanted = [ElectLeadersRequest.TopicPartitions(topic=topic, partitions=list(partitions))]
    with Connection(address, deadline=ADMIN_DEADLINE + 5) as broker:
        request = ElectLeadersRequest(
            election_type=UNCLEAN, topic_partitions=wanted, timeout_ms=round(ADMIN_DEADLINE * 1000)
        )
        answer = broker.ask(request, 2)
    accept("ElectLeaders", answer.error_code)
    results = (part for told in answer.replica_election_results for part in told.partition_result)
    return {part.partition_id: for_code(part.error_code).__name__ for part in results}
