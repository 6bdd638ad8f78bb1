"""Changing topics and moving records: what a test does to a cluster as any client or administrator would."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from confluent_kafka import KafkaError as DeliveryError
from confluent_kafka import Message as Delivered
from confluent_kafka import Producer
from kafka.errors import for_code
from kafka.protocol.admin import (
    AlterPartitionReassignmentsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
)

from testbed.wire import ADMIN_DEADLINE, ADMIN_DEADLINE_MS, Connection, accept

UNCLEAN = 1
UNKNOWN_TOPIC = 3
TOPIC, BROKER = 2, 4
SET, REMOVE = 0, 1

Setting = str | int | float | bool


def client(bootstrap: str, **properties: Setting) -> dict[str, Setting]:
    """A librdkafka configuration; `properties` with underscores for dots.

    Without its log: it writes every broken connection to standard error, and here they break on purpose.
    """
    fixed: dict[str, Setting] = {"bootstrap.servers": bootstrap, "log_level": 0}
    return fixed | {name.replace("_", "."): value for name, value in properties.items()}


def create(address: str, name: str, assignments: Sequence[Sequence[int]], configs: Mapping[str, str]) -> None:
    """A topic with exactly these replicas, a list per partition, preferred leader first; Refused if it is."""
    kind = CreateTopicsRequest.CreatableTopic
    topic = kind(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[
            kind.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
            for index, replicas in enumerate(assignments)
        ],
        configs=[kind.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    with Connection(address, ADMIN_DEADLINE) as broker:
        answer = broker.ask(CreateTopicsRequest(topics=[topic], timeout_ms=ADMIN_DEADLINE_MS, validate_only=False), 5)
    accept(f"CreateTopics of {name}", answer.topics[0].error_code)


def delete(address: str, *names: str) -> None:
    """Refused for the first that is; what is gone already is no matter."""
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=ADMIN_DEADLINE_MS)
    with Connection(address, ADMIN_DEADLINE) as broker:
        answer = broker.ask(request, 5)
    for deleted in answer.responses:
        if deleted.error_code != UNKNOWN_TOPIC:
            accept(f"DeleteTopics of {deleted.name}", deleted.error_code)


def configure(address: str, name: str, key: str, value: str | None, *, kind: int = TOPIC) -> None:
    """Sets one config of the topic, or removes it (None); Refused if it is. For other resources than topics: `kind`.

    The broker that is asked checks it, against what it is itself.
    """
    resources = IncrementalAlterConfigsRequest.AlterConfigsResource
    change = resources.AlterableConfig(name=key, config_operation=SET if value is not None else REMOVE, value=value)
    resource = resources(resource_type=kind, resource_name=name, configs=[change])
    with Connection(address, ADMIN_DEADLINE) as broker:
        answer = broker.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    accept(f"IncrementalAlterConfigs of {name}", answer.responses[0].error_code)


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
    with Connection(address, ADMIN_DEADLINE) as broker:
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=ADMIN_DEADLINE_MS, topics=[kind(name=topic, partitions=partitions)]
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
    with Connection(address, ADMIN_DEADLINE) as broker:
        request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=wanted, timeout_ms=ADMIN_DEADLINE_MS)
        answer = broker.ask(request, 2)
    accept("ElectLeaders", answer.error_code)
    results = (part for told in answer.replica_election_results for part in told.partition_result)
    return {part.partition_id: for_code(part.error_code).__name__ for part in results}
