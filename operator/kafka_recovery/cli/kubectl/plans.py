"""`plan` and `explain`: what would be done and why, from the journal in the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Group

from kafka_recovery.cli.cluster import plan_files
from kafka_recovery.cli.kubectl import answers, reading
from kafka_recovery.cli.kubectl.reading import Incident, Shown
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.explained import explanation_table
from kafka_recovery.cli.terminal.inputs import partition
from kafka_recovery.cli.terminal.render import lines, write_result
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.cli.terminal.tables import plan_table
from kafka_recovery.cli.terminal.text import complain
from kafka_recovery.decision.explanation import explain as explained
from kafka_recovery.decision.returns import Led, after_an_election, away
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, as_data
from kafka_recovery.kube.machinery.api import ApiError


def plan(session: Session, name: str) -> ExitCode:
    """Show the plan of this moment."""
    incident = reading.incident(session, name)
    shown, found = reading.plan_of(session, incident)
    document = plan_files.plan_document(found) | {"recovery": name, "expiresAt": _instant(shown.expires_at)}
    why = f"Why: {session.command(f'explain {name} TOPIC-PARTITION')}"
    said = [validity(incident, shown, datetime.now(UTC)), why, *_since(found, reading.led(session, incident))]
    ask = answers.to(session, incident, found) if incident.asks else answers.NOTHING
    write_result(session.output, document, Group(plan_table(found), lines(*said, *ask.told)), ask.command)
    return ExitCode.DONE


def validity(incident: Incident, shown: Shown, now: datetime) -> str:
    """How long the plan stands as it is."""
    if incident.finished:
        return f"{incident.name} has finished: {incident.state}."
    if not incident.asks:
        return f"Nobody is asked about it now: {incident.state}: {incident.message}"
    if shown.expires_at is None:
        return "Its evidence is looked at again and again; a change makes it another plan."
    at = f"{shown.expires_at.astimezone(UTC):%H:%M:%S} UTC"
    if now >= shown.expires_at:
        return f"Expired at {at}: the operator looks again; if something changed, there will be another plan."
    left = int((shown.expires_at - now).total_seconds())
    return f"Expires at {at}, in {left} s, unless the operator finds by then that nothing changed."


def explain(session: Session, words: Sequence[str]) -> ExitCode:
    """Explain one decision: of the recovery that is named, else of the open one that has the partition."""
    if len(words) > 2:
        raise InvalidDocument(f"explain takes [NAME] TOPIC-PARTITION, not {len(words)} words")
    id = partition(words[-1])
    incident, found = _plan_about(session, words[0], id) if len(words) == 2 else _open_plan_about(session, id)
    explanation = explained(found, id, reading.led(session, incident)(id))
    write_result(session.output, as_data(explanation), explanation_table(explanation))
    return ExitCode.DONE


def _plan_about(session: Session, name: str, id: TopicPartition) -> tuple[Incident, Plan]:
    incident = reading.incident(session, name)
    _, found = reading.plan_of(session, incident)
    if not _decides(found, id):
        raise InvalidDocument(f"the plan of {name} does not hold {id}; {session.command(f'plan {name}')} shows it")
    return incident, found


def _open_plan_about(session: Session, id: TopicPartition) -> tuple[Incident, Plan]:
    """A plan that can't be read is no reason not to look into the others."""
    without_plan = []
    for incident in reading.incidents(session):
        scope = incident.recovery.scope.partitions
        if incident.finished or (scope is not None and id not in scope):
            continue
        if incident.plan is None:
            without_plan.append(incident)
            continue
        try:
            found = reading.recorded(session, incident.recovery, incident.plan.digest)
        except (ApiError, InvalidDocument) as error:
            complain(f"the plan of {incident.name} can't be read: {error}")
            continue
        if _decides(found, id):
            return incident, found
    if without_plan:
        first = without_plan[0]
        raise Refusal(
            ExitCode.BAD_INPUT,
            f"no plan holds {id} yet; {first.name} may come to it: {first.state}: {first.message}",
        )
    raise InvalidDocument(f"no open recovery has a plan with {id}; {session.command('status')} shows the recoveries")


def _decides(plan: Plan, id: TopicPartition) -> bool:
    return any(decision.id == id for decision in plan.decisions)


def _since(plan: Plan, led: Callable[[TopicPartition], Led | None]) -> Iterator[str]:
    """What to do before a broker is started that was away when the plan was made, where another one leads by now."""
    partitions: dict[tuple[BrokerId, ...], list[TopicPartition]] = {}
    for each in plan.evidence.partitions:
        leads = led(each.id)
        if leads and (absent := tuple(broker for broker in away(each) if broker != leads.leader)):
            partitions.setdefault(absent, []).append(each.id)
    for absent, ids in partitions.items():
        yield after_an_election(absent, ids)


def _instant(at: datetime | None) -> str | None:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else None
