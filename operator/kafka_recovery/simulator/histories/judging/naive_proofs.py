"""What a history proves of a candidate, worked out a second time from docs/explanation/guarantees.md, offset by offset.

It shares nothing with `decision`: logs are sets of records here, and nothing is computed from vectors but which epoch
each offset was written under.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.history import BrokerStart, HistoryStep, PartitionHistory
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass

Records = frozenset[tuple[int, int]]
"""Each offset that a log still holds, and the leader epoch that it was written under."""

Cost = tuple[int, float]
"""Smaller is better: the class, then the bound."""

UNKNOWN: Cost = (2, float("inf"))
_CLASSES: Mapping[LossClass, int] = {LossClass.LOSSLESS: 0, LossClass.BOUNDED: 1, LossClass.UNKNOWN: 2}


def cost(candidate: Replica, partition: PartitionEvidence, cluster: ClusterState) -> Cost:
    """What it is proven to lose at most if this replica, which follows no older leader, leads; by local logs."""
    history, log = partition.history, candidate.log
    if history is None or log is None or not _whole(history, partition, cluster) or _led_uncleanly(history):
        return UNKNOWN
    intact = [replica for replica in partition.replicas if _intact(replica, partition, history, cluster)]
    proven = _proven(candidate, log, intact, history)
    seen_beyond = max((witness.end - log.end for witness in partition.witnessed_ends), default=0)
    if seen_beyond > proven[1]:
        return UNKNOWN  # somebody saw more of it than is said to be lost at most
    cap = history.transaction_log
    return proven if cap is None or _CLASSES[cap] <= proven[0] else (_CLASSES[cap], float("inf"))


def _proven(candidate: Replica, log: ReplicaLog, intact: Sequence[Replica], history: PartitionHistory) -> Cost:
    """Of each copy that was never missed, and so has all of it, what does the candidate not have?"""
    if any(other.log is not None and _contradict(log, other.log) for other in intact):
        return UNKNOWN
    never_missed = _elr(history.steps)
    copies = {replica.broker: replica.log for replica in intact if replica.broker in never_missed}
    if candidate.broker in copies:
        return (0, 0)
    held = records(log)
    costs = [UNKNOWN]
    for other in copies.values():
        if log.epochs is not None and other is not None and other.epochs is not None:
            missed = records(other) - held
            costs.append((1 if missed or log.end < other.end else 0, len(missed)))
    return min(costs)


def records(log: ReplicaLog) -> Records:
    """What stands before the first entry of the vector counts as under it."""
    return frozenset((offset, _under(log, offset)) for offset in range(log.start, log.end))


def _under(log: ReplicaLog, offset: int) -> int:
    entries = log.epochs or ()
    return max((epoch for epoch, start in entries if start <= offset), default=entries[0].epoch if entries else -1)


def _contradict(one: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether they agree on a record after one that they do not agree on: no two logs of one Kafka do."""
    ours, theirs = dict(records(one)), dict(records(other))
    both = sorted(ours.keys() & theirs.keys())
    agree = [ours[offset] == theirs[offset] for offset in both]
    return agree != sorted(agree, reverse=True)


def _whole(history: PartitionHistory, partition: PartitionEvidence, cluster: ClusterState) -> bool:
    """Whether it tells all from a moment at which everybody was in sync up to what the look showed."""
    assigned = {replica.broker for replica in partition.replicas}
    if not history.steps or history.topic_id != partition.topic_id:
        return False
    first, last = history.steps[0], history.steps[-1]
    up_to_now = cluster.as_of is not None and history.as_of >= cluster.as_of
    same = last.leader_epoch == partition.leader_epoch and set(last.isr) == set(partition.isr)
    return up_to_now and same and set(first.isr) == assigned and all(set(s.replicas) == assigned for s in history.steps)


def _led_uncleanly(history: PartitionHistory) -> bool:
    """Whether anybody led in it who may have lacked something."""
    for place, (before, after) in enumerate(pairwise(history.steps), 1):
        if after.leader is not None and after.leader_epoch != before.leader_epoch:
            was_clean = after.leader in _elr(history.steps[:place])
            if not was_clean or not _kept_all(after.leader, history.steps[:place], history.starts, after.since):
                return True
    return any(step.recovering for step in history.steps)


def _intact(replica: Replica, partition: PartitionEvidence, history: PartitionHistory, cluster: ClusterState) -> bool:
    """Whether it has all that it had when it was last in sync, and answered as the process that the history knows."""
    if replica.log is None or replica.log.answered_under != partition.leader_epoch:
        return False
    known = [start.epoch for start in history.starts if start.broker == replica.broker]
    told = [broker.epoch for broker in cluster.brokers if broker.id == replica.broker and broker.epoch is not None]
    if told and told[0] != max(known, default=None):
        return False
    applied = {broker.id: broker.metadata_offset for broker in cluster.brokers}.get(replica.broker)
    if applied is None and not told:
        return False
    if applied is not None and applied > history.as_of:
        return False
    watermarks = [each.log.high_watermark for each in partition.replicas if each.log is not None]
    if max((mark for mark in watermarks if mark is not None), default=0) > replica.log.end:
        return False
    return _kept_all(replica.broker, history.steps, history.starts, history.as_of)


def _kept_all(broker: BrokerId, steps: Sequence[HistoryStep], starts: Sequence[BrokerStart], until: int) -> bool:
    """Whether each process that began since it joined found what the one before had written."""
    joined, member = -1, False
    for step in steps:
        stays = broker in step.isr or (member and broker in (step.elr or ()))
        joined, member = (step.since if stays and not member else joined), stays
    own = sorted((start for start in starts if start.broker == broker and start.epoch <= until), key=lambda s: s.epoch)
    if joined < 0 or not own or own[0].epoch > joined:
        return False
    return all(_found_it(before, after) for before, after in pairwise(own) if after.epoch > joined)


def _found_it(before: BrokerStart, after: BrokerStart) -> bool:
    same = [
        None if None in (was, now) else was == now
        for was, now in (
            (before.directory, after.directory), (before.volume, after.volume), (before.boot, after.boot)
        )
    ]  # fmt: skip
    if False in same[:2]:
        return False
    goes_on = after.incarnation is not None and after.incarnation == before.incarnation
    return bool(after.stopped_cleanly) or goes_on or same == [True, True, True]


def _elr(steps: Sequence[HistoryStep]) -> set[BrokerId]:
    """Who is in the ISR, or left it when nothing could be acknowledged without it any more (KIP-966)."""
    waiting: set[BrokerId] = set()
    for before, after in pairwise(steps):
        lowest = min(before.min_isr, after.min_isr, len(after.replicas))
        waiting = set() if len(after.isr) >= lowest else (waiting | set(before.isr)) - set(after.isr)
    return waiting | set(steps[-1].isr)
