"""`status NAME`: one recovery, with everything that is known about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from rich.console import Group, RenderableType

from kafka_recovery.cli.kubectl import answers, reading
from kafka_recovery.cli.kubectl.aftermath import aftermath
from kafka_recovery.cli.kubectl.overview import Standing, name_of, next_command, observed, plain, suspended
from kafka_recovery.cli.kubectl.plans import became, plans_table
from kafka_recovery.cli.kubectl.pods import where_they_run
from kafka_recovery.cli.kubectl.reading import Incident, waits_for
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal import words
from kafka_recovery.cli.terminal.reasons import what_to_do
from kafka_recovery.cli.terminal.render import lines, table
from kafka_recovery.cli.terminal.tables import card_table
from kafka_recovery.decision.card import card
from kafka_recovery.decision.moments import moment
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.machinery.conditions import condition_of
from kafka_recovery.kube.recoveries.plan_history import Became
from kafka_recovery.kube.resources.fields import Word
from kafka_recovery.kube.resources.kinds import APPROVALS


def standing(session: Session, name: str) -> Standing:
    """One recovery. Raises ApiError, InvalidDocument."""
    incident = reading.incident(session, name)
    clusters = [each for each in reading.clusters(session) if name_of(each) == incident.recovery.cluster_name]
    said = _words_about(session, incident)
    after = list(aftermath(session, incident, next(iter(clusters), None)))
    parts = (
        _heading(incident, clusters, said),
        [lines(""), *after, lines("")] if after else [],
        _plan(session, incident, next(iter(clusters), None)),
        _plans(incident),
        _conditions(incident),
        _told(incident),
        _said(said),
    )
    shown = Group(*(part for each in parts for part in each))
    document = {"recovery": plain(incident.obj), "approvals": [plain(each) for each in said]}
    following = _before_a_start(session, incident) or next_command(session, [incident])
    return Standing(document, shown, following, incident.finished)


def _words_about(session: Session, incident: Incident) -> list[Object]:
    """RecoveryApprovals of exactly this recovery, oldest first."""
    params = {"fieldSelector": f"spec.recoveryRef.name={incident.name}"}
    found = session.api.list_all(APPROVALS.path(session.namespace), params)
    ours = [each for each in found if each["spec"]["recoveryRef"]["uid"] == incident.recovery.meta.uid]
    return sorted(ours, key=lambda each: str(each["metadata"]["creationTimestamp"]))


def _before_a_start(session: Session, incident: Incident) -> str:
    """Of a recovery that elected: what whoever repairs a broker has to read before."""
    if not incident.finished or incident.plan is None or not incident.recovery.status.get("plan", {}).get("elections"):
        return ""
    return f"Before you start a broker that was away: {session.command(f'plan {incident.name}')}"


def _heading(incident: Incident, clusters: Sequence[Object], said: Sequence[Object]) -> Iterator[RenderableType]:
    recovery = incident.recovery
    counts = words.counts(incident.counts) if incident.counts else "not counted yet"
    yield lines(
        f"{incident.name}: {incident.state} (cluster {recovery.cluster_name}){_unused(incident, said)}",
        f"  {incident.message}",
        f"Partitions: {counts}",
        *([] if incident.finished else [f"Opened: {moment(recovery.meta.created_at)}"]),
        f"Waits for: {waits_for(incident, suspended(clusters), observed(clusters))}",
    )


def _plan(session: Session, incident: Incident, cluster: Object | None) -> Iterator[RenderableType]:
    """Of a plan that waits for somebody all that decides; else what the status tells of it."""
    if not (plan := incident.plan):
        return
    details = incident.recovery.status["plan"]
    loss = f"worst loss class {details.get('lossClass', '?')}"
    yield lines(f"Plan: {plan.digest}", f"  elections: {details.get('elections', '?')}, {loss}")
    if incident.asks:
        with suppress(ApiError, InvalidDocument):
            found = reading.plan_of(session, incident)[1]
            shown = card_table(card(found, answers.at_hand(session, incident, found)))
            yield Group(lines(""), shown, *where_they_run(session, incident, cluster, found))
            return
    when = "When it was planned: " if incident.finished else ""
    cost = [f"  {when}{details['summary']}"] if details.get("summary") else []
    wait = [f"  {details['waiting']}"] if details.get("waiting") and not incident.finished else []
    yield lines(*cost, *wait)


def _unused(incident: Incident, said: Sequence[Object]) -> str:
    """Whose approval does nothing, and why, where none counts; the last one that was said."""
    if incident.recovery.status.get("approval"):
        return ""
    for word in reversed([each for each in said if each["spec"]["decision"] == Word.APPROVE]):
        if why := _why_not_used(incident, word):
            return f"; the approval of {word['spec']['approver']} is NOT used: {why}"
    return ""


def _why_not_used(incident: Incident, word: Object) -> str:
    """Empty: it may count yet."""
    digest = str(word["spec"]["planDigest"])
    if incident.plan is None or digest != incident.plan.digest:
        told = next((each for each in incident.plans if each.digest == digest), None)
        if told is not None and told.became is Became.CARRIED_OUT:
            return ""
        return f"it names plan {digest[:12]}, {became(told) if told else 'of which nothing is known here'}"
    accepted = condition_of(word.get("status"), "Accepted")
    if accepted.get("status") == "False":
        return f"{accepted.get('reason')}: {accepted.get('message') or 'the operator says no more'}"
    return f"the recovery has ended: {incident.message}" if incident.finished else ""


def _plans(incident: Incident) -> Iterator[RenderableType]:
    """Where there is more than the plan of this moment."""
    if len(incident.plans) > 1:
        yield Group(lines(""), plans_table(incident.plans))


def _conditions(incident: Incident) -> Iterator[RenderableType]:
    conditions = incident.recovery.status.get("conditions") or ()
    rows = [(each["type"], each["status"], each["reason"], each["lastTransitionTime"]) for each in conditions]
    if rows:
        yield Group(lines(""), table("Condition", "Status", "Reason", "Since", rows=rows))


def _told(incident: Incident) -> Iterator[RenderableType]:
    for word in ("refusals", "failures"):
        told = incident.recovery.status.get(word) or ()
        if told:
            sentences = (f"{each['partition']}: {each['reason']}: {each['message']}" for each in told)
            reasons = ((str(each["reason"]), str(each["message"])) for each in told)
            yield lines("", f"The first {word}:", *sentences, *what_to_do(reasons))


def _said(said: Sequence[Object]) -> Iterator[RenderableType]:
    rows = [_word_row(each) for each in said]
    if rows:
        yield Group(lines(""), table("Approver", "Said", "Plan", "Accepted", "Why", rows=rows))


def _word_row(word: Object) -> tuple[object, ...]:
    spec, accepted = word["spec"], condition_of(word.get("status"), "Accepted")
    why = spec.get("reason") or "-"
    return (spec["approver"], spec["decision"], spec["planDigest"][:12], _accepted(accepted), why)


def _accepted(condition: Mapping[str, object]) -> str:
    if not condition:
        return "not yet"
    return "yes" if condition.get("status") == "True" else f"no: {condition.get('reason')}"
