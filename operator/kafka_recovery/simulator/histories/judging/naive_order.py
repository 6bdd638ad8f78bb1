"""Who may be elected, worked out a second time, slowly, from the words of docs/explanation/decision-rules.md alone.

It shares nothing with `decision`: every log is spread out offset by offset, every pair of replicas is compared. An
error would have to be made twice, in two ways, to stay unseen. What a history proves is worked out in `naive_proofs`.
"""

from __future__ import annotations

import math

from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import CandidateOrder
from kafka_recovery.simulator.histories.judging.naive_proofs import cost

NOTHING_WRITTEN = -1


def firsts(partition: PartitionEvidence, cluster: ClusterState, order: CandidateOrder) -> frozenset[BrokerId]:
    """The replicas that may be elected: the best one, and those that hold exactly the same."""
    candidates = [replica for replica in partition.replicas if _eligible(replica, partition, cluster, order)]
    for best in candidates:
        if all(other is best or _beats(best, other, partition, cluster, order) for other in candidates):
            return frozenset(other.broker for other in candidates if _same(best, other))
    return frozenset()


def best_first_of(partition: PartitionEvidence, cluster: ClusterState, order: CandidateOrder) -> tuple[BrokerId, ...]:
    """All replicas that may be elected, the best one first."""
    candidates = [replica for replica in partition.replicas if _eligible(replica, partition, cluster, order)]
    better = {
        one.broker: sum(_beats(one, other, partition, cluster, order) for other in candidates if other is not one)
        for one in candidates
    }
    return tuple(sorted(better, key=lambda broker: better[broker], reverse=True))


def _eligible(replica: Replica, partition: PartitionEvidence, cluster: ClusterState, order: CandidateOrder) -> bool:
    found = [broker for broker in cluster.brokers if broker.id == replica.broker]
    if len(found) != 1:
        return False
    broker, log = found[0], replica.log
    if broker.registered is not True or broker.fenced or broker.stopping or not broker.reachable:
        return False
    if broker.metadata_advances is not True or log is None or log.answered_under != partition.leader_epoch:
        return False
    if replica.problem is not None and replica.problem.code == "LogDirOffline":
        return False
    return order is CandidateOrder.LONGEST_LOG or log.epochs is not None


def _beats(
    one: Replica, other: Replica, partition: PartitionEvidence, cluster: ClusterState, order: CandidateOrder
) -> bool:
    assert one.log is not None
    assert other.log is not None
    if order is CandidateOrder.LEAST_LOSS:
        costs = cost(one, partition, cluster), cost(other, partition, cluster)
        if costs[0] != costs[1]:
            return costs[0] < costs[1]
    epochs = (_epoch_of_last(one.log), _epoch_of_last(other.log))
    ends = (one.log.end, other.log.end)
    pairs = (ends, epochs) if order is CandidateOrder.LONGEST_LOG else (epochs, ends)
    for ours, theirs in pairs:
        if ours != theirs:
            return ours > theirs
    if one.log.almost_full != other.log.almost_full:
        return other.log.almost_full
    if one.log.local_start != other.log.local_start:
        return _begins_locally(one.log) < _begins_locally(other.log)
    return partition.assignment.index(one.broker) < partition.assignment.index(other.broker)


def _same(one: Replica, other: Replica) -> bool:
    if one is other:
        return True
    if one.log is None or other.log is None or one.log.epochs is None or other.log.epochs is None:
        return False
    if (one.log.local_start, one.log.almost_full) != (other.log.local_start, other.log.almost_full):
        return False
    return (one.log.start, one.log.end, _spread(one.log)) == (other.log.start, other.log.end, _spread(other.log))


def _begins_locally(log: ReplicaLog) -> float:
    """Where a tiered topic's log begins on its broker's disk; not known ranks last."""
    return math.inf if log.local_start is None else log.local_start


def _spread(log: ReplicaLog) -> list[int]:
    """The leader epoch of each offset that is still there; what stands before the first entry counts as under it."""
    return [_under(log, offset) for offset in range(log.start, log.end)]


def _under(log: ReplicaLog, offset: int) -> int:
    assert log.epochs is not None
    under: int = log.epochs[0].epoch if log.epochs else NOTHING_WRITTEN
    for epoch, start in log.epochs:
        if start <= offset:
            under = epoch
    return under


def _epoch_of_last(log: ReplicaLog) -> int:
    """Epoch of the last record, also where retention removed it; below all: the log never held any."""
    if log.epochs is None:
        return -2  # unknown ranks last
    return _under(log, log.end - 1) if log.end > 0 else NOTHING_WRITTEN
