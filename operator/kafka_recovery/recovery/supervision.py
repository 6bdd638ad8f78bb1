"""What its owners allow a run while it goes on: read before every wave; the stricter of plan and now holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from kafka_recovery.decision.attesting import taken_back
from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason


class Authority(StrEnum):
    """How far an engine may go by itself, the strictest first."""

    OBSERVE = "Observe"
    """It looks and plans, and elects nobody."""
    APPROVE = "Approve"
    """A person says yes to every election, also where the rule approves by itself."""
    AUTOMATIC = "Automatic"
    """The rules say where a person is needed."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What is allowed at one moment. `halt`: why no further wave may begin, if its owners suspended the run.

    `leaving`: the call of the engine was told to stop, so it waits for nothing that it has not begun itself.
    `attestations`: what people attest at that moment, void what an earlier look found to be; None: nobody is asked, and
    what a plan holds is not taken back.
    """

    policy: Policy
    authority: Authority = Authority.AUTOMATIC
    halt: Reason | None = None
    leaving: bool = False
    attestations: tuple[Attestation, ...] | None = None

    @property
    def halted(self) -> Reason | None:
        """Why no election may be held, if none may."""
        if self.halt is None and self.authority is Authority.OBSERVE:
            return Reason("ObserveOnly", "authority is Observe: nobody is elected until it is Approve or Automatic")
        return self.halt

    def wants_approval(self, decision: Decision) -> bool:
        """Whether the plan, its rule as it is now, or the authority wants a person to say yes: the strictest holds."""
        rule = self.policy.rule_for(decision.id.topic)
        # Thousands of elections are asked again and again, so that a copy is made only of what changed.
        now = replace(decision, approval=rule.approval) if rule and rule.approval is not decision.approval else decision
        everything = self.authority is not Authority.AUTOMATIC and decision.verdict is Verdict.ELECT
        return everything or decision.needs_approval or now.needs_approval


class Supervision(Protocol):
    """Asking a run's owners what they want now. The operator reads its resources; the command line has one policy."""

    async def permission(self) -> Permission:
        """What is allowed now, as new as it can be had: a change holds from the next wave on.

        It must not raise. Whoever can't find out says so with a `halt`: silence is no permission.
        """
        ...


@dataclass(frozen=True, slots=True)
class Unsupervised:
    """One policy from beginning to end, what was attested at its beginning, and nobody who suspends."""

    policy: Policy
    attestations: tuple[Attestation, ...] | None = None

    async def permission(self) -> Permission:
        """The same, always."""
        return Permission(self.policy, attestations=self.attestations)


def outruled(decision: Decision, policy: Policy) -> Reason | None:
    """Why a decision does not stand under the rules of now; a new plan may."""
    rule, topic = policy.rule_for(decision.id.topic), decision.id.topic
    if rule is None:
        message = f"it was planned under rule {decision.rule}; now no rule selects topic {topic}: it is observed only"
        return Reason("NoRule", message)
    if (rule.name, rule.candidate_order) != (decision.rule, decision.candidate_order):
        planned, now = f"{decision.rule} ({decision.candidate_order})", f"{rule.name} ({rule.candidate_order})"
        return Reason("PlanOutdated", f"it was planned under rule {planned} and falls under {now} now; plan again")
    return None


def withdrawn(plan: Plan, decisions: Iterable[Decision], now: Permission) -> dict[TopicPartition, Reason]:
    """Those that stand on what a person attested and has taken back since, or what is void; another plan is made."""
    gone = {each.broker: each for each in taken_back(plan.evidence.cluster, now.attestations)}
    void = {replace(each, void=None): each.void for each in now.attestations or ()}
    hosting = ((each.id, gone.keys() & set(each.assignment)) for each in decisions) if gone else ()
    found = ((id, gone[min(brokers)]) for id, brokers in hosting if brokers)
    return {id: void.get(each) or _withdrawn(each) for id, each in found}


def _withdrawn(gone: Attestation) -> Reason:
    message = (
        f"when the plan was made, {gone.by} attested that the disk of broker {gone.broker} is lost; that was taken "
        "back or changed since, so nobody is elected by it here"
    )
    return Reason("AttestationEnded", message)


def unapproved(
    decisions: Iterable[Decision], now: Permission, digest: str, why: Reason | None = None
) -> dict[TopicPartition, Reason]:
    """Those that want a person to say yes, where nobody's yes stands. `why`: what keeps one that was said from it."""
    wanting = (decision for decision in decisions if now.wants_approval(decision))
    return {decision.id: _unapproved(decision, now, digest, why) for decision in wanting}


def _unapproved(decision: Decision, now: Permission, digest: str, why: Reason | None) -> Reason:
    rule = now.policy.rule_for(decision.id.topic)
    changed = ""
    if now.authority is not Authority.AUTOMATIC:
        changed = f"; authority is {now.authority} now"
    elif rule is not None and rule.approval is not decision.approval:
        changed = f"; rule {rule.name} says {rule.approval} now, the plan {decision.approval}"
    because = f"; {why.code}: {why.message}" if why else ""
    message = f"no approval of plan {digest[:12]} stands: nothing was changed here{changed}{because}"
    return Reason("AwaitingApproval", message)


def beyond_limit(members: Sequence[Decision], begun: int, policy: Policy) -> dict[TopicPartition, Reason]:
    """Those of a wave that exceed today's limit once so many elections of its plan were begun; the last go first."""
    limit = policy.limits.partitions
    message = f"limits.partitions is {limit} now, and this plan began so many with those before it; plan again"
    return {decision.id: Reason("PartitionLimitReached", message) for decision in members[max(0, limit - begun) :]}
