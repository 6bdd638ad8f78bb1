"""A partition's life under one plan: its states, one table of transitions, and what must hold at each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from kafka_recovery.domain.election import Answer, ElectionAnswer, Gone, Lead, Leadership, Sighting, Unseen
from kafka_recovery.domain.evidence import MinInsyncReplicas, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, MetadataOffset, TopicPartition
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.reason import Reason


class State(StrEnum):
    """Where a partition stands in its recovery."""

    PLANNED = "Planned"
    """No request about it was sent."""
    UNTOUCHED = "Untouched"
    """It was given up before any request about it."""
    STARTED = "Started"
    """A durable fact names it, so requests about it may be sent."""
    DESIGNATED = "Designated"
    """The controller accepted its designation: its order may be the election's."""
    ELECTED = "Elected"
    """The controller answered its election: it was held, or there was a leader already."""
    IN_DOUBT = "InDoubt"
    """A request about it was not answered, and may still take effect."""
    LEADING = "Leading"
    """A leader of a newer epoch than the plan's answers itself."""
    LEADERLESS = "Leaderless"
    """The attempt is over, and no leader of a newer epoch answers."""
    RESTORED = "Restored"
    """Its order was read back and is not the election's: nothing is left to undo."""
    ALTERED = "Altered"
    """Its order is the election's or could not be read: a resume or an undo puts it back."""


class Ending(StrEnum):
    """What follows from an attempt without a leader."""

    AGAIN = "Again"
    """The cluster is not as it was planned for: worth deciding again."""
    REFUSED = "Refused"
    """Nobody may, or can, elect it now."""
    FAILED = "Failed"
    """An election was held and did not verify."""
    UNKNOWN = "Unknown"
    """An election was held, or may have been, and nobody can tell what came of it."""


@dataclass(frozen=True, slots=True)
class Started:
    """A durable fact of the journal names these partitions."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Answered:
    """The controller's answer to a partition's request: its designation, then its election."""

    answer: ElectionAnswer


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The attempt ends before its election is asked for."""

    why: Reason
    ending: Ending


@dataclass(frozen=True, slots=True)
class DoubtOver:
    """A request that was not answered can't take effect any more."""


@dataclass(frozen=True, slots=True)
class Led:
    """A leader answered itself."""

    lead: Lead


@dataclass(frozen=True, slots=True)
class NotLed:
    """A look showed, or enough time did, that no leader comes of the attempt."""

    why: Reason
    ending: Ending


@dataclass(frozen=True, slots=True)
class LedMeanwhile:
    """Its election may have been held before the controller's answer said no. `why`: what came of it, if known."""

    why: Reason | None
    ending: Ending


@dataclass(frozen=True, slots=True)
class OrderRead:
    """The last look at its order. `answer`: what the controller said to its restoring; None: it was not asked."""

    sighting: Sighting | None
    answer: ElectionAnswer | None


Event = Started | Answered | Abandoned | DoubtOver | Led | NotLed | LedMeanwhile | OrderRead
Condition = Callable[["PartitionRun", Event], bool]


class ImpossibleTransition(Exception):
    """The engine tried what no row of `LIFE` allows: a defect of the engine; nothing is concluded from it."""


@dataclass(slots=True)
class PartitionRun:
    """One decision to elect, carried out.

    `as_of`: how new the metadata were that the plan stands on; what is older concludes nothing. `earlier`: runs of the
    same partition, oldest first, that held an election or may have. `begun`: a durable fact names it, so its order may
    have been altered. `sent`: its election reached the controller, which answered. `held`: one was held, or may have
    been. `cut_short`: it was begun by a process that died. `ours`: whether its order is the election's; None: nobody
    knows. `verified`: the designated leader's own answer, with all
    that was planned of its log, whatever came after it. `look`: the last look at it, or why it showed nothing:
    `unseen`. `unrestored`: why its order was not put back. `min_isr`: as it was read last before electing.
    """

    decision: Decision
    evidence: PartitionEvidence
    as_of: MetadataOffset | None = None
    earlier: tuple[PartitionRun, ...] = ()
    state: State = State.PLANNED
    begun: bool = False
    sent: bool = False
    held: bool = False
    cut_short: bool = False
    ours: bool | None = False
    lead: Lead | None = None
    verified: Lead | None = None
    why: Reason | None = None
    ending: Ending | None = None
    look: Leadership | None = None
    unseen: Reason | None = None
    unrestored: Reason | None = None
    min_isr: MinInsyncReplicas | None = None

    def __post_init__(self) -> None:
        self.min_isr = self.min_isr or self.evidence.min_isr

    def take_over(self, *, held: bool) -> None:
        """Go on with what a process had begun that died, once none of its requests is under way any more."""
        self.state, self.begun, self.held, self.cut_short = State.ELECTED, True, held, True
        self.ours = self._may_be_ours

    def note_put_back(self) -> None:
        """Its order was put back and read, by whoever ended the process's run: no event of this one tells so."""
        self.ours = False

    @property
    def id(self) -> TopicPartition:
        """The partition."""
        return self.decision.id

    @property
    def reason(self) -> Reason:
        """Why it has no leader by this run, as far as anything is known of that."""
        return self.why or Reason("InDoubt", "nothing is known of its election")

    @property
    def clean_members(self) -> frozenset[BrokerId]:
        """ISR and ELR before any election of ours: whom that put into the ISR is no clean way out."""
        return self._before.clean_members

    @property
    def isr_before(self) -> tuple[BrokerId, ...]:
        """The ISR before any election of ours. A member of the ELR alone may also be elected as last known leader."""
        return self._before.isr

    @property
    def _before(self) -> PartitionEvidence:
        """What was seen last before any election of ours: one raises the leader epoch.

        A run that died before it elected leaves the epoch as it was, and a member may lose its disk meanwhile.
        """
        first, *later = [run.evidence for run in (*self.earlier, self)]
        return next((seen for seen in reversed(later) if seen.leader_epoch == first.leader_epoch), first)

    @property
    def restored(self) -> bool | None:
        """Whether nothing of this run is left in its order. None: nobody knows."""
        return None if self.ours is None else not self.ours

    @property
    def _may_be_ours(self) -> bool | None:
        """What is known of an order once it may have been asked for. Where an election leaves it alone, it is not."""
        return False if self.decision.order == self.decision.assignment else None

    @property
    def leads_as_planned(self) -> bool:
        """Whether the designated leader answered with all that was planned of its log."""
        return self.lead is not None and self.verified is not None

    def apply(self, event: Event) -> None:
        """Move along `LIFE`, and keep what was seen. Raises ImpossibleTransition."""
        step = next((s for s in LIFE if self.state in s.sources and s.holds_for(self, event)), None)
        if step is None:
            raise ImpossibleTransition(f"{self.id} is {self.state}, and {event} allows no transition from there")
        self.state = step.target
        match event:
            case Started():
                self.begun, self.ours = True, self._may_be_ours
            case Answered(answer):
                self.sent |= step.elects and answer.relay is not None
                self.held |= step.elects and answer.answer in (Answer.ACCEPTED, Answer.UNANSWERED)
                if step.target is State.IN_DOUBT:
                    self.why = answer.reason
                elif step.target is State.DESIGNATED:
                    self.ours = self.ours is None
                elif step.target is State.LEADERLESS:
                    refused = answer.answer is Answer.REFUSED
                    self.why = answer.reason or Reason("NotElected", "the controller refused the election")
                    self.ending = Ending.REFUSED if refused else Ending.AGAIN
            case Abandoned(why, ending) | NotLed(why, ending):
                self.why, self.ending, self.lead = why, ending, None
                if step.target is State.UNTOUCHED:
                    self.ours = False
            case Led(lead):
                self.lead, self.why, self.ending = lead, None, None
                if self.verified is None and is_as_planned(lead, self.decision):
                    self.verified = lead
            case LedMeanwhile(why, ending):
                self.held, self.why, self.ending = True, why or self.why, ending
            case OrderRead(sighting, answer):
                if sighting is not None:
                    seen = order_is_ours(sighting, self)
                    self.ours = None if seen is False and step.target is State.ALTERED else seen
                self.unrestored = answer.reason if answer and step.target is State.ALTERED else None
                self.look = sighting if isinstance(sighting, Leadership) else None
                self.unseen = sighting.reason if isinstance(sighting, Unseen) else None


def leads_since(lead: Lead, decision: Decision) -> bool:
    """Whether a leader leads since the plan was made: any of its epoch or an older one is the one that was lost.

    KRaft raises the leader epoch by one with every new leader, and with the loss of one.
    """
    return lead.leader_epoch > decision.leader_epoch


def is_as_planned(lead: Lead, decision: Decision) -> bool:
    """Whether the designated leader answered with all that was planned of its log."""
    return lead.leader == decision.leader and lead.log_end >= (decision.log_end or 0)


def is_gone(sighting: Sighting | None, decision: Decision) -> bool:
    """Whether the planned topic does not exist any more. One that was created again under its name is another one."""
    return isinstance(sighting, Gone) or (isinstance(sighting, Leadership) and sighting.topic_id != decision.topic_id)


def order_is_ours(sighting: Sighting | None, run: PartitionRun) -> bool | None:
    """Whether a partition stands in its election's order. None: that was not to be seen, or in metadata too old.

    A topic that is gone has no order of ours. Where an election leaves the order alone, none is.
    """
    decision = run.decision
    if decision.order == decision.assignment:
        return False
    if isinstance(sighting, Leadership) and is_older(sighting.as_of, run.as_of):
        return None
    if is_gone(sighting, decision):
        return False
    return sighting.assignment == decision.order if isinstance(sighting, Leadership) else None


def is_older(seen: MetadataOffset | None, than: MetadataOffset | None) -> bool:
    """Whether a look read older metadata; not where either is unknown."""
    return seen is not None and than is not None and seen < than


def _named(run: PartitionRun, event: Event) -> bool:
    return run.id in cast(Started, event).partitions


def _answer(*answers: Answer) -> Condition:
    return lambda run, event: cast(Answered, event).answer.answer in answers


def _newer_epoch(run: PartitionRun, event: Event) -> bool:
    return leads_since(cast(Led, event).lead, run.decision)


def _answered(run: PartitionRun, event: Event) -> bool:
    return run.sent


def _put_back(run: PartitionRun, event: Event) -> bool:
    read = cast(OrderRead, event)
    accepted = read.answer is None or read.answer.answer is Answer.ACCEPTED
    return accepted and order_is_ours(read.sighting, run) is False


def _always(run: PartitionRun, event: Event) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Step:
    """One row: from any of `sources`, on `event`, to `target`, if `condition` holds; `only_if` says it in words."""

    sources: tuple[State, ...]
    event: type[Event]
    target: State
    condition: Condition = _always
    only_if: str = ""
    elects: bool = False

    def holds_for(self, run: PartitionRun, event: Event) -> bool:
        """Whether this is the row of an event, and its condition holds."""
        return isinstance(event, self.event) and self.condition(run, event)


_YES = _answer(Answer.ACCEPTED)
_NO = _answer(Answer.CHANGED, Answer.REFUSED, Answer.NOT_NEEDED)
_SILENT = _answer(Answer.UNANSWERED)
_HELD = _answer(Answer.ACCEPTED, Answer.NOT_NEEDED)
_FOUND = (State.ELECTED, State.LEADING, State.PLANNED, State.UNTOUCHED)
_OVER = (State.LEADING, State.LEADERLESS, State.ALTERED)

LIFE: tuple[Step, ...] = (
    Step((State.PLANNED, State.STARTED), Abandoned, State.UNTOUCHED),
    Step((State.PLANNED,), Started, State.STARTED, _named, "the durable fact names it"),
    Step((State.STARTED,), Answered, State.DESIGNATED, _YES, "the designation was accepted"),
    Step((State.STARTED,), Answered, State.IN_DOUBT, _SILENT, "the designation was not answered"),
    Step((State.STARTED,), Answered, State.LEADERLESS, _NO, "the designation was refused"),
    Step((State.DESIGNATED,), Abandoned, State.LEADERLESS),
    Step((State.DESIGNATED,), Answered, State.ELECTED, _HELD, "the election was held, or not needed", elects=True),
    Step((State.DESIGNATED,), Answered, State.IN_DOUBT, _SILENT, "the election was not answered", elects=True),
    Step((State.DESIGNATED,), Answered, State.LEADERLESS, _NO, "the election was refused", elects=True),
    Step((State.IN_DOUBT,), DoubtOver, State.ELECTED),
    Step(_FOUND, Led, State.LEADING, _newer_epoch, "its leader epoch is newer than the plan's"),
    Step((State.ELECTED, State.LEADING), NotLed, State.LEADERLESS),
    Step((State.LEADERLESS,), LedMeanwhile, State.LEADERLESS, _answered, "the controller answered its election"),
    Step(_OVER, OrderRead, State.RESTORED, _put_back, "from metadata no older than the plan's: not the temporary one"),
    Step((*_OVER, State.IN_DOUBT), OrderRead, State.ALTERED),
)
"""Every way a partition may go; the first row that holds is the one. docs/reference/partition-life.md shows it."""
