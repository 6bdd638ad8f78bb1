"""`status`: clusters, recoveries, and what waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType

from kafka_recovery.cli.kubectl import reading
from kafka_recovery.cli.kubectl.aftermath import aftermath
from kafka_recovery.cli.kubectl.plans import became, plans_table
from kafka_recovery.cli.kubectl.pods import where_they_run
from kafka_recovery.cli.kubectl.reading import Incident, waits_for
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal import words
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.render import lines, table, write_result
from kafka_recovery.cli.terminal.tables import card_table
from kafka_recovery.decision.card import card
from kafka_recovery.domain.counts import Whereabouts
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.recoveries.plan_history import Became
from kafka_recovery.kube.recoveries.status import OBSERVE_ONLY
from kafka_recovery.kube.resources.fields import Word
from kafka_recovery.kube.resources.kinds import APPROVALS
from kafka_recovery.recovery.supervision import Authority

_FINISHED_SHOWN = 10


def status(session: Session, name: str | None) -> ExitCode:
    """The whole namespace, or one recovery with everything that is known about it."""
    return _one(session, name) if name else _all(session)


def _all(session: Session) -> ExitCode:
    clusters, found = reading.clusters(session), reading.incidents(session)
    now = datetime.now(UTC)
    still = [each for each in found if not each.finished]
    finished = [each for each in found if each.finished]
    document = {"clusters": [_plain(each) for each in clusters], "recoveries": [_plain(each.obj) for each in found]}
    shown = Group(
        _cluster_table(clusters, session.namespace),
        lines(""),
        _recovery_table([*still, *finished[:_FINISHED_SHOWN]], clusters, now),
        lines(*_left_out(len(finished) - _FINISHED_SHOWN)),
    )
    write_result(session.output, document, shown, _next(session, still))
    return ExitCode.DONE


def _one(session: Session, name: str) -> ExitCode:
    incident = reading.incident(session, name)
    clusters = [each for each in reading.clusters(session) if _name(each) == incident.recovery.cluster_name]
    said = _words_about(session, incident)
    after = list(aftermath(session, incident, next(iter(clusters), None)))
    parts = (
        _heading(incident, clusters, said),
        _plan(session, incident, next(iter(clusters), None)),
        [lines("", *after)] if after else [],
        _plans(incident),
        _conditions(incident),
        _told(incident),
        _said(said),
    )
    shown = Group(*(part for each in parts for part in each))
    document = {"recovery": _plain(incident.obj), "approvals": [_plain(each) for each in said]}
    following = _before_a_start(session, incident) or _next(session, [incident])
    write_result(session.output, document, shown, following)
    return ExitCode.DONE


def _words_about(session: Session, incident: Incident) -> list[Object]:
    """RecoveryApprovals of exactly this recovery, oldest first."""
    params = {"fieldSelector": f"spec.recoveryRef.name={incident.name}"}
    found = session.api.list_all(APPROVALS.path(session.namespace), params)
    ours = [each for each in found if each["spec"]["recoveryRef"]["uid"] == incident.recovery.meta.uid]
    return sorted(ours, key=lambda each: str(each["metadata"]["creationTimestamp"]))


def _cluster_table(clusters: Sequence[Object], namespace: str) -> RenderableType:
    if not clusters:
        return lines(f"No WatchedCluster in namespace {namespace}.")
    headings = ("Cluster", "Authority", "Ready", "Kafka", "Offline", "Note")
    return table(*headings, rows=[_cluster_row(each) for each in clusters])


def _cluster_row(cluster: Object) -> tuple[object, ...]:
    spec, seen = cluster.get("spec") or {}, cluster.get("status") or {}
    conditions = {str(each.get("type")): each for each in seen.get("conditions") or ()}
    notes = [
        "suspended" if spec.get("suspend") else "",
        "isolated" if conditions.get("Isolated", {}).get("status") == "True" else "",
        *(_why_not(conditions.get(kind, {})) for kind in ("Ready", "KafkaHealthy")),
    ]
    offline = seen.get("offlinePartitions")
    return (
        _name(cluster),
        spec.get("authority", "Observe"),
        _word(conditions.get("Ready"), "yes", "no"),
        _word(conditions.get("KafkaHealthy"), "healthy", "sick"),
        offline,
        ", ".join(dict.fromkeys(note for note in notes if note)) or "-",
    )


def _word(condition: Mapping[str, object] | None, good: str, bad: str) -> str | None:
    """None is shown as unknown."""
    return {"True": good, "False": bad}.get(str((condition or {}).get("status")))


def _why_not(condition: Mapping[str, object]) -> str:
    return str(condition.get("reason", "")) if condition.get("status") == "False" else ""


def _recovery_table(found: Sequence[Incident], clusters: Sequence[Object], now: datetime) -> RenderableType:
    if not found:
        return lines("No recoveries.")
    suspended, observed = _suspended(clusters), _observed(clusters)
    rows = (
        (
            each.name,
            each.state,
            _done(each),
            waits_for(each, suspended, observed),
            _age(now, each.recovery.meta.created_at),
            each.recovery.cluster_name,
        )
        for each in found
    )
    return table("Recovery", "State", "Done", "Waits for", "Age", "Cluster", rows=rows)


def _done(incident: Incident) -> str:
    counts = incident.counts
    return f"{counts[Whereabouts.RECOVERED]}/{counts.total}" if counts else "-"


def _left_out(count: int) -> Iterator[str]:
    if count > 0:
        yield f"… and {count} more that finished; -o json shows all of them"


def _next(session: Session, open_ones: Sequence[Incident]) -> str:
    """What to type where somebody is waited for, the longest first."""
    asking = [each.name for each in open_ones if each.asks and each.state != OBSERVE_ONLY]
    return f"Next: {session.command(f'plan {asking[-1]}')}" if asking else ""


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
        f"Waits for: {waits_for(incident, _suspended(clusters), _observed(clusters))}",
    )


def _plan(session: Session, incident: Incident, cluster: Object | None) -> Iterator[RenderableType]:
    """Of a plan that waits for somebody all that decides; else what the status tells of it."""
    if not (plan := incident.plan):
        return
    details = incident.recovery.status["plan"]
    until = f", looked at again at {plan.expires_at:%H:%M:%S} UTC" if plan.expires_at and incident.asks else ""
    loss = f"worst loss class {details.get('lossClass', '?')}"
    yield lines(f"Plan: {plan.digest}", f"  elections: {details.get('elections', '?')}, {loss}{until}")
    if incident.asks:
        with suppress(ApiError, InvalidDocument):
            found = reading.plan_of(session, incident)[1]
            yield Group(lines(""), card_table(card(found)), *where_they_run(session, incident, cluster, found))
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
    accepted = _answer(word)
    if accepted.get("status") == "False":
        return f"{accepted.get('reason')}: {accepted.get('message') or 'the operator says no more'}"
    return f"the recovery has ended: {incident.message}" if incident.finished else ""


def _answer(word: Object) -> Mapping[str, Any]:
    """The condition Accepted of an approval; empty: it was not answered yet."""
    conditions = (word.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == "Accepted"), {})


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
            yield lines("", f"The first {word}:", *sentences)


def _said(said: Sequence[Object]) -> Iterator[RenderableType]:
    rows = [_word_row(each) for each in said]
    if rows:
        yield Group(lines(""), table("Approver", "Said", "Plan", "Accepted", "Why", rows=rows))


def _word_row(word: Object) -> tuple[object, ...]:
    spec, accepted = word["spec"], _answer(word)
    why = spec.get("reason") or "-"
    return (spec["approver"], spec["decision"], spec["planDigest"][:12], _accepted(accepted), why)


def _accepted(condition: Mapping[str, object]) -> str:
    if not condition:
        return "not yet"
    return "yes" if condition.get("status") == "True" else f"no: {condition.get('reason')}"


def _suspended(clusters: Sequence[Object]) -> dict[str, bool]:
    return {_name(each): bool((each.get("spec") or {}).get("suspend")) for each in clusters}


def _observed(clusters: Sequence[Object]) -> set[str]:
    """An approval of their plans does nothing."""
    default = str(Authority.OBSERVE)
    return {_name(each) for each in clusters if (each.get("spec") or {}).get("authority", default) == Authority.OBSERVE}


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _plain(obj: Object) -> Object:
    """Without the server's book-keeping."""
    return obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _age(now: datetime, since: datetime) -> str:
    """As kubectl writes it: the largest unit only."""
    seconds = max(0, int((now - since).total_seconds()))
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"
