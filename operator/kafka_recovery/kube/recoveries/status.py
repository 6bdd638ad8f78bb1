"""The status of a PartitionRecovery, from what its run has told so far. Pure: values in, a mapping out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from kafka_recovery.decision import attesting
from kafka_recovery.decision.card import in_brief, opening, waited_for
from kafka_recovery.decision.costs import BrokerCost, costs
from kafka_recovery.decision.waiting import asked_about_all
from kafka_recovery.domain.counts import STILL_TO_COME, Counts, Stage, Whereabouts, counted
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import canonical
from kafka_recovery.kube.journal.shown_plans import BEGUN
from kafka_recovery.kube.machinery.conditions import Standing, condition, cut, instant, merged, standing
from kafka_recovery.kube.recoveries.hold_back import HOLD_BACK, let_go_of
from kafka_recovery.kube.recoveries.plan_history import Became, PlanTold
from kafka_recovery.kube.recoveries.void_attestations import VOID_ATTESTATIONS, void_as_said
from kafka_recovery.kube.resources.kinds import FROM_INCIDENT
from kafka_recovery.kube.resources.unknown import CONDITION as UNKNOWN_FIELDS
from kafka_recovery.kube.watching.outages import Outage, left_offline
from kafka_recovery.recovery.signs_of_life import Said

FIRST = 10
"""So many refusals and failures are told in the status; the plan and the journal have all of them."""

MOST_BROKERS = 50
"""So many brokers that may lose records are told in the status; the sentence beside them counts the others."""

LONGEST_ADVICE = 4096
"""Characters of `plan.summary` and `plan.waiting`: what must not be done is not to be cut."""

OBSERVE_ONLY = Decisive.OBSERVE_ONLY
"""The reason of a plan that is shown, and of which no approval is honoured: the operator may only look."""

REFUSED_BY_APPROVER = Decisive.REFUSED_BY_APPROVER
"""Why a recovery ends to whose plan a person said no."""

ELECTED = frozenset({Outcome.RECOVERED, Outcome.RECOVERED_UNDER_MIN_ISR})
"""Ends of a partition that no clean member brought about."""


class Phase(StrEnum):
    """What is going on. The words are the reasons of the conditions."""

    PLANNING = "Planning"
    AWAITING_APPROVAL = "AwaitingApproval"
    ELECTING = "Electing"
    HELD = "Held"
    """Nothing is done for the moment, for a reason that is not the partitions': suspended, isolated, no cluster."""
    STUCK = "Stuck"
    """Partitions are refused; looked at again when the cluster changes."""
    RESTORING = "Restoring"
    ENDED = "Ended"


@dataclass(frozen=True, slots=True)
class PlanNow:
    """The plan that is executed or waits for its approval, until a look at the cluster makes it another one.

    `elects` and `declines`: the partitions that it elects leaders of, and those that it refuses. `costs`: what each
    broker may lose by it; `summary`: what decides, in sentences. `waiting`: what may be better than electing, told
    while a person is asked; `opens`: what of both comes first. `because`: why one is asked about elections that the
    policy asks nobody about. `attested`: whether an attestation counts in it. `wants_reason`: whether who approves it
    has to say why.
    """

    digest: str
    policy_digest: str
    made_at: datetime
    elections: int
    needs_approval: bool
    worst: LossClass
    at_most: int | None
    elects: frozenset[TopicPartition] = frozenset()
    declines: frozenset[TopicPartition] = frozenset()
    costs: tuple[BrokerCost, ...] = ()
    summary: str = ""
    waiting: str = ""
    opens: tuple[str, ...] = ()
    because: str = ""
    attested: bool = False
    wants_reason: bool = False


@dataclass(frozen=True, slots=True)
class ApprovedBy:
    """The object that approved the plan, and who wrote it."""

    name: str
    uid: str
    by: str


@dataclass(frozen=True, slots=True)
class RankedBy:
    """The run of a FleetRanking, its manifest's checksum, and how many elections have the leader that it chose."""

    run: str
    checksum: str
    leaders: int


@dataclass(frozen=True, slots=True)
class Known:
    """Everything a status is made of. `total`: partitions of the frozen scope; 0 while it is not known."""

    phase: Phase
    reason: Reason
    total: int = 0
    outcomes: Mapping[TopicPartition, PartitionOutcome] = field(default_factory=dict)
    plan: PlanNow | None = None
    approval: ApprovedBy | None = None
    end: End | None = None
    begun: tuple[PlanNow, ...] = ()
    """Plans of which waves were elected: what they may have lost is not forgotten for a later plan."""
    left: tuple[Outage, ...] = ()
    """What it leaves without a leader, now that it has ended."""
    ranked: RankedBy | None = None
    history: Sequence[PlanTold] = ()
    """Its plans, the newest first."""
    void: Mapping[Said, Reason] = field(default_factory=dict)
    """What was attested and never counts again."""

    @property
    def electing(self) -> tuple[PlanNow, ...]:
        """The plan that is shown and those that were begun, as far as they elect anybody."""
        plans = {plan.digest: plan for plan in (*self.begun, self.plan) if plan and plan.elections}
        return tuple(plans.values())

    @property
    def lasting(self) -> PlanNow | None:
        """The plan that is shown; of a recovery that has ended, the last that was begun: what came of it lasts."""
        return self.begun[-1] if self.begun and self.end else self.plan

    @property
    def stage(self) -> Stage:
        """What decides where a partition without an end is. Under Observe nobody is asked: a yes would do nothing."""
        plan, over = self.plan, self.end is not None
        if plan is None:
            return Stage(over=over)
        asks = self.phase is Phase.AWAITING_APPROVAL and self.reason.code != OBSERVE_ONLY
        return Stage(plan.elects if asks else (), plan.declines, over)

    @property
    def counts(self) -> Counts:
        """Its partitions, counted."""
        return counted(self.outcomes, self.total, self.stage)

    @property
    def worst(self) -> LossClass | None:
        """The worst loss class of all of them; None: nobody is elected, so nothing is lost.

        A leader that was elected by a plan which can't be read any more may have lost anything.
        """
        elected = any(outcome.outcome in ELECTED for outcome in self.outcomes.values())
        unseen = LossClass.UNKNOWN if elected else None
        return max((plan.worst for plan in self.electing), key=list(LossClass).index, default=unseen)


def plan_now(plan: Plan, digest: str) -> PlanNow:
    """What of a plan a person should see at a glance; of 10,000 elections in a fraction of a second."""
    elected = plan.elections.values()
    losses = [decision.loss for decision in elected if decision.loss]
    order = list(LossClass)
    worst = max((loss.loss_class for loss in losses), key=order.index, default=LossClass.LOSSLESS)
    found = costs(plan)
    bounds = [loss.at_most for loss in losses]
    return PlanNow(
        digest=digest,
        policy_digest=hashlib.sha256(canonical(plan.policy)).hexdigest(),
        made_at=plan.evidence.cluster.observed_at,
        elections=len(elected),
        needs_approval=any(decision.needs_approval for decision in elected),
        worst=worst,
        at_most=None if any(bound is None for bound in bounds) else sum(bound or 0 for bound in bounds),
        elects=frozenset(plan.elections),
        declines=frozenset(decision.id for decision in plan.decisions if _is_declined(decision)),
        costs=found,
        summary=" ".join(in_brief(plan, found)),
        attested=bool(attesting.standing(plan.evidence.cluster)),
        wants_reason=plan.policy.require_reason,
    )


def plan_asked(plan: Plan, digest: str, because: str = "") -> PlanNow:
    """The same while a person is asked. That is work for a thread: all copies are weighed again.

    `because`: why about all elections, whatever the policy says; empty: it decides.
    """
    because = "" if all(each.needs_approval for each in plan.elections.values()) else because
    told = asked_about_all(plan) if because else plan
    now, choice = plan_now(told, digest), waited_for(told)
    opens = tuple(opening(told, choice, now.costs))
    return replace(now, needs_approval=True, waiting=" ".join(choice.sentences()), opens=opens, because=because)


def _is_declined(decision: Decision) -> bool:
    """Not what is left for the next plan only because this one is full."""
    why = decision.reason
    return decision.verdict is Verdict.REFUSE and (why is None or why.code not in STILL_TO_COME)


def status_of(known: Known, generation: int, old: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The whole status that we own; conditions keep their transition times where nothing flipped."""
    status: dict[str, Any] = {
        "observedGeneration": generation,
        "finished": False,
        "partitions": _counts(known.counts),
        "conditions": merged(old.get("conditions", ()), _conditions(known, generation), now),
    }
    status |= {name: old[name] for name in (BEGUN, FROM_INCIDENT, HOLD_BACK) if name in old}
    if known.end:
        status = _over(status, known.end, old.get("finishedAt") or instant(now), known.left)
    if plan := (_plan(known.lasting) if known.lasting else {}) | _waiting(known) | _cost(known):
        status["plan"] = plan  # also where the plan is void by now: what was elected may have lost records
    if known.history:
        status["plans"] = [told.as_said() for told in known.history]
    if known.void:
        status[VOID_ATTESTATIONS] = void_as_said(known.void)
    if known.ranked:
        status["ranking"] = asdict(known.ranked)
    if known.approval:
        status["approval"] = {"name": known.approval.name, "uid": known.approval.uid, "by": known.approval.by}
    stage = known.stage
    for word, places in _TOLD.items():
        told = [outcome for id, outcome in sorted(known.outcomes.items()) if stage.place(id, outcome) in places]
        if told:
            status[word] = [_told(outcome) for outcome in told[:FIRST]]
    return status


def untaken(why: Reason, generation: int, old: Mapping[str, Any], now: datetime, *, stuck: bool) -> dict[str, Any]:
    """The status while nobody can work on it: what an earlier process told of plan and partitions still stands.

    `stuck`: no waiting mends it.
    """
    how = Standing.STUCK if stuck else Standing.WORKING
    kept = {kind: each for each in old.get("conditions", ()) if (kind := each.get("type")) in _BESIDES}
    conditions = [*standing(how, why.code, why.message, generation), *kept.values()]
    told = {name: value for name, value in old.items() if name not in ("conditions", "observedGeneration")}
    return {
        **told,
        "finished": False,
        "observedGeneration": generation,
        "conditions": merged(old.get("conditions", ()), conditions, now),
    }


def aborted(
    why: Reason, generation: int, old: Mapping[str, Any], now: datetime, left: Sequence[Outage]
) -> dict[str, Any]:
    """The last status of a recovery that ends without a run: what was told of plan and partitions still stands."""
    told = untaken(why, generation, old, now, stuck=True)
    if "plans" in told:
        told["plans"] = [_never_begun(plan) for plan in told["plans"]]
    return _over(told, End.ABORTED, instant(now), left)


def _over(status: dict[str, Any], end: End, at: str, left: Sequence[Outage]) -> dict[str, Any]:
    """The same of a recovery that has ended. `left`: what it leaves without a leader."""
    told = {**let_go_of(status), "finished": True, "outcome": str(end), "finishedAt": at}
    return told | ({"leftOffline": left_offline(left)} if left else {})


def _never_begun(told: Mapping[str, Any]) -> Mapping[str, Any]:
    """The plan of this moment is nobody's any more."""
    return {**told, "became": str(Became.NOT_BEGUN)} if told.get("became") == Became.CURRENT else told


_BESIDES = ("Planned", "Approved", "Verified", UNKNOWN_FIELDS)


_TOLD = {"refusals": {Whereabouts.REFUSED, Whereabouts.UNKNOWN}, "failures": {Whereabouts.FAILED}}


def _counts(counts: Counts) -> dict[str, int]:
    places = {str(place): counts[place] for place in Whereabouts}
    return {"total": counts.total, "offline": counts.offline, **places}


def _plan(plan: PlanNow) -> dict[str, Any]:
    return {
        "digest": plan.digest,
        "policyDigest": plan.policy_digest,
        "madeAt": instant(plan.made_at),
        "elections": plan.elections,
        "needsApproval": plan.needs_approval,
        **({"mayLose": [_may_lose(each) for each in plan.costs[:MOST_BROKERS]]} if plan.costs else {}),
        **({"summary": cut(plan.summary, LONGEST_ADVICE)} if plan.summary else {}),
    }


def _waiting(known: Known) -> dict[str, str]:
    """Why a person is asked, and what is better than electing: once others lead, that would be bad advice."""
    asked = known.plan if known.phase is Phase.AWAITING_APPROVAL else None
    said = {"askedBecause": cut(asked.because), "waiting": cut(asked.waiting, LONGEST_ADVICE)} if asked else {}
    return {word: told for word, told in said.items() if told}


def _may_lose(cost: BrokerCost) -> dict[str, Any]:
    said = {"broker": int(cost.broker), "records": cost.records, "partitions": cost.partitions}
    if not cost.unknown:
        return said
    return said | {"unknownPartitions": cost.unknown, "certainOffsets": cost.certain, "because": cut(cost.because)}


def _cost(known: Known) -> dict[str, Any]:
    """What the elections may lose; nothing where there are none."""
    if known.worst is None:
        return {}
    bounds = [plan.at_most for plan in known.electing] or [None]
    proven = None if any(bound is None for bound in bounds) else sum(bound or 0 for bound in bounds)
    return {"lossClass": str(known.worst)} | ({} if proven is None else {"atMost": proven})


def _told(outcome: PartitionOutcome) -> dict[str, str]:
    reason = outcome.reason or Reason(str(outcome.outcome), "no reason was given")
    return {"partition": str(outcome.id), "reason": reason.code, "message": cut(reason.message)}


def _conditions(known: Known, generation: int) -> Sequence[Mapping[str, Any]]:
    """Every type, always: a condition that is absent can't be waited for."""
    good = known.end is End.RECOVERED
    how = Standing.DONE if good else Standing.STUCK if known.end or known.phase is Phase.STUCK else Standing.WORKING
    return (
        *standing(how, known.reason.code, known.reason.message, generation),
        condition("Planned", known.lasting is not None, *_planned(known), generation),
        condition("Approved", *_approved(known), generation),
        condition("Verified", good, *_verified(known), generation),
    )


def _planned(known: Known) -> tuple[str, str]:
    if known.lasting is None:
        return "NotYet", "no plan with an election was made"
    return "AsExpected", f"plan {known.lasting.digest[:12]} elects {_leaders(known.lasting.elections)}"


def _leaders(count: int) -> str:
    return {0: "nobody", 1: "1 leader"}.get(count, f"{count} leaders")


def _approved(known: Known) -> tuple[bool, str, str]:
    """It is false with the reason of Ready while a person is asked, and then alone: by that the plugin knows it."""
    if known.plan is None:
        return False, "NotYet", "there is nothing to approve"
    if known.approval:
        return True, "AsExpected", f"{known.approval.by} approved it by RecoveryApproval {known.approval.name}"
    if known.phase is Phase.AWAITING_APPROVAL:
        return False, known.reason.code, known.reason.message
    if not known.plan.needs_approval:
        return True, "AsExpected", "by the policy nobody has to be asked"
    return False, "NotYet", f"nobody approved plan {known.plan.digest[:12]}"


def _verified(known: Known) -> tuple[str, str]:
    recovered = sum(outcome.outcome.is_recovered for outcome in known.outcomes.values())
    total = max(known.total, len(known.outcomes))
    if known.end is End.RECOVERED:
        gone = f"; {total - recovered} are gone" if recovered < total else ""
        return "AsExpected", f"{recovered} of {total} partitions have a leader that answered itself{gone}"
    return "NotYet" if known.end is None else str(known.end), f"{recovered} of {total} partitions have a leader"
