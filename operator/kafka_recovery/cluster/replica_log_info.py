"""Where logs end by GetReplicaLogInfo (KIP-1275), and the broker's epoch with it.

A broker that registers anew gets another epoch (KIP-903): what it said before is then about another incarnation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_recovery.cluster.broker_reader import BrokerReader
from kafka_recovery.cluster.errors import BrokerRestarted, InvalidAnswer
from kafka_recovery.cluster.kip_1275 import PARTITIONS_A_REQUEST, replica_log_info
from kafka_recovery.cluster.metadata import PartitionState, by_topic, topic_id_text, topic_uuid
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.ids import BrokerEpoch, LeaderEpoch, TopicId, TopicPartition

VERSIONS = (0, 0)
_NONE = 0


def offers_log_info(versions: ApiVersions, key: int | None) -> bool:
    """Whether GetReplicaLogInfo may be sent to a broker with these versions, if `key` is its number there."""
    offered = None if key is None else versions.range_of(key)
    return offered is not None and offered[0] <= VERSIONS[0] <= offered[1]


class LogInfo(NamedTuple):
    """One replica. `leader_epoch` is the partition's current one as the broker knows it, not the last record's."""

    error_code: int
    leader_epoch: LeaderEpoch
    offset: int


@dataclass(slots=True)
class ReplicaLogInfo:
    """GetReplicaLogInfo at one broker. `epoch`: the broker's, once it has answered."""

    key: int
    epoch: BrokerEpoch | None = field(default=None, init=False)

    async def ask(self, reader: BrokerReader, states: Iterable[PartitionState]) -> Mapping[TopicPartition, LogInfo]:
        """Of each replica that the broker does not leave out. Raises BrokerRestarted if its epoch changed meanwhile."""
        found: dict[TopicPartition, LogInfo] = {}
        rest = sorted(states, key=lambda state: state.id)
        while rest:
            batch = rest[:PARTITIONS_A_REQUEST]
            told, more = await self._batch(reader, batch)
            found |= told
            left_out = [state for state in batch if state.id not in told] if more and told else []
            rest = left_out + rest[PARTITIONS_A_REQUEST:]
        return found

    async def _batch(
        self, reader: BrokerReader, states: Sequence[PartitionState]
    ) -> tuple[dict[TopicPartition, LogInfo], bool]:
        """What the broker tells of these, and whether it has more to tell."""
        make, _ = replica_log_info(self.key)
        topic_ids = {state.id.topic: state.topic_id for state in states}
        topics = [
            make.TopicPartitions(topic_id=topic_uuid(topic_ids[name]), partitions=indexes)
            for name, indexes in by_topic(state.id for state in states).items()
        ]
        answer = await reader.ask(make(topic_partitions=topics), versions=VERSIONS)
        self._same(reader, BrokerEpoch(answer.broker_epoch))
        names = {topic_id: name for name, topic_id in topic_ids.items()}
        return _read(reader, answer, names, {state.id for state in states}), bool(answer.has_more_data)

    def _same(self, reader: BrokerReader, epoch: BrokerEpoch) -> None:
        if epoch < 0:
            raise InvalidAnswer(reader.at, f"GetReplicaLogInfo told the broker epoch {epoch}, which no broker has")
        if self.epoch not in (None, epoch):
            raise BrokerRestarted(reader.at, self.epoch, epoch)
        self.epoch = epoch


def _read(
    reader: BrokerReader, answer: Any, names: Mapping[TopicId, str], asked: set[TopicPartition]
) -> dict[TopicPartition, LogInfo]:
    found: dict[TopicPartition, LogInfo] = {}
    for topic in answer.topic_partition_log_info_list:
        name = names.get(topic_id_text(topic.topic_id), "")
        for part in topic.partition_log_info:
            id = TopicPartition(name, part.partition)
            impossible = part.error_code == _NONE and (part.log_end_offset < 0 or part.partition_leader_epoch < 0)
            if id not in asked or id in found or impossible:
                where = f"partition {part.partition} of topic {topic_id_text(topic.topic_id)}"
                told = f"log end {part.log_end_offset} in leader epoch {part.partition_leader_epoch}"
                raise InvalidAnswer(reader.at, f"GetReplicaLogInfo gave {where} {told}: not asked, twice or impossible")
            found[id] = LogInfo(part.error_code, LeaderEpoch(part.partition_leader_epoch), part.log_end_offset)
    return found
