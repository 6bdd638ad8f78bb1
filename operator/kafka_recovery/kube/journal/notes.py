"""What the facts of a journal say, and what facts about one plan say together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.facts import PLAN_LENGTH, Fact
from kafka_recovery.kube.resources.labels import RECOVERY_UID_LABEL

SOME = 3
"""RecoveryRecords of a plan that a message names."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Who approved a run, as far as its journal knows."""

    by: str


@dataclass(frozen=True, slots=True)
class WaveStart:
    """`writer`: the journal object that began the wave; to begin one is to win it."""

    wave: int
    partitions: tuple[str, ...]
    writer: str

    def ids(self) -> frozenset[TopicPartition]:
        """The partitions. Raises InvalidDocument for one that is none."""
        try:
            return frozenset(map(TopicPartition.parse, self.partitions))
        except ValueError as wrong:
            raise InvalidDocument(f"wave {self.wave}: {str(wrong)[:200]}") from None


@dataclass(frozen=True, slots=True)
class Doubt:
    """Through which broker a request of a wave went that was not answered."""

    wave: int
    broker: BrokerId


@dataclass(frozen=True, slots=True)
class WaveEnd:
    """What became of a wave."""

    wave: int
    outcomes: tuple[PartitionOutcome, ...]


def by_plan(notes: Iterable[Fact]) -> list[list[Fact]]:
    """Facts about one plan together, in the order in which they come."""
    plans: dict[str, list[Fact]] = {}
    for fact in notes:
        plans.setdefault(fact.plan, []).append(fact)
    return list(plans.values())


def prefix_of(digest: str) -> str:
    """How facts name a plan."""
    return digest[:PLAN_LENGTH]


def never_shown(runs: Sequence[Sequence[Fact]]) -> Reason | None:
    """What a person should know of runs whose plan the status does not name; None: there is none."""
    if not runs:
        return None
    names = ", ".join(fact.record for fact in runs[0][:SOME])
    more = f" (and {len(runs) - 1} more plans)" if len(runs) > 1 else ""
    recovery = runs[0][0].recovery
    return Reason(
        Decisive.PLAN_NOT_SHOWN,
        f"RecoveryRecords {names}{more} say that plan {runs[0][0].plan} was begun, and status.begun does not name it: "
        "somebody else wrote them, or the status was lost. Nobody is elected, and no order is touched on their word. "
        "Delete none before you have compared the assignment orders of their partitions in Kafka with those that you "
        "want: they may be all that tells of the original ones. If the operator wrote them, restore what it altered "
        f"with kafka-recovery undo --records (-l {RECOVERY_UID_LABEL}={recovery.uid}), then delete them; if "
        "somebody else did, delete them, and look who may create RecoveryRecords here",
    )


def is_begun(note: Fact) -> bool:
    """Whether it says that a run began."""
    return note.name == "begun"


def was_vain(of_plan: Sequence[Fact], ends: Sequence[WaveEnd]) -> bool:
    """Whether each wave of a run ended with refusals alone: nobody was elected, every order is back."""
    return len(ends) == sum(fact.name.endswith("-started") for fact in of_plan) and all(
        end.outcomes and all(each.outcome is Outcome.REFUSED and each.order_restored for each in end.outcomes)
        for end in ends
    )


def is_unfinished(notes: Iterable[Fact]) -> bool:
    """Whether the facts about a plan tell of a run that has not ended. One of which all are owned was finished before.

    That one of them is owned says nothing: they are handed over together, and labels can be written by others.
    """
    owned = {fact.name: fact.owned for fact in notes}
    began = any(name == "begun" or name.startswith("wave-") for name in owned)
    return began and "finished" not in owned and not all(owned.values())
