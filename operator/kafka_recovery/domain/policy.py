"""What its owners want done about offline partitions, as declared in Git."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum


class CandidateOrder(StrEnum):
    """How measured replicas are ranked."""

    EPOCH_FIRST = "EpochFirst"
    LONGEST_LOG = "LongestLog"
    LEAST_LOSS = "LeastLoss"
    """By what each is proven to lose; where that is the same, or nothing is proven, as EPOCH_FIRST."""


class Approval(StrEnum):
    """Who says yes to a plan."""

    MANUAL = "ManualApprove"
    """A person approves each plan."""
    AUTO_LOSSLESS = "AutoApproveLossless"
    """A person approves, unless it is proven that no acknowledged record is lost."""
    AUTO = "AutoApprove"
    """Nobody is asked."""


class RequiredAnswers(StrEnum):
    """Whose silence blocks. ALL: that of any replica on a broker the controller counts as alive. ANY: nobody's.

    A replica on a fenced or unregistered broker that stays silent never blocks: two witnesses say it is gone. It is
    counted as missing in the loss class.
    """

    ALL = "All"
    ANY = "Any"


class HoldBack(StrEnum):
    """What keeps a dead broker away while another leader is elected: Kafka would elect it first, its disk empty or not.

    Of the operator only: a command line runs nowhere near the broker.
    """

    PODS = "pods"
    """The operator deletes its Pod, and the API server refuses to create it again until the recovery has ended."""


@dataclass(frozen=True, slots=True)
class TopicSelector:
    """Topics by exact name or by prefix; both empty: every topic."""

    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()

    def matches(self, topic: str) -> bool:
        """Whether the topic is selected."""
        if not self.names and not self.prefixes:
            return True
        return topic in self.names or topic.startswith(self.prefixes)


@dataclass(frozen=True, slots=True)
class EvidenceRules:
    """How long and how often brokers are asked, whose silence blocks, and how old an answer may be."""

    deadline: timedelta = timedelta(seconds=5)
    attempts: int = 3
    required_answers: RequiredAnswers = RequiredAnswers.ALL
    max_age: timedelta = timedelta(seconds=60)

    def makes_last_look(self, known: Sized) -> bool:
        """Whether a look at what is `known` is a last one by these: each broker is asked once, and for less."""
        return self.attempts == 1 and bool(known)


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds for the topics it selects. Lower tiers are recovered first; internal topics before all (tier 0)."""

    name: str
    topics: TopicSelector = TopicSelector()
    tier: int = 5
    min_replication_factor: int = 1
    candidate_order: CandidateOrder = CandidateOrder.LEAST_LOSS
    approval: Approval = Approval.MANUAL
    evidence: EvidenceRules = EvidenceRules()
    patience: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one plan. `wave_sizes`: partitions in the first waves; the last size repeats.

    `cool_down`: after an automatic election no further automatic one in this cluster until it has passed; a person's
    approval overrides it; None: none. `loss_budget_records`: acknowledged records that the automatic elections of one
    plan may lose by their proven bounds; an election without a proven bound fits no budget and asks a person; None: no
    budget.
    """

    partitions: int = 5000
    brokers_down_percent: int = 100
    wave_sizes: tuple[int, ...] = (1, 50, 2000)
    cool_down: timedelta | None = None
    loss_budget_records: int | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Ordered rules, first match wins; a topic no rule selects is observed only."""

    rules: tuple[Rule, ...] = (Rule("default"),)
    limits: Limits = field(default_factory=Limits)
    hold_back: HoldBack | None = None
    """None: whoever comes back meanwhile, comes back."""
    require_reason: bool = False
    """Whether an approval has to say why. Of the operator only: a command line keeps no approvals."""

    @property
    def widest_evidence_rules(self) -> EvidenceRules:
        """The longest deadline and most attempts any rule asks for: one gather serves all of them."""
        rules = [rule.evidence for rule in self.rules] or [EvidenceRules()]
        return EvidenceRules(max(rule.deadline for rule in rules), max(rule.attempts for rule in rules))

    def rule_for(self, topic: str) -> Rule | None:
        """The first rule that selects the topic, or None."""
        for rule in self.rules:  # no generator: it takes four times as long, and every partition is asked about
            if rule.topics.matches(topic):
                return rule
        return None
