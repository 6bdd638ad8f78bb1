"""Reader GetReplicaLogInfo (KIP-1275): where logs end, and the broker's epoch with it.

A broker that registers anew gets another epoch (KIP-903): what it said before is then about another incarnation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_recovery.cluster.broker_reader import BrokerReader
from kafka_recovery.cluster.errors import BrokerRestarted, InvalidAnswer
from kafka_recovery.cluster.kip_1275 import PARTITIONS_A_REQUEST, replica_log_info
from kafka_recovery.cluster.metadata import PartitionState, by_topic, topic_id_text, topic_uuid
from kafka_recovery.cluster.replica_readers import FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, LogEnd
from kafka_recovery.cluster.versions import ApiVersions
from kafka_recovery.domain.ids import BrokerEpoch, TopicPartition

VERSIONS = (0, 0)
_NONE = 0


def offers_log_info(versions: ApiVersions, key: int | None) -> bool:
    """Whether GetReplicaLogInfo may be sent to a broker with these versions, if `key` is its number there."""
    offered = None if key is None else versions.range_of(key)
    return offered is not None and offered[0] <= VERSIONS[0] <= offered[1]


@dataclass(slots=True)
class ReplicaLogInfo:
    """Port `ReplicaReader`, at one broker. `epoch`: the broker's, once it has answered."""

    key: int
    epoch: BrokerEpoch | None = field(default=None, init=False)
    asks = "GetReplicaLogInfo"

    def needs(self, topic: str) -> str:
        """See the port."""
        return f"CLUSTER_ACTION on the cluster, or DESCRIBE on topic {topic}"

    async def log_ends(
        self, reader: BrokerReader, states: Iterable[PartitionState], *, any_epoch: bool = False
    ) -> Mapping[TopicPartition, LogEnd]:
        """See the port. Raises BrokerRestarted if the broker's epoch changed meanwhile.

        The leader epoch that is told is the partition's current one as the broker knows it, not the last record's.
        """
        found: dict[TopicPartition, LogEnd] = {}
        rest = sorted(states, key=lambda state: state.id)
        while rest:
            batch = rest[:PARTITIONS_A_REQUEST]
            answer = await self._batch(reader, batch)
            told = _read(reader, answer, batch, any_epoch=any_epoch)
            found |= told
            left_out = [state for state in batch if state.id not in told] if answer.has_more_data and told else []
            rest = left_out + rest[PARTITIONS_A_REQUEST:]
        return found

    async def _batch(self, reader: BrokerReader, states: Sequence[PartitionState]) -> Any:
        make, _ = replica_log_info(self.key)
        topic_ids = {state.id.topic: state.topic_id for state in states}
        topics = [
            make.TopicPartitions(topic_id=topic_uuid(topic_ids[name]), partitions=indexes)
            for name, indexes in by_topic(state.id for state in states).items()
        ]
        answer = await reader.ask(make(topic_partitions=topics), versions=VERSIONS)
        self._same(reader, BrokerEpoch(answer.broker_epoch))
        return answer

    def _same(self, reader: BrokerReader, epoch: BrokerEpoch) -> None:
        if epoch < 0:
            raise InvalidAnswer(reader.at, f"GetReplicaLogInfo told the broker epoch {epoch}, which no broker has")
        if self.epoch not in (None, epoch):
            raise BrokerRestarted(reader.at, self.epoch, epoch)
        self.epoch = epoch


def _read(
    reader: BrokerReader, answer: Any, states: Iterable[PartitionState], *, any_epoch: bool
) -> dict[TopicPartition, LogEnd]:
    asked = {(state.topic_id, state.id.partition): state for state in states}
    found: dict[TopicPartition, LogEnd] = {}
    for topic in answer.topic_partition_log_info_list:
        topic_id = topic_id_text(topic.topic_id)
        for part in topic.partition_log_info:
            state = asked.get((topic_id, part.partition))
            impossible = part.error_code == _NONE and (part.log_end_offset < 0 or part.partition_leader_epoch < 0)
            if state is None or state.id in found or impossible:
                where = f"partition {part.partition} of topic {topic_id}"
                told = f"log end {part.log_end_offset} in leader epoch {part.partition_leader_epoch}"
                raise InvalidAnswer(reader.at, f"GetReplicaLogInfo gave {where} {told}: not asked, twice or impossible")
            found[state.id] = _log_end(part, part.partition_leader_epoch if any_epoch else state.leader_epoch)
    return found


def _log_end(part: Any, epoch: int) -> LogEnd:
    """The answer as a broker gives it that was asked under this leader epoch."""
    code = part.error_code
    if code == _NONE and part.partition_leader_epoch != epoch:
        code = UNKNOWN_LEADER_EPOCH if part.partition_leader_epoch < epoch else FENCED_LEADER_EPOCH
    return LogEnd(code, part.log_end_offset)
