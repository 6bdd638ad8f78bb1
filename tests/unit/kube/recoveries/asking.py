"""A plan that waits for somebody's yes."""

from __future__ import annotations

import asyncio

from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.recoveries.approvals import KubeApprovals
from kafka_recovery.kube.recoveries.status import Phase
from unit.kube.operated import Operated
from unit.virtual import awaited

NO_POLICY = Reason("AdmissionPolicyMissing", "nobody checks who writes approvals")


class Asked:
    """A plan that waits for its approval."""

    def __init__(self, operated: Operated, plan: Plan) -> None:
        self.operated = operated
        self.plan = plan
        self.digest = digest(plan)
        self.approvals: KubeApprovals = operated.process().approvals
        self.task = asyncio.get_running_loop().create_task(self.approvals.granted(plan, self.digest))

    async def after(self, wait: float) -> str | None:
        """Who approved within so many virtual seconds; "" while nobody has answered."""
        self.approvals.wake()
        await asyncio.wait([self.task], timeout=wait)
        return self.task.result() if self.task.done() else ""

    @property
    def reason(self) -> str:
        """What the status says."""
        return self.approvals.progress.reason.code


async def asked(operated: Operated) -> Asked:
    now = await operated.supervision().permission()
    question = Asked(operated, await operated.world.plan(now.policy))
    await awaited(lambda: question.approvals.progress.phase is Phase.AWAITING_APPROVAL)
    return question
