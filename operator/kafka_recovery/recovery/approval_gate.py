"""Who has to say yes, and what may be elected with the yes that stands at this moment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.ports import Approvals
from kafka_recovery.recovery.supervision import Permission, unapproved


@dataclass(frozen=True, slots=True)
class ApprovalGate:
    """Approvals as the plan and the permissions of now want them, the stricter of both.

    A yes is never remembered here: whoever wants to elect has it read again.
    """

    approvals: Approvals

    async def ask(self, plan: Plan, digest: str, elected: Iterable[Decision], now: Permission) -> str | None:
        """Who approves, if anybody has to."""
        if any(now.wants_approval(decision) for decision in elected):
            return await self.approvals.granted(plan, digest)
        return None

    async def denied(
        self, plan: Plan, digest: str, members: Iterable[Decision], now: Permission
    ) -> dict[TopicPartition, Reason]:
        """Those that want a yes where none stands at this moment, and why; their approvals may still come."""
        wanting = [decision for decision in members if now.wants_approval(decision)]
        by = await self.approvals.standing(plan, digest) if wanting else None
        return {} if isinstance(by, str) else unapproved(wanting, now, digest, by)
