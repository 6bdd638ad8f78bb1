"""What one broker says about topics and brokers, as dataclasses."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeClusterRequest, DescribeQuorumRequest, DescribeTopicPartitionsRequest
from kafka.protocol.metadata import MetadataRequest

from testbed.wire import Connection, accept

PAGE = 2000


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as its broker's metadata shows it.

    `leader` None: offline. `elr` and `last_known_elr` are empty where the cluster has no eligible leader replicas.
    """

    topic: str
    topic_id: uuid.UUID
    index: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]


def describe(address: str, topic: str) -> dict[int, PartitionState]:
    """All partitions of a topic by index; Refused if the broker does not know it."""
    found: dict[int, PartitionState] = {}
    cursor = None
    with Connection(address) as broker:
        while True:
            asked = [DescribeTopicPartitionsRequest.TopicRequest(name=topic)]
            request = DescribeTopicPartitionsRequest(topics=asked, response_partition_limit=PAGE, cursor=cursor)
            answer = broker.ask(request, 0)
            for told in answer.topics:
                accept(f"DescribeTopicPartitions of {topic}", told.error_code)
                found |= {p.partition_index: _state(topic, told.topic_id, p) for p in told.partitions}
            if (after := answer.next_cursor) is None:
                return found
            cursor = DescribeTopicPartitionsRequest.Cursor(
                topic_name=after.topic_name, partition_index=after.partition_index
            )


def topics(address: str) -> list[str]:
    """The names of all topics that the broker knows, in order."""
    with Connection(address) as broker:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        answer = broker.ask(request, 7)
    return sorted(topic.name for topic in answer.topics)


def _state(topic: str, topic_id: uuid.UUID, told: Any) -> PartitionState:
    return PartitionState(
        topic=topic,
        topic_id=topic_id,
        index=told.partition_index,
        leader=told.leader_id if told.leader_id >= 0 else None,
        leader_epoch=told.leader_epoch,
        replicas=tuple(told.replica_nodes),
        isr=tuple(told.isr_nodes),
        elr=tuple(told.eligible_leader_replicas or ()),
        last_known_elr=tuple(told.last_known_elr or ()),
    )


def unfenced(address: str) -> frozenset[int]:
    """The brokers that the cluster would let lead, as this broker sees it."""
    with Connection(address) as broker:
        version = broker.version(DescribeClusterRequest, at_most=2)
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False,
            endpoint_type=1,
            # Before version 2 (Kafka 4.0) fenced brokers are left out anyway.
            **({"include_fenced_brokers": True} if version >= 2 else {}),
        )
        answer = broker.ask(request, version)
    accept("DescribeCluster", answer.error_code)
    return frozenset(b.broker_id for b in answer.brokers if version < 2 or not b.is_fenced)


def applied(broker: str) -> int:
    """The offset of the last record in the metadata log that this broker has applied."""
    with Connection(broker) as node:
        return int(node.api_versions().finalized_features_epoch)


def committed(controller: str) -> int:
    """The offset of the last committed record in the metadata log, by the controller; Refused while it does not lead.

    Not by its ApiVersions: a controller's own offset there moves only when a feature does.
    """
    kind = DescribeQuorumRequest.TopicData
    log = kind(topic_name="__cluster_metadata", partitions=[kind.PartitionData(partition_index=0)])
    with Connection(controller) as node:
        answer = node.ask(DescribeQuorumRequest(topics=[log]), 1)
    accept("DescribeQuorum", answer.error_code)
    told = answer.topics[0].partitions[0]
    accept("DescribeQuorum", told.error_code)
    return int(told.high_watermark) - 1
