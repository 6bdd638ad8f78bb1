"""Asking one broker several things within one deadline: what ListOffsets tells of its logs, and which it leads.

Who asks as a consumer is answered by leaders only, with the high watermark; who asks as a debugging consumer, by any
replica, with its log end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from kafka.protocol.consumer import ListOffsetsRequest

from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.codec import structure
from kafka_recovery.cluster.errors import InvalidAnswer
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
CONSUMER, DEBUGGING_CONSUMER = -1, -2
ANY_EPOCH = LeaderEpoch(-1)

_NONE, _OFFSET_NOT_AVAILABLE = 0, 78
_LEADS = frozenset({_NONE, _OFFSET_NOT_AVAILABLE})
"""What only a leader answers a consumer. OFFSET_NOT_AVAILABLE: its high watermark has not reached the start of its
epoch (KIP-207), and does not while the ISR is below min.insync.replicas (KAFKA-15583)."""

_VERSIONS = (7, 11)
_topic = structure(ListOffsetsRequest.ListOffsetsTopic, "name", "partitions")
_question = structure(
    ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition, "partition_index", "current_leader_epoch", "timestamp"
)


@dataclass(frozen=True, slots=True)
class BrokerReader:
    """One broker that is asked until `until` (monotonic seconds). Every method raises ClusterError as `Brokers.ask`.

    AnotherBroker too: nothing that another broker says is taken for this one's.
    """

    brokers: Brokers
    broker: BrokerId
    at: Address
    until: float

    @classmethod
    def lasting(cls, duration: timedelta, brokers: Brokers, broker: BrokerId, at: Address) -> Self:
        """One that begins now."""
        return cls(brokers, broker, at, loop_time() + duration.total_seconds())

    async def ask(self, request: Any, versions: tuple[int, int]) -> Any:
        """The answer to one request, if it comes in what is left of the time."""
        left = max(0, math.ceil((self.until - loop_time()) * 1000))
        within = timedelta(milliseconds=left)
        return await self.brokers.ask(self.at, request, versions, within, of=self.broker)

    async def led(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LeaderEpoch]:
        """Those that the broker answers for as leader, and its epoch; ANY_EPOCH where it leads and does not say."""
        asked = dict.fromkeys(partitions, ANY_EPOCH)
        answers = await self.list_offsets(asked, LATEST, CONSUMER)
        return {id: LeaderEpoch(said.leader_epoch) for id, said in answers.items() if said.error_code in _LEADS}

    async def leading(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[LeaderEpoch, Offset]]:
        """Leader epoch and log end of those that the broker answers for as leader.

        The second question holds the leader to the epoch of its first answer. OFFSET_NOT_AVAILABLE carries none: there
        the epoch comes with the log end, and a third question asks whether the broker leads in that one.
        """
        led = await self.led(partitions)
        answers = await self.list_offsets(led, LATEST, DEBUGGING_CONSUMER)
        ends = {id: said for id, said in answers.items() if said.error_code == _NONE}
        nameless = {id: LeaderEpoch(said.leader_epoch) for id, said in ends.items() if led[id] == ANY_EPOCH}
        confirmed = await self.list_offsets(nameless, LATEST, CONSUMER)
        return {
            id: (LeaderEpoch(said.leader_epoch), Offset(said.offset))
            for id, said in ends.items()
            if id not in nameless or (id in confirmed and confirmed[id].error_code in _LEADS)
        }

    async def list_offsets(
        self, epochs: Mapping[TopicPartition, LeaderEpoch], timestamp: int, replica_id: int
    ) -> Mapping[TopicPartition, Any]:
        """One ListOffsets for all; checked: only what was asked, nothing twice, no impossible offset."""
        if not epochs:
            return {}
        topics: dict[str, dict[int, TopicPartition]] = {}
        for id in sorted(epochs):
            topics.setdefault(id.topic, {})[id.partition] = id
        asked = [
            _topic(name, [_question(index, epochs[id], timestamp) for index, id in ids.items()])
            for name, ids in topics.items()
        ]
        answer = await self.ask(
            ListOffsetsRequest(replica_id=replica_id, isolation_level=0, topics=asked), versions=_VERSIONS
        )
        found: dict[TopicPartition, Any] = {}
        for entry in answer.topics:
            left = topics.get(entry.name, {})
            for part in entry.partitions:
                about = left.pop(part.partition_index, None)
                if about is None or (part.error_code == _NONE and part.offset < -1):
                    what = f"{entry.name}-{part.partition_index} offset {part.offset}"
                    raise InvalidAnswer(self.at, f"ListOffsets gave {what}: not asked, twice or impossible")
                found[about] = part
        return found
