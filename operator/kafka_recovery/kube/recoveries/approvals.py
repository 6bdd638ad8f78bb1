"""Port `Approvals` on RecoveryApproval objects: waiting until a person says yes or no to exactly this plan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta

from kafka_recovery.decision.attesting import attested
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.sameness import difference
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.election import Ranked, Scope
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.printable import is_blank
from kafka_recovery.kube.clusters.history import NO_CONTROLLERS
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.recoveries.last_look import Look, as_before
from kafka_recovery.kube.recoveries.pauses import LOOK, backstop
from kafka_recovery.kube.recoveries.progress import Progress
from kafka_recovery.kube.recoveries.status import OBSERVE_ONLY, ApprovedBy, PlanNow, plan_asked, plan_now
from kafka_recovery.kube.recoveries.supervision import KubeSupervision
from kafka_recovery.kube.recoveries.unasked import Tries, Unasked, is_any_tried
from kafka_recovery.kube.resources.kinds import Meta, RecoveryApproval, UnreadableApproval, Word
from kafka_recovery.kube.resources.objects import Key, Objects
from kafka_recovery.recovery.clock import SystemClock
from kafka_recovery.recovery.looking_again import look_again
from kafka_recovery.recovery.ports import Clock, Cluster
from kafka_recovery.recovery.signs_of_life import SignsOfLife
from kafka_recovery.recovery.supervision import Permission

_LOG = logging.getLogger(__name__)

BREATH = timedelta(milliseconds=200)
"""Between two readings, however much is written."""

_FOREVER = timedelta(days=365)


def objection(approval: RecoveryApproval, recovery: Key, uid: str, plan: PlanNow) -> Reason | None:
    """Why an approval does not hold for this plan of this recovery; None if it does.

    Its author was checked at the door: the admission policy binds `approver` to the authenticated user, who needs the
    verb `approve`.
    """
    said = f"RecoveryApproval {approval.meta.name}"
    if not _is_of(approval, recovery, uid):
        return Reason(
            Decisive.PLAN_OUTDATED,
            f"{said} is for uid {approval.recovery_uid}; this recovery has uid {uid}: approve it again",
        )
    if approval.decision is Word.REFUSE:
        return None
    if limit := approval.unknown.restricts:
        return limit
    if approval.plan_digest != plan.digest:
        return Reason(
            Decisive.PLAN_OUTDATED,
            f"{said} is for plan {approval.plan_digest[:12]}; the plan is {plan.digest[:12]} now: read it",
        )
    if plan.wants_reason and is_blank(approval.reason):
        return Reason(
            Decisive.INVALID_SPEC,
            f"{said} does not say why, which the policy wants (requireReason): approve again, with --reason",
        )
    order = list(LossClass)
    if approval.max_loss_class and order.index(plan.worst) > order.index(approval.max_loss_class):
        return Reason(
            "LossClassExceeded", f"{said} allows {approval.max_loss_class}; an election of the plan is {plan.worst}"
        )
    return None


def _is_of(approval: RecoveryApproval, recovery: Key, uid: str) -> bool:
    return (approval.meta.namespace, approval.recovery_name) == recovery and approval.recovery_uid == uid


def _outvoted(approval: RecoveryApproval, counts: RecoveryApproval | None) -> Reason | None:
    """Why a yes means nothing beside what counts already: a no."""
    if counts is None or counts.decision is not Word.REFUSE or approval.decision is Word.REFUSE:
        return None
    said = f"{counts.approver} refused the plan by RecoveryApproval {counts.meta.name}"
    return Reason(Decisive.REFUSED_BY_APPROVER, f"{said}: the recovery ends")


def _not_used(approval: RecoveryApproval, against: Reason | None) -> str:
    """That a yes does nothing."""
    if against is None or approval.decision is Word.REFUSE:
        return ""
    return f"the approval of {approval.approver} is not used: {against.message}"


async def unanswered(objects: Objects, recovery: Key, uid: str) -> Sequence[RecoveryApproval | UnreadableApproval]:
    """Those of a recovery that has ended whose authors were told nothing; none where they can't be read."""
    try:
        said = await objects.approvals(recovery)
    except (ApiError, InvalidDocument) as error:
        _LOG.warning("approvals can't be read, so none is answered any more: %s", error)
        return ()
    return [each for each in said if each.recovery_uid == uid and not each.answered]


def too_late(end: Reason) -> Reason:
    """The answer to them."""
    return Reason("RecoveryFinished", f"the recovery has ended: {end}")


@dataclass
class KubeApprovals:
    """Asks for as long as the plan holds. Looks again whenever the evidence grew older than `maxAge`, or rules changed.

    Objects are read when one was written (`wake`), and seldom otherwise. A yes counts only as it was just read.
    `refused`: who ended the recovery, and why. `void`: why the plan asked about last does not hold any more.
    `answered` tells an author whether the approval counts; False: that could not be told yet. Every one is answered,
    also those that another one's no comes before, and when the recovery has ended (`close`).
    `admission`: why an approval can't be trusted (the admission policy is not installed, or was not when it was
    written); then no lossy plan is executed. `attesting`: why nobody can trust who attested what in this recovery; then
    no plan is executed that stands on it. `signs`: what looks find of attestations is kept there.
    `history`: why nothing can be proven at this moment; None: it can. A plan that was made without looks again then.
    """

    objects: Objects
    recovery: Key
    uid: str
    cluster: Cluster
    supervision: KubeSupervision
    progress: Progress
    admission: Callable[[Meta], Awaitable[Reason | None]]
    attesting: Callable[[], Awaitable[Reason | None]]
    answered: Callable[[Meta, Reason | None], Awaitable[bool]]
    designated: Mapping[TopicPartition, BrokerId] = field(default_factory=dict)
    ranked: Mapping[TopicPartition, Ranked] = field(default_factory=dict)
    history: Callable[[], Reason | None] = lambda: NO_CONTROLLERS
    signs: SignsOfLife = field(default_factory=SignsOfLife)
    clock: Clock = field(default_factory=SystemClock)
    refused: Reason | None = None
    void: Reason | None = None
    unsettled: bool = False
    """Whether what people said could not be read the last time, or not be answered."""
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _unread: bool = True
    """Whether somebody wrote something since it was read last."""
    _stands: PlanNow | None = None
    """The plan whose approval was looked for last: to weigh thousands of elections before each wave takes a while."""
    _told: tuple[tuple[str, bool], PlanNow] | None = None
    """The plan that a person was asked about last, and whether about all of it."""
    _answers: dict[str, Reason | None] = field(default_factory=dict)
    _unused: str = ""
    """Whose approval is there and does nothing, and why."""
    _tries: Tries = field(default_factory=Tries)

    def wake(self) -> None:
        """Somebody wrote something: read it."""
        self._unread = True
        self.stir()

    def stir(self) -> None:
        """What is known without asking changed: judge it again."""
        self._woken.set()

    async def granted(self, plan: Plan, digest: str) -> str | None:
        """Who said yes, or None: somebody said no (`refused`), the plan is void (`void`), or the run was halted.

        None as well where nobody is needed, or not any more: for elections that are due by what is allowed now, such
        as after a cool-down, or after a halt. The engine holds them by what it reads itself, and asks again for the
        rest.
        """
        self.void = None
        self.progress.planned(plan, digest)
        look = Look(plan, self.clock)
        shown = await self._shown(plan, digest)
        heard = await self._heard(shown)
        while True:
            if heard.now.halted or self._is_no(heard.said):
                return None
            unasked = self._unasked(plan, heard.now)
            due = self._tries.is_due(unasked)
            if due and is_any_tried(unasked):
                look.is_over(self.clock)
            doubt = await self._doubt(plan, heard.now, look)
            if doubt and (doubt.code == Decisive.PLAN_OUTDATED or self.clock.now() >= look.expires_at):
                self.void = doubt
                return None
            if (said := heard.said) and doubt is None and heard.held is None:
                if heard.just_read:
                    self.progress.approved(ApprovedBy(said.meta.name, said.meta.uid, said.approver))
                    return said.approver
                heard = await self._heard(shown)
                continue
            if doubt is None and due:
                self._tries.begun(unasked)
                self.supervision.goes_on()
                return None
            why = self._why_unused(heard.held or self._why_asked(digest))
            self.progress.awaiting(why, await self._asked(plan, digest, heard.now))
            await self._a_while(look.good_until)
            heard = await self._heard(shown, heard)

    def _unasked(self, plan: Plan, now: Permission) -> Unasked:
        """Elections without a leader yet that want nobody's yes by what is allowed now."""
        elections = plan.elections
        left = self.progress.open_partitions(elections)
        return {id: self.progress.outcomes.get(id) for id in left if not now.wants_approval(elections[id])}

    async def _heard(self, shown: PlanNow, before: _Heard | None = None) -> _Heard:
        """What is allowed and said now; as it was `before`, while that is not old and nobody tells of a change."""
        loop = asyncio.get_running_loop()
        if before and not self._unread and loop.time() < before.good_until:
            known = self.supervision.judged_again()
            if known and not known.halted:
                return replace(before, now=known, just_read=False)
        if before:
            await asyncio.sleep(before.at + BREATH.total_seconds() - loop.time())
        self._unread = False
        at = loop.time()
        now = await self.supervision.permission()
        said, held = (None, None) if now.halted else await self._said(shown)
        lasts = LOOK if self.unsettled or (held and held.code == Decisive.ADMISSION_POLICY_MISSING) else backstop()
        return _Heard(now, said, held, at, at + lasts.total_seconds())

    async def standing(self, plan: Plan, digest: str) -> str | Reason | None:
        """Who said yes by a RecoveryApproval that is there now and counts; None, or why one does not.

        It is read anew each time, so that one that is taken back counts for no further wave.
        """
        if self.void:
            return self.void
        if self._stands is None or self._stands.digest != digest:
            self._stands = await self._shown(plan, digest)
        said, reason = await self._said(self._stands)
        if said is None or reason or self._is_no(said):
            self.progress.disapproved(digest)
            return reason
        if self.progress.plan_shown and self.progress.plan_shown.digest == digest:
            self.progress.approved(ApprovedBy(said.meta.name, said.meta.uid, said.approver))
        return said.approver

    async def _shown(self, plan: Plan, digest: str) -> PlanNow:
        """What the status shows of it, or would."""
        known = self.progress.plan_shown
        return known if known and known.digest == digest else await asyncio.to_thread(plan_now, plan, digest)

    async def _asked(self, plan: Plan, digest: str, now: Permission) -> PlanNow:
        """What the status shows of it while a person is asked."""
        because = self.supervision.asked_because(now)
        asked = digest, bool(because)
        if self._told is None or self._told[0] != asked:
            self._told = asked, await asyncio.to_thread(plan_asked, plan, digest, because)
        elif self._told[1].because not in ("", because):
            self._told = asked, replace(self._told[1], because=because)
        return self._told[1]

    async def hear(self) -> Reason | None:
        """Why the recovery ends, if somebody refused the plan that is shown; also while nothing may be elected."""
        plan = self.progress.plan_shown
        if plan is not None:
            self._is_no((await self._said(plan))[0])
        return self.refused

    def _is_no(self, said: RecoveryApproval | None) -> bool:
        if said is None or said.decision is not Word.REFUSE:
            return False
        why = f": {said.reason}" if said.reason else ""
        self.refused = Reason(Decisive.REFUSED_BY_APPROVER, f"{said.approver} refused the plan{why}")
        return True

    async def close(self, end: Reason) -> None:
        """The recovery ends: whatever was said about it and got no answer, in this process or another, gets this."""
        for approval in await unanswered(self.objects, self.recovery, self.uid):
            if approval.meta.uid not in self._answers:
                await self._answer(approval.meta, too_late(end))

    async def _doubt(self, plan: Plan, now: Permission, look: Look) -> Reason | None:
        """Why the plan may be another one by now.

        It is looked at anew if the last look is old, the rules changed, or people attest another thing.
        """
        more_to_prove = look.without_history and self.history() is None
        if self.clock.monotonic() < look.good_until and look.is_by(now) and not more_to_prove:
            return None
        changed = await self._changed(plan, now)
        if changed is None:
            look.was_good(self.clock, now)
        return changed

    async def _said(self, plan: PlanNow) -> tuple[RecoveryApproval | None, Reason | None]:
        """The approval that counts, and why none is acted on, if so. One that says no comes before all others."""
        try:
            said = await self.objects.approvals(self.recovery)
        except (ApiError, InvalidDocument) as error:
            _LOG.warning("approvals can't be read: %s", error)
            self.unsettled = True
            return None, Reason("ObjectsUnreadable", f"RecoveryApprovals can't be read, so none counts: {error}")
        self.unsettled = False
        counts: RecoveryApproval | None = None
        held: Reason | None = None
        unused = ""
        for bad in (each for each in said if isinstance(each, UnreadableApproval)):
            await self._answer(bad.meta, Reason(Decisive.INVALID_SPEC, bad.why))
            unused = f"RecoveryApproval {bad.meta.name} is not used, for it can't be read"
        good = (each for each in said if isinstance(each, RecoveryApproval))
        for approval in sorted(good, key=lambda each: each.decision is not Word.REFUSE):
            against = objection(approval, self.recovery, self.uid, plan) or _outvoted(approval, counts)
            if against is None and counts is None:
                counts = approval
                held = None if approval.decision is Word.REFUSE else await self._held(plan, approval)
            await self._answer(approval.meta, against or held)
            if _is_of(approval, self.recovery, self.uid):  # one of another recovery with this name is nobody's here
                unused = _not_used(approval, against or held) or unused
        self._unused = unused if counts is None or held else ""
        return counts, held

    async def _answer(self, approval: Meta, against: Reason | None) -> None:
        """Tell its author, once for each answer."""
        uid = approval.uid
        if uid in self._answers and self._answers[uid] == against:
            return
        if await self.answered(approval, against):
            self._answers[uid] = against
        else:
            self.unsettled = True

    async def _held(self, plan: PlanNow, approval: RecoveryApproval) -> Reason | None:
        """Why even a good approval is not acted on now."""
        caution = self.supervision.caution
        if caution and caution.code == OBSERVE_ONLY:
            return caution
        if plan.attested and (unchecked := await self.attesting()):
            return unchecked
        return None if plan.worst is LossClass.LOSSLESS else await self.admission(approval.meta)

    async def _changed(self, plan: Plan, allowed: Permission) -> Reason | None:
        """Why the plan would be another one now. A clean member that came back is seen by the re-check of its wave."""
        scope, policy = Scope(tuple(plan.elections)), allowed.policy
        try:
            evidence = await look_again(self.cluster, scope, policy.widest_evidence_rules, plan.evidence)
        except ClusterFault as fault:
            return Reason("EvidenceTooOld", f"the cluster can't be looked at again: {fault.reason}")
        done = self._done(plan, evidence)
        before = as_before(attested(evidence, allowed.attestations or ()), plan, done)
        self.signs.saw(before.cluster.attestations)
        now = await asyncio.to_thread(
            decide, before, policy, waited=_FOREVER, designated=self.designated, ranked=self.ranked
        )
        left = tuple(decision for decision in plan.decisions if decision.id not in done)
        return difference(replace(plan, decisions=left), now, allowed.wants_approval)

    def _done(self, plan: Plan, evidence: Evidence) -> set[TopicPartition]:
        """What has its end and a leader, or is gone: nobody is asked about it any more, unless it is offline again."""
        offline = {partition.id for partition in evidence.partitions if partition.leader is None}
        return plan.elections.keys() - set(self.progress.open_partitions(plan.elections)) - offline

    def _why_asked(self, digest: str) -> Reason:
        if caution := self.supervision.caution:
            return caution
        name = self.recovery[1]
        return Reason(
            Decisive.AWAITING_APPROVAL,
            f"plan {digest[:12]} waits for a RecoveryApproval; read it: kubectl kafka-recovery plan {name}",
        )

    def _why_unused(self, asked: Reason) -> Reason:
        """The same; with the approval that is there and does nothing, if so: its author should not wait for it."""
        return Reason(asked.code, f"{asked.message}; {self._unused}") if self._unused else asked

    async def _a_while(self, until: timedelta) -> None:
        left = until - self.clock.monotonic()
        pause = min(left, LOOK) if left > timedelta(0) else LOOK  # else it was looked at just now, in vain
        with suppress(TimeoutError):
            # Not wait_for: before Python 3.12 it swallows a cancellation that comes together with the event.
            async with asyncio.timeout(pause.total_seconds()):
                await self._woken.wait()
        self._woken.clear()


@dataclass(frozen=True, slots=True)
class _Heard:
    """What is allowed, whose word counts, and why it is not acted on, if so.

    `at`, `good_until`: when it was asked for, and until when nobody needs to ask again (on the loop's clock).
    """

    now: Permission
    said: RecoveryApproval | None
    held: Reason | None
    at: float
    good_until: float
    just_read: bool = True
