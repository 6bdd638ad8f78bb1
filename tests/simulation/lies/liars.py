"""How a chronicle is made to lie: what an engine saw, wrote, asked or said is not what it was, all else is true."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Ran
from kafka_recovery.simulator.histories.history import History
from kafka_recovery.simulator.histories.scenario import Scenario

Fact = TypeVar("Fact")

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
WHY = Reason("LeaderUnresponsive", "it does not answer")

_FACTS = (
    "misreported", "filled", "looked", "shown", "unshown", "kept", "granted", "asked", "answered", "wished", "held",
    "ordered", "led", "concluded", "waited", "delayed", "paused", "configured", "ran",
)  # fmt: skip


@dataclass(slots=True)
class Liar:
    """A copy of an honest history that is to be told wrong. Values that are functions are asked for each fact."""

    story: Chronicle
    scenario: Scenario
    plans: dict[str, Plan] = field(default_factory=dict)

    @classmethod
    def of(cls, honest: History) -> Liar:
        """What is told wrong of the copy leaves the history as it is."""
        copies: dict[str, Any] = {name: list(getattr(honest.story, name)) for name in _FACTS}
        plans = {kept.digest: plan for kept, plan in honest.story.plans()}
        story = replace(honest.story, **copies, _plans=dict(plans))
        return cls(story, honest.scenario, plans)

    def tells(self, facts: list[Fact], where: Callable[[Fact], bool] = lambda fact: True, **values: Any) -> None:
        """These facts have other values."""
        facts[:] = [_with(fact, values) if where(fact) else fact for fact in facts]

    def hides(self, facts: list[Fact], where: Callable[[Fact], bool]) -> None:
        """These facts are not told."""
        assert any(map(where, facts)), "there is nothing to hide"
        facts[:] = [fact for fact in facts if not where(fact)]

    def plans_are(self, **values: Any) -> None:
        """Every plan is another one."""
        for digest, plan in self.plans.items():
            self.plans[digest] = _with(plan, values)
            self.story.known(digest, self.plans[digest])

    def decides(self, of: TopicPartition | None = None, **values: Any) -> None:
        """Every election that a plan decides on is another one."""

        def other(plan: Plan) -> tuple[Decision, ...]:
            meant = [d.leader is not None and of in (None, d.id) for d in plan.decisions]
            return tuple(_with(d, values) if yes else d for d, yes in zip(plan.decisions, meant, strict=True))

        self.plans_are(decisions=other)

    def costs(self, **values: Any) -> None:
        """Every election is said to cost something else."""
        self.decides(loss=lambda decision: _with(decision.loss, values))

    def plans_on(self, **values: Any) -> None:
        """Plans were made on other evidence about each partition."""
        self.plans_are(evidence=lambda plan: _seen(plan.evidence, values))

    def looks(self, **values: Any) -> None:
        """Every look showed something else of each partition."""
        self.tells(self.story.looked, evidence=lambda look: _seen(look.evidence, values))

    def looks_at_cluster(self, **values: Any) -> None:
        """Every look showed something else of the cluster."""
        self.tells(
            self.story.looked,
            evidence=lambda look: replace(look.evidence, cluster=_with(look.evidence.cluster, values)),
        )

    def says(self, of: TopicPartition = FIRST, **values: Any) -> None:
        """A partition is given another outcome."""
        self.tells(
            self.story.concluded,
            lambda said: said.outcome.id == of,
            outcome=lambda said: _with(said.outcome, values),
        )

    def writes(self, of: TopicPartition = FIRST, **values: Any) -> None:
        """The journal has another outcome of a partition."""

        def other(outcomes: tuple[PartitionOutcome, ...]) -> tuple[PartitionOutcome, ...]:
            return tuple(_with(outcome, values) if outcome.id == of else outcome for outcome in outcomes)

        self.tells(self.story.kept, lambda kept: bool(kept.outcomes), outcomes=lambda kept: other(kept.outcomes))

    def asks(self, what: str, **values: Any) -> None:
        """Requests of one kind are about other requests."""
        self.tells(
            self.story.asked,
            lambda asked: asked.what == what,
            requests=lambda asked: tuple(_with(request, values) for request in asked.requests),
        )

    def reports(self, which: Callable[[Ran], bool] = lambda ran: ran.report is not None, **values: Any) -> None:
        """Runs report something else of every partition."""
        self.tells(
            self.story.ran,
            which,
            report=lambda ran: (
                ran.report
                and replace(ran.report, outcomes=tuple(_with(outcome, values) for outcome in ran.report.outcomes))
            ),
        )

    def scenario_is(self, **values: Any) -> None:
        """What was drawn is something else."""
        self.scenario = replace(self.scenario, **values)


Tell = Callable[[Liar], object]


@dataclass(frozen=True)
class Lie:
    """Something that is told wrong of an honest history, by the name of that one, and the promise it breaks."""

    breaks: str
    name: str
    of: str
    tell: Tell


def lies(breaks: str, of: str, told: Mapping[str, Tell]) -> tuple[Lie, ...]:
    """Several lies that break one promise."""
    return tuple(Lie(breaks, name, of, tell) for name, tell in told.items())


def together(*tells: Tell) -> Tell:
    """Several things are told wrong, so that they fit each other."""

    def tell(it: Liar) -> None:
        for each in tells:
            each(it)

    return tell


def is_about(id: TopicPartition) -> Callable[[Any], bool]:
    """Whether a fact is about this partition: it names it, or a request of it."""
    return lambda fact: getattr(fact, "id", None) == id or any(b.id == id for b in getattr(fact, "requests", ()))


def _with(fact: Fact, values: Mapping[str, Any]) -> Fact:
    now = {name: value(fact) if callable(value) else value for name, value in values.items()}
    return replace(fact, **now)  # type: ignore[type-var]


def _seen(evidence: Evidence, values: Mapping[str, Any]) -> Evidence:
    partitions: tuple[PartitionEvidence, ...] = tuple(_with(partition, values) for partition in evidence.partitions)
    return replace(evidence, partitions=partitions)
