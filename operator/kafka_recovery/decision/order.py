"""Candidate orders as data: operator/write_checks.py makes a sort key of each, another engine columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter

from kafka_recovery.decision.subjects import Cost
from kafka_recovery.domain.evidence import ReplicaLog
from kafka_recovery.domain.policy import CandidateOrder


@dataclass(frozen=True, slots=True)
class Fact:
    """A number about a measured replica: the path of its value, and of what it is read from.

    It is unknown where what it is read from is; `read_from` None: it is always known. A log, its position in the
    assignment and the proven cost of its election are what facts are about.
    """

    path: str
    read_from: str | None = None

    @property
    def subject(self) -> str:
        """What it is about."""
        return self.path.partition(".")[0]

    def __call__(self, log: ReplicaLog, position: int, cost: Cost) -> int | None:
        """The fact of this log at this position in the assignment; None: unknown."""
        about: dict[str, object] = {"log": log, "cost": cost}
        _, _, name = self.path.partition(".")
        number: int | None = attrgetter(name)(about[self.subject]) if name else position
        return number


@dataclass(frozen=True, slots=True)
class Key:
    """One key of an order: the name of a fact and its direction. An unknown fact sorts last either way."""

    fact: str
    descending: bool = False


FACTS: Mapping[str, Fact] = {
    "last_epoch": Fact("log.last_epoch", read_from="log.epochs"),
    "log_end": Fact("log.end"),
    "almost_full": Fact("log.almost_full"),
    "local_start": Fact("log.local_start", read_from="log.local_start"),
    "position": Fact("position"),
    "loss_class": Fact("cost.loss_class"),
    "at_most": Fact("cost.at_most", read_from="cost.at_most"),
}

# KIP-1275: the highest epoch, then the longest log. Records of an older epoch beyond a newer one's start were never
# acknowledged by the newer leader's ISR (KIP-101). Position decides last, as in Kafka's own unclean election.
# Of logs that are equal by these, one whose volume is known to be almost full comes last: Kafka takes a log directory
# offline at the first write that finds no room. Whose volume is not known is not behind those that told.
# KIP-405: of logs that are equal by these, a leader serves more of a tiered topic's from its own disk that begins there
# earlier, and needs the remote tier, which nobody has looked at, for less.
TIES = (Key("almost_full"), Key("local_start"), Key("position"))
EPOCH_FIRST = (Key("last_epoch", descending=True), Key("log_end", descending=True), *TIES)
LONGEST_LOG = (Key("log_end", descending=True), Key("last_epoch", descending=True), *TIES)

# A later epoch or a longer log may lack an acknowledged record all the same; what is proven comes before them.
LEAST_LOSS = (Key("loss_class"), Key("at_most"), *EPOCH_FIRST)

ORDERS: Mapping[CandidateOrder, tuple[Key, ...]] = {
    CandidateOrder.EPOCH_FIRST: EPOCH_FIRST,
    CandidateOrder.LONGEST_LOG: LONGEST_LOG,
    CandidateOrder.LEAST_LOSS: LEAST_LOSS,
}

BY_LOGS: Mapping[CandidateOrder, tuple[Key, ...]] = {
    order: tuple(key for key in keys if FACTS[key.fact].subject != "cost") for order, keys in ORDERS.items()
}
"""The same where nothing is proven of any candidate: then all cost the same."""

BY_COST = frozenset(order for order, keys in ORDERS.items() if keys != BY_LOGS[order])
"""The orders that see what each candidate is proven to cost."""

UNPROVEN: Mapping[CandidateOrder, CandidateOrder] = {
    order: next((each for each, asked in ORDERS.items() if asked == keys), order) for order, keys in BY_LOGS.items()
}
"""The order that each comes to where nothing is proven of any candidate."""
