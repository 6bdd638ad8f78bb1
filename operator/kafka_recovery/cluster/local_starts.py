"""Where logs of tiered topics begin on their brokers' own disks (KIP-405): what is before that is in the remote tier.

Kafka tells it of any replica, also of one that was started again (ListOffsets, EARLIEST_LOCAL). Measured on Kafka 4.0.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafka_recovery.cluster.broker_reader import ANY_EPOCH, DEBUGGING_CONSUMER, EARLIEST_LOCAL, BrokerReader
from kafka_recovery.cluster.errors import ClusterError
from kafka_recovery.cluster.metadata import PartitionState
from kafka_recovery.cluster.replica_logs import LOG_ENDS_CONTRADICT, PARTITIONS_A_REQUEST
from kafka_recovery.cluster.together import together
from kafka_recovery.domain.evidence import PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.reason import Reason

Copies = Mapping[TopicPartition, Mapping[BrokerId, Replica]]
Asked = Mapping[TopicPartition, LeaderEpoch]
"""Copies of one broker, each with the leader epoch that it was measured under."""

Ask = Callable[[BrokerId, Asked], Coroutine[Any, Any, Mapping[TopicPartition, Offset]]]

_NONE = 0


async def local_starts(reader: BrokerReader, asked: Asked) -> Mapping[TopicPartition, Offset]:
    """What the broker tells of these copies; what it does not tell is unknown, and no error."""
    ids = sorted(asked)
    chunks = [ids[i : i + PARTITIONS_A_REQUEST] for i in range(0, len(ids), PARTITIONS_A_REQUEST)]
    try:
        answers = await together(
            *(
                reader.list_offsets({id: asked[id] for id in chunk}, EARLIEST_LOCAL, DEBUGGING_CONSUMER)
                for chunk in chunks
            )
        )
    except ClusterError:
        return {}
    told = {id: said for answer in answers for id, said in answer.items()}
    return {id: Offset(said.offset) for id, said in told.items() if said.error_code == _NONE and said.offset >= 0}


async def with_local_starts(
    tiered: Sequence[PartitionState],
    copies: Copies,
    known: Mapping[TopicPartition, PartitionEvidence],
    ask: Ask | None,
) -> Copies:
    """The same copies, those of tiered topics with their local starts; `ask` None: nobody is asked.

    Of a log that is as it was in `known` the start that was told then counts. Retention goes on while nobody leads, and
    no plan is to be made anew because one disk was cleaned before the other.
    """
    told: dict[BrokerId, dict[TopicPartition, Offset]] = {}
    wanted: dict[BrokerId, dict[TopicPartition, LeaderEpoch]] = {}
    for state in tiered:
        for broker, copy in copies[state.id].items():
            if copy.log is None:
                continue
            before = _told_before(state, broker, copy.log, known.get(state.id))
            if before is not None:
                told.setdefault(broker, {})[state.id] = before
            else:
                under = copy.log.answered_under
                wanted.setdefault(broker, {})[state.id] = ANY_EPOCH if under is None else under
    if ask is not None:
        answers = await together(*(ask(broker, asked) for broker, asked in wanted.items()))
        for broker, answer in zip(wanted, answers, strict=True):
            told.setdefault(broker, {}).update(answer)
    begun = {
        state.id: {
            broker: _begun(state, copy, told.get(broker, {}).get(state.id)) for broker, copy in copies[state.id].items()
        }
        for state in tiered
    }
    return {**copies, **begun}


def _told_before(
    state: PartitionState, broker: BrokerId, log: ReplicaLog, earlier: PartitionEvidence | None
) -> Offset | None:
    replica = earlier.replica(broker) if earlier is not None and earlier.topic_id == state.topic_id else None
    before = replica.log if replica is not None else None
    if before is None or log.answered_under != state.leader_epoch:
        return None
    same = (before.answered_under, before.end, before.epochs) == (log.answered_under, log.end, log.epochs)
    return before.local_start if same else None


def _begun(state: PartitionState, copy: Replica, told: Offset | None) -> Replica:
    """The copy with what its broker told; one that begins behind the end of a log at rest is not believed.

    DeleteRecords moves the log start at once, and the disk's own start when a segment goes: the later one counts.
    """
    log = copy.log
    if log is None or told is None:
        return copy
    if told <= log.end:
        return replace(copy, log=replace(log, local_start=max(told, log.start)))
    if state.leader is not None or log.answered_under is None:
        return copy  # it moved on between two answers
    said = f"the log of {state.id} begins at {told} on its disk and ends at {log.end}"
    return Replica(copy.broker, None, Reason(LOG_ENDS_CONTRADICT, f"broker {copy.broker} says that {said}"), copy.leads)
