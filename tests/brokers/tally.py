"""What elections were said to cost, what they cost, and how often: the count over many incidents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Loss

MEMBERSHIP, CONTAINMENT = "membership", "containment"
PROOFS = (MEMBERSHIP, CONTAINMENT)


def proof_of(loss: Loss) -> str:
    """By which way its class was proven; empty: nothing is proven."""
    return "" if not loss.proof else CONTAINMENT if "'s log" in loss.proof else MEMBERSHIP


@dataclass(frozen=True, slots=True)
class Elected:
    """One partition that an election of ours gave a leader. `gone`: acknowledged records that nobody can read.

    `cut_back`: its leader had lost something of its disk since it was in sync.
    """

    loss: Loss
    acknowledged: int
    gone: int
    cut_back: bool = False

    @property
    def kept_its_bound(self) -> bool:
        return self.loss.at_most is None or self.gone <= self.loss.at_most


@dataclass
class Tally:
    """Of one release. Each incident is one recovery, in which many partitions are elected."""

    name: str
    incidents: list[Sequence[Elected]] = field(default_factory=list)

    def recoveries(self, proof: str | None = None) -> int:
        """Incidents with a partition whose election was classed Lossless; by this proof."""
        return sum(any(_is_lossless(each, proof) for each in incident) for incident in self.incidents)

    def partitions(self, loss_class: LossClass, proof: str | None = None) -> list[Elected]:
        return [
            each
            for incident in self.incidents
            for each in incident
            if each.loss.loss_class is loss_class and proof in {None, proof_of(each.loss)}
        ]

    @property
    def row(self) -> str:
        """Of the table below `HEAD`."""
        lossless, bounded = self.partitions(LossClass.LOSSLESS), self.partitions(LossClass.BOUNDED)
        unknown = self.partitions(LossClass.UNKNOWN)
        cells: Iterable[object] = (
            self.name,
            len(self.incidents),
            f"{self.recoveries()} ({len(lossless)})",
            *(f"{self.recoveries(proof)} ({len(self.partitions(LossClass.LOSSLESS, proof))})" for proof in PROOFS),
            f"{sum(each.acknowledged for each in lossless):,}",
            sum(each.gone for each in lossless),
            f"{len(bounded)}: {_gone(bounded)} of {sum(each.loss.at_most or 0 for each in bounded)}",
            f"{len(unknown)}: {_gone(unknown)}",
            sum(each.cut_back for incident in self.incidents for each in incident),
        )
        return "| " + " | ".join(map(str, cells)) + " |"


COLUMNS = (
    "Kafka",
    "incidents",
    "recovered as `Lossless` (partitions)",
    *(f"by {proof}" for proof in PROOFS),
    "acknowledged there",
    "lost there",
    "`Bounded`: lost of the bound",
    "`Unknown`: lost",
    "led by a log that was cut back",
)
HEAD = f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}"


def _is_lossless(elected: Elected, proof: str | None) -> bool:
    return elected.loss.loss_class is LossClass.LOSSLESS and proof in {None, proof_of(elected.loss)}


def _gone(elected: Iterable[Elected]) -> int:
    return sum(each.gone for each in elected)


def ways(elected: Iterable[Elected]) -> str:
    """How many partitions were elected by which class and proof."""
    seen = Counter(f"{each.loss.loss_class} {proof_of(each.loss)}".strip() for each in elected)
    return ", ".join(f"{number} {way}" for way, number in sorted(seen.items())) or "nothing"
