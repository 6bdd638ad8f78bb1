"""Who has to say yes, and what may be elected with the yes that was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ledger import Ledger
from kafka_recovery.recovery.ports import Approvals


@dataclass(frozen=True, slots=True)
class Consent:
    """Approvals as the plan and the policy of now want them, the stricter of both."""

    approvals: Approvals
    policy: Policy

    async def ask(self, plan: Plan, digest: str, elected: Iterable[Decision]) -> str | None:
        """Who approves, if anybody has to."""
        if any(self._needed(decision) for decision in elected):
            return await self.approvals.granted(plan, digest)
        return None

    def within(
        self, elected: Mapping[TopicPartition, Decision], digest: str, by: str | None, ledger: Ledger
    ) -> dict[TopicPartition, Decision]:
        """What may be elected with this approval; refuses the rest."""
        missing = [] if by else sorted(id for id, decision in elected.items() if self._needed(decision))
        ledger.postponed.update(missing)
        for id in missing:
            ledger.refuse(id, Reason("ApprovalMissing", f"plan {digest[:12]} was not approved: it changed nothing"))
        return {id: decision for id, decision in elected.items() if id not in missing}

    def _needed(self, decision: Decision) -> bool:
        """Whether the plan or the policy of now, the stricter of both, wants a person to say yes."""
        rule = self.policy.rule_for(decision.id.topic)
        now = decision if rule is None else replace(decision, approval=rule.approval)
        return decision.needs_approval or now.needs_approval
