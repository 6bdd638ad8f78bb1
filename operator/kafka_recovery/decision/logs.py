"""Comparing two copies of a partition by their leader-epoch vectors.

An epoch has one leader, so all that was written under it comes from one log: two logs that both know epoch E are the
same up to where the shorter one's E ends (KAFKA-1211's leader generations, KIP-101's truncation rule). An epoch without
records (KAFKA-1211's "gap") ends where it begins, so it makes no difference.
"""

from __future__ import annotations

from kafka_recovery.domain.evidence import EpochEntry, EpochVector, ReplicaLog
from kafka_recovery.domain.ids import BrokerId, Offset
from kafka_recovery.domain.plan import Lack
from kafka_recovery.domain.quickly import made_quickly

NOTHING_SHARED = Offset(0)

_lack = made_quickly(Lack)


def common_point(one: ReplicaLog, other: ReplicaLog) -> Offset | None:
    """The largest offset up to which both logs are provably the same; None if a vector is unknown.

    0 if nothing is proven. What retention removed counts as the same if the vectors still prove it was.
    """
    ours, theirs = one.epochs, other.epochs
    if ours is None or theirs is None:
        return None
    if ours == theirs:
        known = ours or one.start == one.end == other.start == other.end
        end = one.end if one.end < other.end else other.end
        return end if known else NOTHING_SHARED
    return _shared_end(ours, one.end, theirs, other.end)


def _shared_end(ours: EpochVector, our_end: Offset, theirs: EpochVector, their_end: Offset) -> Offset:
    """Where the largest epoch that both logs know ends in the shorter one (KIP-101)."""
    i, j = len(ours) - 1, len(theirs) - 1
    while i >= 0 and j >= 0:
        mine, its = ours[i], theirs[j]
        if mine.epoch > its.epoch:
            our_end = min(our_end, mine.start)
            i -= 1
        elif its.epoch > mine.epoch:
            their_end = min(their_end, its.start)
            j -= 1
        else:
            return min(our_end, their_end)
    return NOTHING_SHARED


def lacks(chosen: ReplicaLog, other: ReplicaLog, broker: BrokerId) -> Lack | None:
    """Offsets of `broker`'s log `other` that the chosen log does not provably hold; None if there are none.

    If a vector is unknown, only the offsets that are certainly lacking: those outside of the chosen log.
    """
    common = common_point(chosen, other)
    if common is None:
        common = min(chosen.end, other.end)
    if common == other.end and chosen.start <= other.start:
        return None  # usual, and quick to see
    begins_late = chosen.start > other.start
    held = common - (chosen.start if begins_late else other.start)
    if held <= 0:
        held, begins_late = 0, True
    records = other.end - other.start - held
    return _lack(broker, other.start if begins_late else common, records) if records > 0 else None


def contains(chosen: ReplicaLog, other: ReplicaLog) -> bool | None:
    """Whether the chosen log provably holds the other's whole log and starts no later.

    None if a vector is unknown, or if they contradict each other: then one of them is false, and nothing is proven.
    """
    common = common_point(chosen, other)
    if common is None or contradict(chosen, other):
        return None
    return common == other.end and chosen.start <= other.start


def contradict(one: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether both hold a record of different epochs below the point up to which their vectors say they are the same.

    No two logs of one Kafka do: who knows an epoch has all that is below its beginning (KIP-101).
    """
    common = common_point(one, other)
    if common is None or one.epochs == other.epochs:
        return False
    begin = max(one.start, other.start)
    return _written(one, begin, common) != _written(other, begin, common)


def equal(one: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether both logs provably hold the same records; an unknown vector equals nothing.

    Stricter than the common point: every epoch with records must agree, so that evidence which contradicts itself never
    makes two logs interchangeable.
    """
    if one.end != other.end or one.start != other.start or common_point(one, other) != one.end:
        return False
    return one.epochs == other.epochs or not contradict(one, other)


def interchangeable(one: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether it makes no difference which of them leads: equal logs that begin at one offset on their disks.

    Where a topic is tiered one may hold locally what the other can only read from the remote tier (KIP-405). And one
    may have no room to lead.
    """
    as_on_disk = one.local_start == other.local_start and one.almost_full == other.almost_full
    return as_on_disk and equal(one, other)


def _written(log: ReplicaLog, begin: Offset, end: Offset) -> EpochVector:
    """The entries that hold records from `begin` on, before `end`."""
    epochs = log.epochs or ()
    ends = [*[entry.start for entry in epochs[1:]], log.end]
    held = [entry for entry, until in zip(epochs, ends, strict=False) if max(entry.start, begin) < min(until, end)]
    return tuple(EpochEntry(entry.epoch, max(entry.start, begin)) for entry in held)
