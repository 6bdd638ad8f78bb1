"""What a person can answer to a plan that waits for somebody: wait, approve or refuse; and under Observe."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kafka_recovery.cli.kubectl import holds
from kafka_recovery.cli.kubectl.pods import reaching
from kafka_recovery.cli.kubectl.reading import Incident
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.decision.bad_leaders import Against, against
from kafka_recovery.decision.card import AtHand, last_resort
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval


@dataclass(frozen=True, slots=True)
class Ask:
    """The sentences that belong to a plan, and below them the commands, a line each."""

    told: tuple[str, ...] = ()
    command: str = ""


NOTHING = Ask()
"""Nobody is asked anything."""


def to(session: Session, incident: Incident, plan: Plan) -> Ask:
    """What may be answered to this plan at this moment."""
    refuse = session.command(f"refuse {incident.name}")
    no = f"Refuse:  {refuse} --reason TEXT"
    if why := holds.bounds(session, incident):
        raised = _raised(session, incident) if holds.cluster_observes(session, incident) else ""
        return Ask(("", _WAIT, *_observed(why, plan)), f"{raised}{no}")
    approve = _approve(session, incident)
    passes = incident.plan and incident.plan.because and not _lasts(incident)
    wait = _WAIT_ALL if passes else _WAIT
    when = last_resort(plan)
    if when is None:
        better = _better(session, incident, plan)
        return Ask(("", wait, _STOPPED), f"In place of approving: {better}\n{no}" if better else no)
    if when:
        return Ask(("", wait, _STOPPED), f"{when}: {approve}\n{no}")
    return Ask(("", wait, _OTHERWISE), f"Approve: {approve}\n{no}")


def at_hand(session: Session, incident: Incident, plan: Plan) -> AtHand:
    """What may be typed about its plan at this moment."""
    return replace(_typed(session, incident, plan), kubectl=reaching(session, incident))


def _typed(session: Session, incident: Incident, plan: Plan) -> AtHand:
    observes = bool(holds.bounds(session, incident))
    may = incident.asks and not observes
    approve, better = (_approve(session, incident), _better(session, incident, plan)) if may else ("", "")
    suspend, unsuspend = (session.command(f"{word} {incident.name}") for word in ("suspend", "unsuspend"))
    stop = "" if incident.finished else f"{suspend}; to go on later: {unsuspend}"
    if because := incident.plan.because if incident.plan and may else "":
        lasts = _lasts(incident)
        return AtHand(approve, "" if lasts else _ONCE_OVER, "" if lasts else stop, because, better)
    if observes:
        return AtHand(approve, _NOT_OBSERVED, "", better=better)
    if why := holds.stops(session, incident):
        suspended = "; ".join(each.partition("; ")[0] for each in why)
        return AtHand(approve, f"{_NOT_STOPPED}: {suspended}", "", better=better)
    return AtHand(approve, "at once", stop, better=better)


def _better(session: Session, incident: Incident, plan: Plan) -> str:
    """What leads to a plan with better leaders; empty: none is known."""
    found = against(plan)
    if found is Against.NAMED:  # the leaders that a recovery names can't be changed
        return f"{session.command(f'refuse {incident.name}')} --reason TEXT"
    if found is Against.BETTER_PROOF and (policy := holds.policy_of(session, incident)):
        return session.kubectl.line(f"edit recoverypolicy {policy}")
    return ""


def _approve(session: Session, incident: Incident) -> str:
    pinned = f" --plan {incident.plan.digest[:12]}" if incident.plan else ""
    return session.command(f"approve {incident.name}{pinned}")


def _lasts(incident: Incident) -> bool:
    """Whether a person is asked to the end of a recovery, whatever the policy says: it failed, or names leaders."""
    named = incident.recovery.designated or incident.recovery.ranking_name
    return incident.state == "AfterFailure" or bool(named)


_NOT_OBSERVED = "once authority is no more Observe"
_NOT_STOPPED = "if authority is Automatic then, once this ends"
_ONCE_OVER = "without a yes once that holds no more"
_KAFKA_CAN = "Kafka can still elect a broker that is back, even an EMPTY one."
_WAIT = f"Wait: what needs approval the operator elects only once somebody approves. {_KAFKA_CAN}"
_WAIT_ALL = f"Wait: the operator elects nobody until somebody approves, or no person is needed any more. {_KAFKA_CAN}"
_STOPPED = "DO NOT APPROVE: read why at the top of the plan. What may be done is told there:"
_OTHERWISE = "If you wait for no broker, approve the plan; or refuse it, which ends the recovery:"


def _observed(why: Sequence[str], plan: Plan) -> Iterator[str]:
    yield f"Approving does nothing now: {'; '.join(why)}."
    yield (
        "To be asked about each plan, Approve is enough, of the cluster (in Git, if it comes from there) and of the "
        "operator (--authority, the chart's authority). An approval written before counts from then on, if the plan is "
        "still the same."
    )
    named = [rule.name for rule in plan.policy.rules if rule.approval is Approval.AUTO]
    rules = f"Rule {', '.join(named)} says AutoApprove" if named else "A rule that says AutoApprove would"
    elects = f"{rules} and then elects" if named else f"{rules} then elect"
    yield f"Automatic lets the rules decide. {elects} without asking anybody, at once and in every later incident."


def _raised(session: Session, incident: Incident) -> str:
    patch = '{"spec":{"authority":"Approve"}}'
    cluster = incident.recovery.cluster_name
    return f"Raise:   {session.kubectl.line(f'patch wkc {cluster}')} --type=merge -p '{patch}'\n"
