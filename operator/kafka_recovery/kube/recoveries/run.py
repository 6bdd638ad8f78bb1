"""One PartitionRecovery on its way: a task that runs the engine until every partition has its end, and waits between.

It keeps nothing that a restart would miss: plans, approvals and waves are in the journal, all else is looked at anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, auto

from kafka_recovery.domain.counts import AWAITING_APPROVAL
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.election import Ranked, Scope
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome, Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.recoveries import left_plans
from kafka_recovery.kube.recoveries.approvals import KubeApprovals
from kafka_recovery.kube.recoveries.endings import end_of, foremost, reason_of
from kafka_recovery.kube.recoveries.hearing import Hearing
from kafka_recovery.kube.recoveries.hold_back import PodHold
from kafka_recovery.kube.recoveries.pauses import BREATH, LONGEST_HOLD, LONGEST_PAUSE, Pauses
from kafka_recovery.kube.recoveries.progress import Progress
from kafka_recovery.kube.recoveries.ranked_leaders import may_pass
from kafka_recovery.kube.recoveries.status import ApprovedBy, Phase
from kafka_recovery.kube.recoveries.supervision import OVER, KubeSupervision
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.ports import JournalUnwritable, PlanFinished, PlanForAnotherCluster

_LOG = logging.getLogger(__name__)

_TROUBLE = (ClusterFault, JournalUnwritable, InvalidDocument, PlanFinished, PlanForAnotherCluster, ApiError)


class _Step(Enum):
    """What the engine is asked next."""

    RESUME = auto()
    """Go on with what the journal knows as begun; it restores orders even where nothing may be elected."""
    EXECUTE = auto()
    """Ask for the plan that was shown, so that an approval of it counts also after a restart or a suspension."""
    RECOVER = auto()
    """Look and decide anew."""


async def _nobody_else() -> None:
    pass


def _told_nobody(at: datetime) -> None:
    pass


async def nobody_named(policy: Policy) -> Reason | None:
    """No leaders are named but those of the spec."""
    return None


@dataclass
class RecoveryRun:
    """`scope`: the partitions, frozen. `held_elsewhere`: those that another recovery has, and which one.

    `look_around`: asked once before the first try, so that `held_elsewhere` knows what a recovery left that is gone.
    `elected_before`: told since when an earlier process may have elected without asking anybody.
    `hold`: lets go of the brokers that it keeps away, whenever no election can be under way.
    `name_leaders`: asked before each plan under the policy in force; fills `ranked`, or says why it can't.
    `shown`: the digest of the plan that the status showed when the operator started, and `approval` who approved it.
    `taken_up`: whether the journal was read; until then an earlier process knows more about it.
    """

    engine: Callable[[], Engine]
    journal: RecordJournal
    approvals: KubeApprovals
    supervision: KubeSupervision
    progress: Progress
    scope: Sequence[TopicPartition]
    held_elsewhere: Callable[[], Mapping[TopicPartition, str]]
    designated: Mapping[TopicPartition, BrokerId]
    ranked: Mapping[TopicPartition, Ranked]
    shown: str | None
    approval: ApprovedBy | None
    name_leaders: Callable[[Policy], Awaitable[Reason | None]] = nobody_named
    look_around: Callable[[], Awaitable[None]] = _nobody_else
    elected_before: Callable[[datetime], None] = _told_nobody
    hold: PodHold | None = None
    taken_up: bool = False
    holds: frozenset[TopicPartition] = frozenset()
    """What the engine has in its hands, or has begun: no other recovery may touch it, not even an older one."""
    _step: _Step = _Step.RECOVER
    _plan: Plan | None = None
    _restored: bool = False
    """While nothing may be elected: whether everything that was begun has its own order again."""
    _person_mends: bool = False
    """Whether the last try ended for what the journal says: nothing but a person ends that."""
    _owners_hold: bool = False
    """Whether the last try ended because nothing may be done, by what objects say or what is known without asking."""
    _pauses: Pauses = field(default_factory=Pauses)
    _refusals: left_plans.Refusals = frozenset()
    _engine: Engine | None = None
    """While one of its calls is under way."""
    _leaving: bool = False
    _hearing: Hearing = field(default_factory=Hearing)

    def stir(self) -> None:
        """Kafka changed, or what is known of it: look again now, unless that ends no hold."""
        self.approvals.stir()
        if not self._owners_hold or self._may_go_on():
            self._pauses.wake()

    def wake(self) -> None:
        """Something was written: look again now, also for an approval."""
        self._pauses.wake()
        self.approvals.wake()

    @property
    def waits_to_be_mended(self) -> bool:
        """Whether it waits for a person to mend its journal, or what says how that goes on."""
        return self._person_mends

    def listen(self) -> None:
        """Somebody said something about the plan that is shown: if it is a no, no further wave begins."""
        self._hearing.somebody_spoke(self.approvals.hear, at_once=self.taken_up)

    @property
    def is_at_work(self) -> bool:
        """Whether it may have altered orders that it has not put back."""
        over = self.progress.end is not None or self._restored
        return bool(self.holds) and self.journal.begun and not over

    @property
    def holds_back(self) -> frozenset[str]:
        """Names of the Pods that are kept away."""
        return self.hold.pods_held if self.hold else frozenset()

    def stop(self) -> bool:
        """The process ends: begin no further wave. Whether one is under way, which is worth waiting for."""
        self._leaving = True
        self._hearing.stop()  # no further wave begins anyway
        if self._engine is None or not self.journal.waves_under_way:
            return False
        self._engine.stop()
        return True

    async def go(self) -> None:
        """Until the recovery has ended, or the process does: what is open then is resumed."""
        self.progress.total = len(self.scope)
        while not self._is_over():
            self._pauses.over()
            self._owners_hold = self._person_mends = False
            try:
                if not self.taken_up:
                    await self._begin()
                at_once = await self._once()
            except _TROUBLE as trouble:
                at_once = False
                self._met(trouble)
            except Exception:  # noqa: BLE001 - a defect in one recovery must neither end nor hide it
                at_once = False
                self.progress.interrupted()
                _LOG.exception("the recovery met an internal error")
                self.progress.enter(Phase.STUCK, Reason("InternalError", "see the operator's log; it is tried again"))
            if not self._is_over() and not at_once:
                await self._a_while()

    def _is_over(self) -> bool:
        return self._leaving or self.progress.end is not None

    def _met(self, trouble: Exception) -> None:
        """Tell of it, and choose the next step: what was begun is gone on with, as it would be after a crash."""
        self.progress.interrupted()
        of_cluster = isinstance(trouble, ClusterFault)
        reason = trouble.reason if isinstance(trouble, ClusterFault) else reason_of(trouble)
        _LOG.warning("the recovery can't go on: %s", reason)
        self.progress.enter(Phase.HELD if of_cluster else Phase.STUCK, reason)
        self._person_mends = isinstance(trouble, InvalidDocument)
        if isinstance(trouble, PlanFinished):
            self._plan, self._step = None, _Step.RECOVER
        elif self._step is _Step.RECOVER and self.taken_up and not of_cluster:
            self._step = _Step.RESUME

    async def _begin(self) -> None:
        """What an earlier process left: outcomes, a run in its middle, a plan that somebody may have approved."""
        outcomes, *_ = await asyncio.gather(self.journal.outcomes(), self.look_around(), self.journal.check_whole())
        unfinished = await self.journal.unfinished()
        for outcome in outcomes:
            self.progress.concluded(outcome)
        self.holds = frozenset(id for run in unfinished for id in run.begun)
        ended = await left_plans.remembered(self.journal, self.progress)
        if unfinished:
            self._step = _Step.RESUME
            self._show(unfinished[-1].plan, unfinished[-1].digest)
        elif self.shown and (plan := await self.journal.kept(self.shown)):
            self._show(plan, self.shown)
            if plan.elections:
                self._plan, self._step = plan, _Step.EXECUTE
        elif ended:
            digest = self.shown if self.shown and self.shown in ended else list(ended)[-1]
            self._show(ended[digest], digest)
        for run in unfinished:
            if run.begun and not isinstance(await self.approvals.standing(run.plan, run.digest), str):
                # A crash may have come before the status that tells of it.
                self.elected_before(run.plan.evidence.cluster.observed_at)
        told = self.progress.plan_shown
        if self.shown and (told is None or told.digest != self.shown):
            self.progress.fresh = False  # a status from a backup shows a plan that is not there any more
        self.taken_up = True
        self.progress.changed()

    def _show(self, plan: Plan, digest: str) -> None:
        """What the status says of a plan must outlive the process that wrote it."""
        self.progress.planned(plan, digest)
        if self.approval and digest == self.shown:
            self.progress.approved(self.approval)

    async def _once(self) -> bool:
        """One try; whether the next one should follow at once."""
        if self.journal.never_shown:
            await self.journal.unfinished()  # a person may have taken away by now what nobody was shown
        if self.hold and self.hold.keeps_away and not any(run.begun for run in await self.journal.unfinished()):
            await self.hold.let_go()  # what is waited for now may take days
        permission = await self.supervision.permission()
        halt = permission.halted
        if halt and halt.code in OVER:
            if self.hold:
                await self.hold.let_go()  # the API server refuses nothing for it any more
            return await self._call_off(halt)
        if refused := await self.approvals.hear():
            return await self._call_off(refused, End.REFUSED_BY_APPROVER)
        self._restored = self._restored and halt is not None
        if halt and (self._restored or self._step is not _Step.RESUME):
            self._hold(halt)
            return False
        if self._step is not _Step.RESUME and (unknown := await self.name_leaders(permission.policy)):
            self.progress.enter(Phase.HELD if may_pass(unknown) else Phase.STUCK, unknown)
            return False
        tried = self._step
        with self._calling() as engine:
            report = await self._try(engine)
        if self._leaving:
            return False  # that it was told to stop says nothing about a partition; the journal keeps the rest
        for outcome in report.outcomes:
            self.progress.concluded(outcome)
        self.progress.told(report)
        await self._let_go_if_settled(report.outcomes)
        self._restored = halt is not None and all(outcome.is_settled for outcome in report.outcomes)
        return await self._judge(tried)

    def _hold(self, halt: Reason) -> None:
        """Nothing is elected: until its owners want it again, or a person has looked at what nobody was shown."""
        self.progress.enter(Phase.STUCK if halt.code == Decisive.PLAN_NOT_SHOWN else Phase.HELD, halt)
        settled = not self.approvals.unsettled and (self._restored or self._step is not _Step.RESUME)
        self._owners_hold = settled and halt.code != Decisive.PLAN_NOT_SHOWN
        self._person_mends = settled and halt.code == Decisive.PLAN_NOT_SHOWN

    @contextmanager
    def _calling(self) -> Iterator[Engine]:
        """An engine for one call, which can be told to stop meanwhile."""
        self._engine = engine = self.engine()
        try:
            yield engine
        finally:
            self._engine = None

    async def _try(self, engine: Engine) -> Report:
        if self._step is _Step.RESUME:
            self._trying(Phase.RESTORING, Reason("Electing", "an earlier run is verified and gone on with"))
            elsewhere = self.held_elsewhere()
            self.holds |= {id for id in self.progress.open_partitions(self.scope) if id not in elsewhere}
            return await engine.resume({id: _in_other(name) for id, name in elsewhere.items()})
        shown = frozenset(self._plan.elections if self._plan else ())
        if self._step is _Step.EXECUTE and self._plan and self.held_elsewhere().keys().isdisjoint(shown):
            self.holds |= shown
            return await engine.execute(self._plan)
        self._trying(Phase.PLANNING, Reason("Planning", "every replica is being asked"))
        free = self._free()
        self.holds |= frozenset(free)
        return await engine.recover(Scope(free), self.designated, self.ranked)

    def _trying(self, phase: Phase, reason: Reason) -> None:
        """To try again what is stuck is no progress yet: tools that watch must not see it come and go."""
        if self.progress.phase is not Phase.STUCK:
            self.progress.enter(phase, reason)

    def _free(self) -> tuple[TopicPartition, ...]:
        """What is open and not in another recovery's hands."""
        elsewhere = self.held_elsewhere()
        left = self.progress.open_partitions(self.scope)
        for id in left:
            if id in elsewhere:
                self.progress.concluded(PartitionOutcome(id, Outcome.REFUSED, _in_other(elsewhere[id])))
        return tuple(id for id in left if id not in elsewhere)

    async def _let_go_if_settled(self, outcomes: Sequence[PartitionOutcome]) -> None:
        """No broker is kept away any more, once none of these partitions is in doubt."""
        if self.hold and all(outcome.is_settled for outcome in outcomes):
            await self.hold.let_go()

    async def _judge(self, tried: _Step) -> bool:
        """What the outcomes mean for the next step; whether that should follow at once."""
        if self.approvals.refused:
            return True
        unfinished = await self.journal.unfinished()
        self.holds = frozenset(id for run in unfinished for id in run.begun)
        left = self.progress.open_partitions(self.scope)
        if not left and not unfinished:
            if await self._is_left_altered():
                return False
            await left_plans.discard_unbegun(self.journal, self.progress)
            await self.journal.settle()
            outcomes = [outcome for _, outcome in sorted(self.progress.outcomes.items())]
            await self._end(*end_of(outcomes, len(self.scope)))
            return True
        halt = (await self.supervision.permission()).halted
        reasons = [outcome.reason for id in left if (outcome := self.progress.outcomes.get(id)) and outcome.reason]
        if self.approvals.void:
            await left_plans.discard_unbegun(self.journal, self.progress, replaced=True)
            self.progress.plan_void(self.approvals.void)
            self.approvals.void, self._plan, self._step = None, None, _Step.RECOVER
            return True
        if any(reason.code == AWAITING_APPROVAL for reason in reasons):
            self._plan = unfinished[-1].plan if unfinished else self.progress.plan
            self._step = _Step.EXECUTE if self._plan else _Step.RECOVER
            if halt:
                self._hold(halt)
            return halt is None
        self._step = _Step.RESUME if unfinished else _Step.RECOVER
        if halt:
            self._hold(halt)
            return False
        if tried is not _Step.RECOVER and not unfinished:
            return True
        self.progress.history.forgets(await self.journal.forget_vain())
        self._refusals = await left_plans.kept_refusals(self.journal, self.progress, self._refusals)
        self.progress.enter(Phase.STUCK, foremost(reasons))
        return False

    async def _call_off(self, why: Reason, end: End = End.ABORTED) -> bool:
        """Put orders back and end. An election has no undo: what leads stays."""
        self.progress.enter(Phase.RESTORING, why)
        if await self.journal.unfinished():
            with self._calling() as engine:
                report = await engine.undo()
            undone = report.outcomes
            for outcome in undone:
                self.progress.concluded(outcome)
            await self._let_go_if_settled(undone)
            own = [outcome for outcome in undone if outcome.order_restored]
            _LOG.info("%d of %d partitions have their own order", len(own), len(undone))
        if await self.journal.unfinished() or await self._is_left_altered():
            return False
        await left_plans.discard_unbegun(self.journal, self.progress)
        await self.journal.settle()  # a crash may have left the finalizer where no run was begun
        if unknown := self.journal.never_shown:
            why = Reason(why.code, f"{why.message}; no order was restored for what nobody was shown: {unknown.message}")
        await self._end(end, why)
        return True

    async def _is_left_altered(self) -> bool:
        if why := await left_plans.left_altered(self.journal, self.engine):
            self.progress.enter(Phase.STUCK, why)
        return why is not None

    async def _end(self, end: End, why: Reason) -> None:
        """Over; whoever said something about it and got no answer gets one first."""
        await self.approvals.close(why)
        self.progress.ended(end, why)

    async def _a_while(self) -> None:
        await asyncio.sleep(BREATH.total_seconds())
        if self._owners_hold and not self._may_go_on():
            await self._pauses.until(self._may_go_on)
            return
        if self._person_mends:
            await left_plans.until_mended(self.journal, self._pauses)
            return
        await self._pauses.longer(LONGEST_HOLD if self.progress.phase is Phase.HELD else LONGEST_PAUSE)

    def _may_go_on(self) -> bool:
        """Whether what held the last try does not hold the next one, as far as is known. Tells what does now, if so."""
        now = self.supervision.judged_again()
        if now is None or now.halted is None:
            return True
        self._hold(now.halted)
        return False


def _in_other(name: str) -> Reason:
    return Reason("InOtherRecovery", f"PartitionRecovery {name} has it; looked at again when that ended")
