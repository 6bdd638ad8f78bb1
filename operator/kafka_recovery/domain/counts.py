"""How many partitions of a recovery are where: one definition for statuses, tables, reports and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome

AWAITING_APPROVAL = Decisive.AWAITING_APPROVAL
"""The reason of an outcome that no rule refused: a person may still say yes."""
STILL_TO_COME = frozenset({AWAITING_APPROVAL, Decisive.PARTITION_LIMIT_REACHED})
"""Reasons of outcomes that this recovery comes back to by itself: the next plan, or the next yes, may elect them."""
MEMBER_LEADS = Decisive.MEMBER_LEADS
"""The reason of an outcome whose leader was in sync before: nobody knows how each election in between was held."""
GONE = frozenset({Decisive.PARTITION_GONE, Decisive.UNKNOWN_TOPIC_OR_PARTITION})
"""Reasons that no waiting mends: what they speak of is not there."""


class Whereabouts(StrEnum):
    """Where one partition is; each is in one place at a time."""

    RECOVERED = "recovered"
    AWAITING_APPROVAL = "awaitingApproval"
    WAITING = "waiting"
    """To be looked at, or elected; nobody is asked."""
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Counts:
    """All places together make `total`. `offline`: of all, those of which no leader was seen to answer."""

    total: int
    offline: int
    places: Mapping[Whereabouts, int]

    def __getitem__(self, place: Whereabouts) -> int:
        return self.places[place]


@dataclass(frozen=True, slots=True)
class Stage:
    """What of a recovery decides where a partition without an end is.

    `asked`: partitions that the plan of this moment elects once a person says yes. `declined`: those that it refuses.
    `over`: nothing follows.
    """

    asked: Collection[TopicPartition] = ()
    declined: Collection[TopicPartition] = ()
    over: bool = False

    def place(self, id: TopicPartition, outcome: PartitionOutcome | None) -> Whereabouts:
        """Where a partition is; None: nothing came of it so far."""
        if outcome is not None and outcome.outcome.is_recovered:
            return Whereabouts.RECOVERED
        if outcome is not None and outcome.outcome is Outcome.FAILED:
            return Whereabouts.FAILED
        if outcome is not None and outcome.outcome is Outcome.IN_DOUBT:
            return Whereabouts.UNKNOWN
        if self.over or (outcome is not None and not _is_still_to_come(outcome)):
            return Whereabouts.REFUSED
        if id in self.declined:
            return Whereabouts.REFUSED
        return Whereabouts.AWAITING_APPROVAL if id in self.asked else Whereabouts.WAITING


def counted(outcomes: Mapping[TopicPartition, PartitionOutcome], total: int, stage: Stage) -> Counts:
    """Count them. `total` may be less than what is known by name: partitions that were not counted before."""
    named = outcomes.keys() | set(stage.asked) | set(stage.declined)
    places = Counter(stage.place(id, outcomes.get(id)) for id in named)
    total = max(total, len(named))
    places[Whereabouts.REFUSED if stage.over else Whereabouts.WAITING] += total - len(named)
    led = sum(_leads_or_gone(outcome) for outcome in outcomes.values())
    return Counts(total, total - led, {place: places[place] for place in Whereabouts})


def elected_uncleanly(outcome: PartitionOutcome) -> bool:
    """Whether a partition that is recovered has its leader by an unclean election, as far as is known."""
    by_election = outcome.outcome in (Outcome.RECOVERED, Outcome.RECOVERED_UNDER_MIN_ISR)
    return by_election and not is_led_by_member(outcome)


def is_led_by_member(outcome: PartitionOutcome) -> bool:
    """Whether a replica leads that was in sync, after an unclean election of this recovery that was held or may be."""
    return outcome.reason is not None and outcome.reason.code == MEMBER_LEADS


def _is_still_to_come(outcome: PartitionOutcome) -> bool:
    return outcome.reason is not None and outcome.reason.code in STILL_TO_COME


def _leads_or_gone(outcome: PartitionOutcome) -> bool:
    """A log end is a leader's own answer, whatever the outcome is called."""
    answered = outcome.leader is not None and outcome.log_end is not None
    gone = outcome.reason is not None and outcome.reason.code in GONE
    return outcome.outcome.is_recovered or answered or gone
