"""Who has to say yes, and what may be elected with the yes that was given."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.recovery.ledger import Ledger
from kafka_recovery.recovery.ports import Approvals
from kafka_recovery.recovery.supervision import Mandate, unapproved


@dataclass(frozen=True, slots=True)
class Consent:
    """Approvals as the plan and the mandate of now want them, the stricter of both."""

    approvals: Approvals

    async def ask(self, plan: Plan, digest: str, elected: Iterable[Decision], now: Mandate) -> str | None:
        """Who approves, if anybody has to."""
        if any(now.wants_approval(decision) for decision in elected):
            return await self.approvals.granted(plan, digest)
        return None

    def within(
        self, elected: Mapping[TopicPartition, Decision], digest: str, by: str | None, now: Mandate, ledger: Ledger
    ) -> dict[TopicPartition, Decision]:
        """What may be elected with this approval; refuses the rest."""
        reasons = {} if by else {id: unapproved(decision, now, digest) for id, decision in elected.items()}
        for id, reason in sorted(reasons.items(), key=lambda refused: refused[0]):
            if reason:
                ledger.postponed.add(id)
                ledger.refuse(id, reason)
        return {id: decision for id, decision in elected.items() if not reasons.get(id)}
