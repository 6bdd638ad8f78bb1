"""Port `Approvals` on RecoveryApproval objects: waiting until a person says yes or no to exactly this plan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.sameness import difference, elections
from kafka_recovery.domain.documents import InvalidDocument
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import LossClass, Plan
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.kube.api import ApiError
from kafka_recovery.kube.objects import Key, Objects
from kafka_recovery.kube.progress import Progress, longest_age
from kafka_recovery.kube.recovery_status import ApprovedBy, PlanNow, plan_now
from kafka_recovery.kube.resources import RecoveryApproval, Word
from kafka_recovery.kube.supervision import KubeSupervision
from kafka_recovery.recovery.clock import SystemClock
from kafka_recovery.recovery.ports import Clock, Cluster

_LOG = logging.getLogger(__name__)

LOOK = timedelta(seconds=5)
"""How often approvals are listed when nobody told that there is a new one."""

_FOREVER = timedelta(days=365)


def objection(approval: RecoveryApproval, recovery: Key, uid: str, plan: PlanNow) -> Reason | None:
    """Why an approval does not hold for this plan of this recovery; None if it does.

    Its author was checked at the door: the admission policy binds `approver` to the authenticated user, who needs the
    verb `approve`.
    """
    said = f"RecoveryApproval {approval.meta.name}"
    if (approval.meta.namespace, approval.recovery_name) != recovery or approval.recovery_uid != uid:
        return Reason(
            "OtherRecovery", f"{said} is for uid {approval.recovery_uid}; this recovery has uid {uid}: approve it anew"
        )
    if approval.decision is Word.REFUSE:
        return None
    if approval.plan_digest != plan.digest:
        return Reason(
            "OtherPlan", f"{said} is for plan {approval.plan_digest[:12]}; the plan is {plan.digest[:12]} now: read it"
        )
    order = list(LossClass)
    if approval.max_loss_class and order.index(plan.worst) > order.index(approval.max_loss_class):
        return Reason(
            "LossClassExceeded", f"{said} allows {approval.max_loss_class}; an election of the plan is {plan.worst}"
        )
    return None


@dataclass
class KubeApprovals:
    """Asks for as long as the plan holds. Looks at the cluster again whenever the evidence grew older than `maxAge`.

    `refused_by`: who ended the recovery by saying Refuse. `void`: why the plan asked about last does not hold any more.
    `admission`: why approvals can't be trusted (the admission policy is not installed); then no lossy plan is executed.
    """

    objects: Objects
    recovery: Key
    uid: str
    cluster: Cluster
    supervision: KubeSupervision
    progress: Progress
    admission: Callable[[], Awaitable[Reason | None]]
    answered: Callable[[RecoveryApproval, Reason | None], Awaitable[None]]
    designated: dict[TopicPartition, BrokerId] = field(default_factory=dict)
    clock: Clock = field(default_factory=SystemClock)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    refused_by: ApprovedBy | None = None
    void: Reason | None = None
    _asked: set[str] = field(default_factory=set)

    async def granted(self, plan: Plan, digest: str) -> str | None:
        """Who said yes, or None: somebody said no (`refused_by`), the plan is void (`void`), or the run was halted.

        Elections that need no approval don't wait for those that do: asked for the first time about a plan with both,
        the answer is None, and the engine elects what it may; asked for the rest of it, a person is waited for.
        """
        self.void = None
        self.progress.planned(plan, digest)
        now = await self.supervision.mandate()
        if digest not in self._asked and any(not now.wants_approval(decision) for decision in elections(plan)):
            self._asked.add(digest)
            return None
        age = longest_age(plan)
        fresh_until = self.clock.monotonic() + age
        expires_at = self.clock.now() + 2 * age
        shown = plan_now(plan, digest, expires_at)
        while True:
            self.wake.clear()
            if (await self.supervision.mandate()).halted:
                return None
            said, reason = await self._said(shown)
            if said and said.decision is Word.REFUSE:
                self.refused_by = _author(said)
                return None
            stale = self.clock.monotonic() >= fresh_until
            if stale:
                changed = await self._changed(plan)
                if changed is None:
                    fresh_until, expires_at = self.clock.monotonic() + age, self.clock.now() + 2 * age
                    stale = False
                elif changed.code == "PlanChanged" or self.clock.now() >= expires_at:
                    self.void = changed
                    return None
            if said and not stale and reason is None:
                author = _author(said)
                self.progress.approved(author)
                return author.by
            self.progress.awaiting(expires_at, reason or self._why_asked(digest))
            await self._a_while(fresh_until)

    async def _said(self, plan: PlanNow) -> tuple[RecoveryApproval | None, Reason | None]:
        """The first approval that counts, and why it is not acted on, if so."""
        try:
            said = await self.objects.approvals(self.recovery)
        except (ApiError, InvalidDocument) as error:
            _LOG.warning("approvals can't be read: %s", error)
            return None, None
        for approval in said:
            against = objection(approval, self.recovery, self.uid, plan)
            held = None if against or approval.decision is Word.REFUSE else await self._held(plan)
            await self.answered(approval, against or held)
            if against is None:
                return approval, held
        return None, None

    async def _held(self, plan: PlanNow) -> Reason | None:
        """Why even a good approval is not acted on now."""
        caution = self.supervision.caution
        if caution and caution.code == "ObserveOnly":
            return caution
        return None if plan.worst is LossClass.LOSSLESS else await self.admission()

    async def _changed(self, plan: Plan) -> Reason | None:
        """Why the plan would be another one now. A clean member that came back is seen by the re-check of its wave."""
        policy = (await self.supervision.mandate()).policy
        scope = Scope(tuple(decision.id for decision in elections(plan)))
        try:
            evidence = await self.cluster.gather(scope, policy.widest_evidence_rules)
        except ClusterFault as fault:
            return Reason("EvidenceTooOld", f"the cluster can't be looked at again: {fault.reason}")
        return difference(plan, decide(evidence, policy, waited=_FOREVER, designated=self.designated))

    def _why_asked(self, digest: str) -> Reason:
        if caution := self.supervision.caution:
            return caution
        name = self.recovery[1]
        return Reason(
            "AwaitingApproval",
            f"plan {digest[:12]} waits for a RecoveryApproval; read it: kubectl kafka-recovery plan {name}",
        )

    async def _a_while(self, until: timedelta) -> None:
        left = max(timedelta(milliseconds=100), until - self.clock.monotonic())
        try:
            await asyncio.wait_for(self.wake.wait(), min(left, LOOK).total_seconds())
        except TimeoutError:
            return


def _author(approval: RecoveryApproval) -> ApprovedBy:
    return ApprovedBy(approval.meta.name, approval.meta.uid, approval.approver)
