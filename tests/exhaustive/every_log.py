"""Every log of so many offsets and epochs that a broker can hold, and every answer that it can give about one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import combinations_with_replacement

from kafka_recovery.domain.evidence import EpochEntry, EpochVector, ReplicaLog
from kafka_recovery.domain.ids import LeaderEpoch, Offset

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
CURRENT = LeaderEpoch(7)
EPOCHS = (1, 2, 3)


def measured(start: int, end: int, epochs: EpochVector | None) -> ReplicaLog:
    """As a broker that knows the current epoch answers, just now."""
    return ReplicaLog(Offset(start), Offset(end), epochs, None, CURRENT, NOW, timedelta(milliseconds=1))


def every_log(longest: int) -> list[ReplicaLog]:
    """Ends up to `longest`, each with every start, every vector, and with a vector that could not be read."""
    return [
        measured(start, end, vector)
        for end in range(longest + 1)
        for start in range(end + 1)
        for vector in (*dict.fromkeys(_vectors(start, end)), None)
    ]


def _vectors(start: int, end: int) -> Iterator[EpochVector]:
    """Who wrote each record that is left; a leader that came later and wrote nothing; what retention left of others."""
    if start == end:
        yield ()
    for written in combinations_with_replacement(EPOCHS, end - start):
        entries = [(epoch, start + written.index(epoch)) for epoch in sorted(set(written))]
        yield _vector(entries)
        for fresh in EPOCHS:
            if not written or fresh > written[-1]:
                yield _vector([*entries, (fresh, end)])


def _vector(entries: list[tuple[int, int]]) -> EpochVector:
    return tuple(EpochEntry(LeaderEpoch(epoch), Offset(start)) for epoch, start in entries)
