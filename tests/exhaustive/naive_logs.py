"""What two logs have in common, offset by offset: every log is spread out, every pair of records is compared."""

from __future__ import annotations

from kafka_recovery.domain.evidence import ReplicaLog

NEVER_WRITTEN = -1


def under(log: ReplicaLog, offset: int) -> int:
    """The leader epoch in which an offset was written; what stands before the first entry is no newer than that."""
    assert log.epochs is not None
    epoch: int = log.epochs[0].epoch if log.epochs else NEVER_WRITTEN
    for entry in log.epochs:
        if entry.start <= offset:
            epoch = entry.epoch
    return epoch


def same_records(one: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether both hold the same records and nothing else; of an unknown vector nobody can say so."""
    if one.epochs is None or other.epochs is None or (one.start, one.end) != (other.start, other.end):
        return False
    return all(under(one, offset) == under(other, offset) for offset in range(one.start, one.end))


def lacking(chosen: ReplicaLog, other: ReplicaLog) -> list[int]:
    """The offsets of `other` that `chosen` does not hold, or holds with another record, or above such a record.

    If a vector is unknown, only those that `chosen` has no record at.
    """
    held = range(chosen.start, chosen.end)
    known = chosen.epochs is not None and other.epochs is not None
    parted, lacked = False, []
    for offset in range(other.start, other.end):
        parted = parted or (known and offset in held and under(chosen, offset) != under(other, offset))
        if parted or offset not in held:
            lacked.append(offset)
    return lacked


def contradict(one: ReplicaLog, other: ReplicaLog) -> bool:
    """Whether they can't both be true: an epoch has one leader, so whoever knows it has its beginning and all below."""
    if one.epochs is None or other.epochs is None:
        return False
    both = range(max(one.start, other.start), min(one.end, other.end))
    for epoch, start in one.epochs:
        for its_start in (entry.start for entry in other.epochs if entry.epoch == epoch):
            if (start < its_start > other.start) or (its_start < start > one.start):
                return True  # retention moves a beginning to the start of the log, nothing else moves one
            if any(under(one, offset) != under(other, offset) for offset in both if offset < max(start, its_start)):
                return True
    return False
