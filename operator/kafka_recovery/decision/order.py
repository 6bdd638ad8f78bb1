"""Candidate orders as data: Python compiles them into a sort key, another engine into columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafka_recovery.decision.python_source import compiled, raw
from kafka_recovery.domain.evidence import ReplicaLog
from kafka_recovery.domain.policy import CandidateOrder

Merit = Callable[[ReplicaLog, int], tuple[float, ...]]
"""Higher is better, unknown is worst."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A number about a measured replica: the path of its value, and of what it is read from.

    It is unknown where what it is read from is; `read_from` None: it is always known.
    """

    path: str
    read_from: str | None = None
    _read: Callable[[ReplicaLog, int], int | None] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        read = compiled(f"def read(log, position):\n    return {raw(self.path)}", "read", {})
        object.__setattr__(self, "_read", read)

    def __call__(self, log: ReplicaLog, position: int) -> int | None:
        """The fact of this log at this position in the assignment; None: unknown."""
        return self._read(log, position)


@dataclass(frozen=True, slots=True)
class Key:
    """One key of an order: the name of a fact and its direction. An unknown fact sorts last either way."""

    fact: str
    descending: bool = False


FACTS: Mapping[str, Fact] = {
    "last_epoch": Fact("log.last_epoch", read_from="log.epochs"),
    "log_end": Fact("log.end"),
    "position": Fact("position"),
}

# KIP-1275: the highest epoch, then the longest log. Records of an older epoch beyond a newer one's start were never
# acknowledged by the newer leader's ISR (KIP-101). Position decides last, as in Kafka's own unclean election.
EPOCH_FIRST = (Key("last_epoch", descending=True), Key("log_end", descending=True), Key("position"))
LONGEST_LOG = (Key("log_end", descending=True), Key("last_epoch", descending=True), Key("position"))

ORDERS: Mapping[CandidateOrder, tuple[Key, ...]] = {
    CandidateOrder.EPOCH_FIRST: EPOCH_FIRST,
    CandidateOrder.LONGEST_LOG: LONGEST_LOG,
}


def merit(keys: tuple[Key, ...]) -> Merit:
    """Compile an order into one function of a log and its position."""
    values = ", ".join(map(_higher_is_better, keys))
    source = f"def merit(log, position):\n    return ({values},)"
    return compiled(source, "merit", {"WORST": -math.inf})


def _higher_is_better(key: Key) -> str:
    fact = FACTS[key.fact]
    if fact.read_from is None:
        return raw(fact.path) if key.descending else f"-{raw(fact.path)}"
    seen = "seen" if key.descending else "-seen"
    return f"(WORST if (seen := {raw(fact.path)}) is None else {seen})"


MERITS: Mapping[CandidateOrder, Merit] = {order: merit(keys) for order, keys in ORDERS.items()}
