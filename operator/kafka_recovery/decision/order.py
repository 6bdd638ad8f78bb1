"""Candidate orders as data: Python compiles them into a sort key; another engine can read the same tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import cast

from kafka_recovery.domain.evidence import ReplicaLog
from kafka_recovery.domain.policy import CandidateOrder

Fact = Callable[[ReplicaLog, int], int | None]
"""A number read from a replica's log and its position in the assignment; None: unknown."""

Merit = Callable[[ReplicaLog, int], tuple[float, ...]]
"""Higher is better, unknown is worst."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of an order: the name of a fact and its direction. An unknown fact sorts last either way."""

    fact: str
    descending: bool = False


FACTS: Mapping[str, Fact] = {
    "last_epoch": lambda log, position: log.last_epoch,
    "log_end": lambda log, position: log.end,
    "position": lambda log, position: position,
}
ALWAYS_KNOWN = frozenset({"log_end", "position"})
"""Facts that every measured replica has."""

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
    first, *rest = [_higher_is_better(key) for key in keys]
    if len(rest) == 2:  # every order of ours; a fixed tuple costs half of a loop
        second, third = rest
        return lambda log, position: (first(log, position), second(log, position), third(log, position))
    return lambda log, position: (first(log, position), *(key(log, position) for key in rest))


def _higher_is_better(key: Key) -> Callable[[ReplicaLog, int], float]:
    fact = FACTS[key.fact]
    if key.fact in ALWAYS_KNOWN:
        known = cast(Callable[[ReplicaLog, int], int], fact)
        return known if key.descending else lambda log, position: -known(log, position)

    def value(log: ReplicaLog, position: int) -> float:
        seen = fact(log, position)
        if seen is None:
            return -math.inf
        return seen if key.descending else -seen

    return value


MERITS: Mapping[CandidateOrder, Merit] = {order: merit(keys) for order, keys in ORDERS.items()}
