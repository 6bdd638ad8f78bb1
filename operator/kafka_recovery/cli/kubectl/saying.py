"""`approve` and `refuse`: a person's word about exactly one plan, as a RecoveryApproval in their own name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kafka_recovery.cli.kubectl import answers, asking, holds, reading
from kafka_recovery.cli.kubectl.asking import consent
from kafka_recovery.cli.kubectl.plans import validity
from kafka_recovery.cli.kubectl.reading import Incident, Shown
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal import naming
from kafka_recovery.cli.terminal.changed import changed_table
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.render import lines, write_aside, write_result
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.cli.terminal.tables import plan_table
from kafka_recovery.cli.terminal.text import say
from kafka_recovery.decision.card import at_the_prompt
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.printable import is_blank
from kafka_recovery.kube.machinery.api import AlreadyExists, ApiError, Object
from kafka_recovery.kube.recoveries.status import plan_now
from kafka_recovery.kube.resources.fields import REASON, Word
from kafka_recovery.kube.resources.kinds import API_VERSION, APPROVALS

SHORTEST = 12
"""Digits of the digest that name the plan which is approved: so many are shown wherever a plan is named."""
_ROWS_SHOWN = 40
_WANTED = "the policy wants each approval to say why (requireReason)"
_WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def approve(session: Session, name: str, read: str | None, yes: bool, reason: str | None) -> ExitCode:
    """Show the plan, ask, and say yes to it. `read`: the digest of the plan that was read. `yes`: nobody is asked."""
    _check_digest(read, yes)
    if reason is not None:
        _check_reason(reason)
    incident = _asking(session, name)
    shown, plan = reading.plan_of(session, incident)
    worst = plan_now(plan, shown.digest).worst
    if read is not None and not shown.digest.startswith(read):
        raise _replaced(session, incident, read, None)
    wants_reason = plan.policy.require_reason and is_blank(reason or "")
    if wants_reason and yes:
        raise InvalidDocument(f"--reason: {_WANTED}")
    if not yes:
        _have_it_read(session, incident, shown, plan, worst)
    if wants_reason:
        reason = _asked_why()
    incident = _still(session, incident, shown.digest, plan)
    limit = {"maxLossClass": str(worst)}
    said = _say(session, incident, shown.digest, Word.APPROVE, reason, limit)
    sentence = f"{said['spec']['approver']} approves plan {shown.digest[:12]} of {name} (worst loss class {worst})."
    with suppress(ApiError):  # it is written: whoever can't be asked now must not make it look as if it were not
        _tell_why_nothing_happens(session, incident)
    write_result(session.output, said, lines(sentence), f"Next: {session.command(f'status {name}')}")
    return ExitCode.DONE


def _asked_why() -> str:
    """Raises Refusal where no reason is given."""
    if is_blank(reason := asking.line(f"Why? {_WANTED[0].upper()}{_WANTED[1:]}:")):
        raise Refusal(ExitCode.APPROVAL, f"no reason was given, and {_WANTED}; nothing was written")
    _check_reason(reason)
    return reason


def refuse(session: Session, name: str, reason: str, yes: bool) -> ExitCode:
    """Ask, and say no: the recovery ends with this reason, and nothing of its plan is done."""
    _check_reason(reason)
    incident = reading.incident(session, name)
    if incident.finished:
        raise Refusal(ExitCode.BAD_INPUT, f"{name} has finished: {incident.state}; there is nothing to refuse")
    if incident.plan is None:
        end = session.command(f"abort {name}")
        raise Refusal(ExitCode.BAD_INPUT, f"{name} has no plan to refuse yet ({incident.state}); to end it: {end}")
    if not yes:
        consent(f"Refuse plan {incident.plan.digest[:12]}? That ends {name}, and can't be taken back.", "refused")
    said = _say(session, incident, incident.plan.digest, Word.REFUSE, reason, {})
    sentence = f"{said['spec']['approver']} refuses plan {incident.plan.digest[:12]} of {name}: it ends."
    write_result(session.output, said, lines(sentence), f"Next: {session.command(f'status {name}')}")
    return ExitCode.DONE


def _asking(session: Session, name: str) -> Incident:
    """The recovery, if a word of approval can mean anything now."""
    incident = reading.incident(session, name)
    if incident.finished:
        raise Refusal(ExitCode.BAD_INPUT, f"{name} has finished: {incident.state}; there is nothing to approve")
    if incident.recovery.abort or incident.recovery.meta.deleting_since:
        raise Refusal(ExitCode.BAD_INPUT, f"{name} is being ended; there is nothing to approve")
    if incident.plan and not (incident.asks or incident.plan.needs_approval):
        said = f"{incident.state}: {incident.message}"
        raise Refusal(ExitCode.BAD_INPUT, f"nobody has to approve the plan of {name} now: {said}")
    return incident


def _have_it_read(session: Session, incident: Incident, shown: Shown, plan: Plan, worst: LossClass) -> None:
    """Put the plan before the person who decides. Raises Refusal for anything but its digest."""
    why = " --reason TEXT" if plan.policy.require_reason else ""
    approve = session.command(f"approve {incident.name} --plan {shown.digest[:SHORTEST]} --yes{why}")
    how = f"{session.command(f'plan {incident.name}')}; then {approve}"
    if not asking.somebody_there():
        raise Refusal(ExitCode.APPROVAL, f"there is no terminal to ask at. Read the plan: {how}")
    hand = replace(answers.at_hand(session, incident, plan), approve="")
    write_aside(plan_table(plan, _ROWS_SHOWN, hand))
    write_aside(lines(validity(incident), ""))
    _tell_why_nothing_happens(session, incident)
    elected = sum(map(len, plan.waves))
    leaders = "1 leader" if elected == 1 else f"{elected} leaders"
    for sentence in at_the_prompt(plan, hand):
        say(sentence)
    say(f"It elects {leaders}, worst loss class {worst}.")
    if not naming.names(asking.line(naming.QUESTION), shown.digest):
        raise Refusal(ExitCode.APPROVAL, "not approved; nothing was written")


def _tell_why_nothing_happens(session: Session, incident: Incident) -> None:
    for why in holds.stops(session, incident):
        say(f"Note: nothing happens for now, approved or not: {why}")
    for why in holds.bounds(session, incident):
        say(f"Note: an approval alone elects nobody: {why}")


def _still(session: Session, incident: Incident, digest: str, plan: Plan) -> Incident:
    """The recovery of this moment. Raises Refusal if what was shown is not its plan any more: a yes would be void."""
    now = reading.incident(session, incident.name)
    if now.recovery.meta.uid != incident.recovery.meta.uid:
        raise Refusal(
            ExitCode.APPROVAL, f"{incident.name} was replaced by another recovery of that name; read its plan"
        )
    if now.finished:
        raise Refusal(ExitCode.APPROVAL, f"{incident.name} has finished meanwhile: {now.state}; nothing was written")
    if now.plan is None or now.plan.digest != digest:
        raise _replaced(session, now, digest, plan)
    return now


def _replaced(session: Session, incident: Incident, read: str, plan: Plan | None) -> Refusal:
    """Show what changed since `read`, the digest of `plan`; None: its plan is looked for among the earlier ones."""
    name, now = incident.name, incident.plan.digest if incident.plan else None
    with suppress(ApiError, InvalidDocument, Refusal):  # what is not kept any more can't be compared
        before = plan or reading.earlier_plan(session, incident, read)[1]
        if now:
            write_aside(changed_table(before, reading.recorded(session, incident.recovery, now)))
    became = f"the plan is {now[:12]} now" if now else "there is no plan at the moment"
    message = f"plan {read[:12]} of {name} does not hold any more: {became}, so nothing was written. Read it again: "
    return Refusal(ExitCode.APPROVAL, message + session.command(f"plan {name}"))


def _say(
    session: Session, incident: Incident, digest: str, word: Word, reason: str | None, limit: Mapping[str, str]
) -> Object:
    """Create the RecoveryApproval. Its name follows from who says what about which plan: saying it twice is once.

    One that says why is another one: without that it may count for nothing.
    """
    meta = incident.recovery.meta
    who = who_am_i(session)
    spec: dict[str, Any] = {
        "recoveryRef": {"name": meta.name, "uid": meta.uid},
        "planDigest": digest,
        "decision": str(word),
        "approver": who,
        **limit,
    }
    said_why = ("why",) if reason else ()
    mark = hashlib.sha256("\0".join((meta.uid, digest, word, who, *said_why)).encode()).hexdigest()[:10]
    name = f"{meta.name}-{word.lower()}-{mark}"
    body = {
        "apiVersion": API_VERSION,
        "kind": APPROVALS.kind,
        "metadata": {"name": name, "namespace": meta.namespace},
        "spec": spec | ({"reason": reason} if reason else {}),
    }
    try:
        return session.api.create(APPROVALS.path(meta.namespace), body)
    except AlreadyExists:
        said = session.api.get(APPROVALS.path(meta.namespace, name))
        if said["spec"] | spec != said["spec"]:
            raise InvalidDocument(f"RecoveryApproval {name} is there already and says something else") from None
        say(f"RecoveryApproval {name} said so before; it stands")
        return said


def _check_digest(read: str | None, yes: bool) -> None:
    if read is None and yes:
        raise InvalidDocument("--yes says yes to a plan that was read: name it with --plan DIGEST")
    if read is not None and not re.fullmatch(f"[0-9a-f]{{{SHORTEST},64}}", read):
        raise InvalidDocument(
            f"--plan {read!r}: not a plan's digest ({SHORTEST} to 64 hexadecimal digits, as plan shows it)"
        )


def _check_reason(reason: str) -> None:
    if not 0 < len(reason) <= REASON.longest:
        raise InvalidDocument(f"--reason: must have 1 to {REASON.longest} characters")


def who_am_i(session: Session) -> str:
    """The name by which the API server knows whoever types."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    return str(session.api.create(_WHO_AM_I, review)["status"]["userInfo"]["username"])
