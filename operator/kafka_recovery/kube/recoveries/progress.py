"""What a recovery's run tells: the engine's observer, from which status, metrics and logs are made."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.decision.sameness import changes
from kafka_recovery.domain.counts import GONE
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome, Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.measured import tell_of
from kafka_recovery.kube.machinery.conditions import instant
from kafka_recovery.kube.machinery.metrics import Metrics, Step
from kafka_recovery.kube.recoveries.plan_history import Became, PlanHistory, PlanTold
from kafka_recovery.kube.recoveries.status import (
    ELECTED,
    REFUSED_BY_APPROVER,
    ApprovedBy,
    Known,
    Phase,
    PlanNow,
    RankedBy,
    plan_now,
)
from kafka_recovery.recovery.signs_of_life import Said

_LOG = logging.getLogger(__name__)

_LONG = timedelta(seconds=10)
"""A wait whose end is told. That of a shorter one would be another at each look, and each a write of the status."""


@dataclass
class Progress:
    """Port `Observer` for one recovery.

    `changed` is called after every change, `electing` before every wave with whether a person approved it, `tried`
    after every try with whether it surely changed nothing; they must be quick and not raise. `label`: the cluster's,
    for metrics.
    """

    changed: Callable[[], None]
    electing: Callable[[bool], None]
    metrics: Metrics
    label: str
    phase: Phase = Phase.PLANNING
    reason: Reason = field(default_factory=lambda: Reason("Planning", "every replica is being asked"))
    total: int = 0
    outcomes: dict[TopicPartition, PartitionOutcome] = field(default_factory=dict)
    version: int = 0
    """Another one as soon as an outcome is another one."""
    plan: Plan | None = None
    plan_shown: PlanNow | None = None
    decided_last: Plan | None = None
    approval: ApprovedBy | None = None
    ranked: RankedBy | None = None
    noted: Callable[[Plan], None] = lambda plan: None
    """Told each plan that is shown, or that an earlier process carried out."""
    tried: Callable[[bool], None] = lambda in_vain: None
    end: End | None = None
    history: PlanHistory = field(default_factory=PlanHistory)
    void: Callable[[], Mapping[Said, Reason]] = dict
    """Asked what was attested and never counts again."""
    news: list[Reason] = field(default_factory=list)
    """What an event should say though the conditions may have gone on already."""
    awaiting_since: datetime | None = None
    fresh: bool = True
    """Whether this process has nothing to say yet that an earlier one may not have said better."""
    _before: tuple[str, Plan] | None = None
    """The plan that was shown before; what is another one now is told of the next."""
    _planned: PlanNow | None = None
    """The plan that is shown, as it is told while nobody is asked."""
    _wave_began: float | None = None
    _begun: dict[str, PlanNow] = field(default_factory=dict)
    _approvals: dict[str, ApprovedBy] = field(default_factory=dict)
    """By the digests of plans that were begun."""
    _causes: Counter[str] = field(default_factory=Counter)

    def known(self) -> Known:
        """What the status says now."""
        return Known(
            self.phase,
            self.reason,
            self.total,
            self.outcomes,
            self.plan_shown,
            self._decided_by(),
            self.end,
            tuple(self._begun.values()),
            ranked=self.ranked,
            history=self.history.told(self.plan_shown.digest if self.plan_shown else None),
            void=self.void(),
        )

    def _decided_by(self) -> ApprovedBy | None:
        """Whose approval of the plan that is told of counts, or counted when that was begun."""
        last = next(reversed(self._begun), None) if self.end else None
        if last is None or (self.plan_shown and self.plan_shown.digest == last):
            return self.approval
        return self._approvals.get(last)

    def enter(self, phase: Phase, reason: Reason) -> None:
        """A new phase, or another reason for the present one."""
        if phase is not Phase.AWAITING_APPROVAL and self.awaiting_since and not self._is_asked_meanwhile(phase):
            self.metrics.took(Step.APPROVE, datetime.now(UTC) - self.awaiting_since)
            self.awaiting_since = None
        if (phase, reason) != (self.phase, self.reason):
            self.fresh = False
            self.phase, self.reason = phase, reason
            self.changed()

    def _is_asked_meanwhile(self, phase: Phase) -> bool:
        """Whether what is elected is only what nobody is asked about: a person still has to answer for the rest."""
        asked = self.plan_shown is not None and self.plan_shown.needs_approval
        return phase is Phase.ELECTING and asked and self.approval is None

    def ended(self, end: End, reason: Reason) -> None:
        """The recovery is over."""
        self._retire(
            Became.REFUSED_BY_APPROVER if reason.code == REFUSED_BY_APPROVER else Became.NOT_BEGUN, reason.message
        )
        self.end, self.fresh = end, False
        self.phase, self.reason = Phase.ENDED, reason
        self.changed()

    def decided(self, plan: Plan, took: timedelta) -> None:
        """A plan was made; it may elect nobody."""
        self.decided_last = plan
        self.metrics.decided(took)
        tell_of(plan, self.metrics, self.label)

    def planned(self, plan: Plan, digest: str) -> None:
        """A plan was made and is durable."""
        if self.plan_shown is None or self.plan_shown.digest != digest:
            self._keep_begun()
            self._retire(Became.REPLACED)
            self.approval = None
            self.plan_shown = self._planned = plan_now(plan, digest)
            self.noted(plan)
            differs = changes(self._before[1], plan) if self._before else ""
            self.history.shows(_told_of(self.plan_shown), self._before[0] if self._before else None, differs)
            self._forget_refusals(plan)
        self.plan = plan
        _LOG.info("plan %s elects %d leaders", digest[:12], self.plan_shown.elections)
        self.changed()

    def carried_out(self, plan: Plan, shown: PlanNow) -> None:
        """An earlier process carried it out: what it may have lost counts on."""
        self._begun[shown.digest] = shown
        self.noted(plan)
        self.history.knows(replace(_told_of(shown), **self._how_it_went(plan)))

    def plan_void(self, why: Reason) -> None:
        """The plan that was shown does not hold any more, and no approval of it counts."""
        _LOG.warning("the plan is void: %s", why)
        if self.plan_shown:
            message = f"plan {self.plan_shown.digest[:12]} is void, and so is any approval of it: {why.message}"
            self.news.append(Reason(why.code, message))
        self._keep_begun()
        self._retire(Became.VOID, why.message)
        self.plan = self.plan_shown = self._planned = self.approval = None
        self.enter(Phase.PLANNING, why)

    def _keep_begun(self) -> None:
        """What is shown no longer may have been begun by an earlier process, of whose waves nobody told this one."""
        elected = (self.outcomes.get(id) for id in (self.plan.elections if self.plan else ()))
        if self.plan_shown and any(each and each.outcome in ELECTED for each in elected):
            self._begun.setdefault(self.plan_shown.digest, self.plan_shown)

    def _forget_refusals(self, plan: Plan) -> None:
        """What another plan refused, this one elects: it is refused no more."""
        for id in plan.elections:
            known = self.outcomes.get(id)
            if known and known.outcome is Outcome.REFUSED and known.order_restored:
                del self.outcomes[id]
                self.version += 1

    def _retire(self, became: Became, message: str = "") -> None:
        """The plan that is shown is not the one of this moment any more."""
        if self.plan_shown is None or self.plan is None:
            return
        digest = self.plan_shown.digest
        self._before = digest, self.plan
        told = self._how_it_went(self.plan) if digest in self._begun else {"became": became, "message": message}
        self.history.ends(digest, **told)

    def _how_it_went(self, plan: Plan) -> dict[str, Any]:
        """Of a plan that was begun."""
        found = (self.outcomes.get(id) for id in plan.elections)
        elected = sum(each is not None and each.outcome in ELECTED for each in found)
        message = f"{elected} of {len(plan.elections)} leaders were elected by it"
        return {"became": Became.CARRIED_OUT if elected else Became.IN_VAIN, "message": message}

    def awaiting(self, reason: Reason, asked: PlanNow) -> None:
        """Somebody has to say yes. `asked`: the plan that is shown, as it is told while that is so."""
        self.awaiting_since = self.awaiting_since or datetime.now(UTC)
        if asked is not self.plan_shown:
            self.plan_shown = asked
            self.changed()
        self.enter(Phase.AWAITING_APPROVAL, reason)

    def approved(self, approval: ApprovedBy) -> None:
        """Somebody did."""
        if approval != self.approval:
            self.approval = approval
            self.changed()

    def disapproved(self, digest: str) -> None:
        """No approval of this plan stands any more, if one did."""
        if self.approval and self.plan_shown and self.plan_shown.digest == digest:
            self.approval = None
            self.changed()

    def wave_started(self, wave: int, waves: int, partitions: int) -> None:
        """A wave is about to be elected."""
        _LOG.info("wave %d of %d: %d partitions", wave, waves, partitions)
        self._wave_began = time.monotonic()
        if self.plan_shown:
            if self._planned and not self.approval:  # a cool-down that had a person asked may be over
                self.plan_shown = self._planned
            self._begun[self.plan_shown.digest] = self.plan_shown
            if self.approval:
                self._approvals[self.plan_shown.digest] = self.approval
        self.electing(self.approval is not None)
        self.enter(Phase.ELECTING, Reason("Electing", f"wave {wave} of {waves} is being elected"))

    def concluded(self, outcome: PartitionOutcome) -> None:
        """One partition has an outcome."""
        known, self.outcomes[outcome.id] = self.outcomes.get(outcome.id), outcome
        if known == outcome:
            return
        self.version += 1
        if outcome.outcome.is_recovered and self._wave_began is not None:
            self.metrics.took(Step.VERIFY, timedelta(seconds=time.monotonic() - self._wave_began))
        partition = str(outcome.id)
        level = _LEVELS.get(outcome.outcome, logging.INFO)
        _LOG.log(level, "%s: %s %s", partition, outcome.outcome, outcome.reason or "", extra={"partition": partition})
        self.changed()

    def interrupted(self) -> None:
        """A try ended without a report: nobody knows what it changed."""
        self.tried(False)

    def told(self, report: Report) -> None:
        """Log why partitions are refused: once a cause, for there may be thousands, and not again at each try."""
        self.tried(all(_changed_nothing(each) for each in report.outcomes))
        refused = [each for each in report.outcomes if each.outcome is Outcome.REFUSED]
        causes = Counter(each.reason.code for each in refused if each.reason)
        if causes == self._causes:
            return
        self._causes = causes
        for code, count in causes.most_common():
            first = next(each for each in refused if each.reason and each.reason.code == code)
            _LOG.warning("%d refused: %s, the first: %s: %s", count, code, first.id, first.reason)

    def waiting(self, why: Reason, duration: timedelta) -> None:
        """The engine waits: for a clean member to return, or out of quarantine. Short waits are told at each look."""
        until = f" (until {instant(datetime.now(UTC) + duration)})" if duration >= _LONG else ""
        self.enter(Phase.PLANNING, Reason(why.code, why.message + until))

    def any_failed(self) -> bool:
        """Whether an election did not verify."""
        return any(outcome.outcome is Outcome.FAILED for outcome in self.outcomes.values())

    def open_partitions(self, scope: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Those of the scope that are neither recovered nor failed nor gone."""
        return sorted(id for id in scope if not is_final(self.outcomes.get(id)))

    def unrecovered(self, scope: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Those of the scope without a verified leader."""
        return {id for id in scope if (known := self.outcomes.get(id)) is None or not known.outcome.is_recovered}


_LEVELS = {Outcome.FAILED: logging.WARNING, Outcome.IN_DOUBT: logging.WARNING, Outcome.REFUSED: logging.DEBUG}


def _changed_nothing(outcome: PartitionOutcome) -> bool:
    """Whether surely no election was held for it."""
    return outcome.is_settled and outcome.outcome in (Outcome.REFUSED, Outcome.RECOVERED_CLEANLY)


def is_final(outcome: PartitionOutcome | None) -> bool:
    """Whether nothing more will be done about a partition in this recovery."""
    if outcome is None or not outcome.is_settled:
        return False
    if outcome.outcome is Outcome.REFUSED:
        return outcome.reason is not None and outcome.reason.code in GONE
    return True


def _told_of(plan: PlanNow) -> PlanTold:
    return PlanTold(plan.digest, instant(plan.made_at), plan.elections)


def evidence_lasts(plan: Plan) -> timedelta:
    """How old this plan's evidence may grow until it is looked at again: the shortest maxAge of its rules."""
    rules = {decision.rule for decision in plan.decisions}
    ages = [rule.evidence.max_age for rule in plan.policy.rules if rule.name in rules]
    return min(ages, default=timedelta(minutes=1))
