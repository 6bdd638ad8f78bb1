"""A small model of Kafka's replication: what logs look like after any order of elections, fetches and crashes.

Every log is kept whole, as the epoch of each offset, so that the truth is there to compare with: two logs are the same
up to where their epochs first differ. Each copy also keeps its leader-epoch cache, as a broker does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from kafka_recovery.domain.evidence import EpochEntry, ReplicaLog
from kafka_recovery.domain.ids import LeaderEpoch, Offset

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@dataclass
class Copy:
    """One replica's log. `records` holds every epoch ever at an offset, `start` is where retention has come to."""

    records: list[int] = field(default_factory=list)
    start: int = 0
    cache: list[tuple[int, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, epoch: int) -> None:
        self.note(epoch)
        self.records.append(epoch)

    def note(self, epoch: int) -> None:
        """LeaderEpochFileCache.assign: an entry drops those that begin where it does."""
        if not self.cache or self.cache[-1][0] < epoch:
            self.cache = [entry for entry in self.cache if entry[1] < self.end] + [(epoch, self.end)]

    def truncate(self, end: int) -> None:
        del self.records[end:]
        self.start = min(self.start, end)
        self.cache = [entry for entry in self.cache if entry[1] < end]

    def retain_from(self, start: int) -> None:
        """LeaderEpochFileCache.truncateFromStart: the entry that covers the new start moves there."""
        if start <= self.start:
            return
        self.start = start
        gone = [entry for entry in self.cache if entry[1] <= start]
        self.cache = [(gone[-1][0], start)] * bool(gone) + [entry for entry in self.cache if entry[1] > start]

    def restart_at(self, start: int, prefix: list[int]) -> None:
        """A follower that is behind the leader's start throws its log away and begins there."""
        self.records, self.start, self.cache = prefix[:start], start, []

    def measured(self) -> ReplicaLog:
        epochs = tuple(EpochEntry(LeaderEpoch(epoch), Offset(first)) for epoch, first in self.cache)
        return ReplicaLog(
            Offset(self.start), Offset(self.end), epochs, None, LeaderEpoch(99), NOON, timedelta(milliseconds=1)
        )


def same_up_to(one: Copy, other: Copy) -> int:
    """The truth: where both logs first differ, or the shorter one ends."""
    shorter = min(one.end, other.end)
    return next((o for o in range(shorter) if one.records[o] != other.records[o]), shorter)


def follow(follower: Copy, leader: Copy, records: int) -> None:
    """One fetch: truncate what differs (KIP-101), copy some records, take over the leader's log start."""
    follower.truncate(same_up_to(follower, leader))
    if follower.end < leader.start:
        follower.restart_at(leader.start, leader.records)
    for epoch in leader.records[follower.end : follower.end + records]:
        follower.append(epoch)
    follower.retain_from(min(leader.start, follower.end))


@dataclass
class Replication:
    """Some copies, a leader now and then; any of them may be elected, cleanly or not."""

    copies: list[Copy]
    epoch: int = 0
    leader: int = 0

    def elect(self, copy: int) -> None:
        self.epoch += 1
        self.leader = copy
        self.copies[copy].note(self.epoch)

    def write(self, records: int) -> None:
        for _ in range(records):
            self.copies[self.leader].append(self.epoch)

    def fetch(self, copy: int, records: int) -> None:
        if copy != self.leader:
            follow(self.copies[copy], self.copies[self.leader], records)

    def retain(self, records: int) -> None:
        leader = self.copies[self.leader]
        leader.retain_from(min(leader.start + records, leader.end))


Event = tuple[str, int, int]
EVENTS = ("elect", "write", "write", "fetch", "fetch", "fetch", "retain")


def replicate(copies: int, events: list[Event]) -> list[Copy]:
    """The copies after these events: what happens, to which copy, how much."""
    model = Replication([Copy() for _ in range(copies)])
    model.elect(0)
    for what, copy, much in events:
        if what == "elect":
            model.elect(copy % copies)
        elif what == "fetch":
            model.fetch(copy % copies, much)
        elif what == "write":
            model.write(much)
        else:
            model.retain(much)
    return model.copies
