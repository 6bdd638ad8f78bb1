"""What clients were promised of a partition, held against what they can read: the questions that Jepsen's workload for
Kafka (jepsen.tests.kafka) asks of a history. Pure.

A history is what was acknowledged to producers, and what consumers read, each from the beginning on. The last of them
read to the end after all that was acknowledged, and so has to have all of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple


class Record(NamedTuple):
    """A value at its offset. Producers write `PREFIX.NUMBER`: a prefix of their own, and numbers that rise by one."""

    offset: int
    value: str


@dataclass(frozen=True, slots=True)
class ClientHistory:
    """Of one partition. `reads`: those of one consumer each, in the order in which it got the records."""

    acknowledged: Sequence[Record]
    reads: Sequence[Sequence[Record]]

    @property
    def last_read(self) -> Sequence[Record]:
        return self.reads[-1]


class Anomaly(StrEnum):
    """What no history of a partition that lost nothing has, but for VANISHED."""

    LOST = "lost"
    """Acknowledged, and not in the last read, though that has an offset as late."""
    UNREAD = "unread"
    """Acknowledged, and the last read ends before it."""
    TWO_VALUES = "two values at one offset"
    """At least one of them was acknowledged, or both stand in the last read."""
    REPEATED = "at two offsets"
    """One value, which its producer sent once."""
    OUT_OF_ORDER = "out of order"
    """A consumer got an earlier offset after a later one, or acknowledged values in another order than they were sent.

    What was not acknowledged may stand anywhere: a broker that stood still may take a request after later ones.
    """
    SKIPPED = "skipped"
    """A consumer went on behind an offset at which an acknowledged value is."""
    VANISHED = "seen, and gone"
    """Read by a consumer, never acknowledged, and not in the last read. Kafka promises nothing of such a record."""


class Finding(NamedTuple):
    """One anomaly, where it is, and of which values."""

    anomaly: Anomaly
    offset: int
    values: tuple[str, ...]


def findings(history: ClientHistory) -> tuple[Finding, ...]:
    """Every anomaly of the history, by kind and offset; none for one that kept all promises."""
    return tuple(Finding(anomaly, *where) for anomaly, rule in RULES.items() for where in sorted(set(rule(history))))


def gone(found: Iterable[Finding]) -> int:
    """How many acknowledged records are not to be read."""
    return sum(each.anomaly in {Anomaly.LOST, Anomaly.UNREAD} for each in found)


Where = tuple[int, tuple[str, ...]]


def _lost(history: ClientHistory) -> Iterator[Where]:
    end = _end(history)
    return ((offset, values) for offset, values in _missing(history) if offset < end)


def _unread(history: ClientHistory) -> Iterator[Where]:
    end = _end(history)
    return ((offset, values) for offset, values in _missing(history) if offset >= end)


def _missing(history: ClientHistory) -> Iterator[Where]:
    kept = {record.value for record in history.last_read}
    return ((record.offset, (record.value,)) for record in history.acknowledged if record.value not in kept)


def _end(history: ClientHistory) -> int:
    return max((record.offset for record in history.last_read), default=-1) + 1


def _two_values(history: ClientHistory) -> Iterator[Where]:
    sure = _by_offset([*history.acknowledged, *history.last_read])
    seen = _by_offset(record for read in history.reads for record in read)
    promised = {record.offset for record in history.acknowledged}
    for offset, values in sure.items():
        told = values | seen[offset] if offset in promised else values
        if len(told) > 1:
            yield offset, tuple(sorted(told))


def _by_offset(records: Iterable[Record]) -> Mapping[int, set[str]]:
    values: defaultdict[int, set[str]] = defaultdict(set)
    for record in records:
        values[record.offset].add(record.value)
    return values


def _repeated(history: ClientHistory) -> Iterator[Where]:
    offsets: defaultdict[str, set[int]] = defaultdict(set)
    for record in (*history.acknowledged, *history.last_read):
        offsets[record.value].add(record.offset)
    return ((min(at), (value,)) for value, at in offsets.items() if len(at) > 1)


def _out_of_order(history: ClientHistory) -> Iterator[Where]:
    promised = {record.value for record in history.acknowledged}
    for read in history.reads:
        for before, after in pairwise(read):
            if after.offset <= before.offset:
                yield after.offset, (before.value, after.value)
        yield from _sent_earlier([record for record in read if record.value in promised])


def _sent_earlier(records: Iterable[Record]) -> Iterator[Where]:
    """Values whose producer had sent them before the one that stands before them."""
    sent: dict[str, tuple[int, str]] = {}
    for record in records:
        producer, _, number = record.value.rpartition(".")
        last, value = sent.get(producer, (-1, ""))
        if int(number) < last:
            yield record.offset, (value, record.value)
        sent[producer] = int(number), record.value


def _skipped(history: ClientHistory) -> Iterator[Where]:
    promised = {record.offset: record.value for record in history.acknowledged}
    for read in history.reads:
        for before, after in pairwise(read):
            for offset in range(before.offset + 1, after.offset):
                if offset in promised:
                    yield offset, (promised[offset],)


def _vanished(history: ClientHistory) -> Iterator[Where]:
    known = {record.value for record in (*history.acknowledged, *history.last_read)}
    return ((each.offset, (each.value,)) for read in history.reads for each in read if each.value not in known)


RULES: Mapping[Anomaly, Callable[[ClientHistory], Iterator[Where]]] = {
    Anomaly.LOST: _lost,
    Anomaly.UNREAD: _unread,
    Anomaly.TWO_VALUES: _two_values,
    Anomaly.REPEATED: _repeated,
    Anomaly.OUT_OF_ORDER: _out_of_order,
    Anomaly.SKIPPED: _skipped,
    Anomaly.VANISHED: _vanished,
}
