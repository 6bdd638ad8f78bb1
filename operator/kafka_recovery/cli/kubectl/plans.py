"""`plan` and `explain`: what would be done and why, from the journal in the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from rich.console import Group, RenderableType

from kafka_recovery.cli.cluster import plan_files
from kafka_recovery.cli.kubectl import answers, reading
from kafka_recovery.cli.kubectl.aftermath import broker_now, cluster_of, of_broker
from kafka_recovery.cli.kubectl.pods import where_they_run
from kafka_recovery.cli.kubectl.reading import Incident
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.explained import explanation_table
from kafka_recovery.cli.terminal.inputs import partition
from kafka_recovery.cli.terminal.render import lines, table, write_result
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.cli.terminal.tables import plan_table
from kafka_recovery.cli.terminal.text import complain
from kafka_recovery.decision.explanation import explain as explained
from kafka_recovery.decision.returns import away
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, as_data
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.recoveries.plan_history import Became, PlanTold


def plan(session: Session, name: str, prefix: str | None = None) -> ExitCode:
    """Show the plan of this moment, or the one whose digest begins with `prefix`."""
    incident = reading.incident(session, name)
    if prefix is not None:
        told, found = reading.earlier_plan(session, incident, prefix)
        if incident.plan is None or told.digest != incident.plan.digest:
            return _earlier(session, incident, told, found)
    _, found = reading.plan_of(session, incident)
    document = plan_files.plan_document(found) | {"recovery": name}
    why = f"Why: {session.command(f'explain {name} TOPIC-PARTITION')}"
    said = [validity(incident), why, *_since(session, incident, found)]
    ask = answers.to(session, incident, found) if incident.asks else answers.NOTHING
    hand = answers.at_hand(session, incident, found)
    places = () if incident.finished else where_they_run(session, incident, cluster_of(session, incident), found)
    result = Group(plan_table(found, None, hand, over=incident.finished), *places, lines(*said, *ask.told))
    write_result(session.output, document, result, ask.command)
    return ExitCode.DONE


def _earlier(session: Session, incident: Incident, told: PlanTold, found: Plan) -> ExitCode:
    """Show a plan that is not the one of this moment: nobody can approve it."""
    document = plan_files.plan_document(found) | {"recovery": incident.name, "became": str(told.became)}
    why = f"Why: {session.command(f'explain {incident.name} TOPIC-PARTITION --plan {told.digest[:12]}')}"
    heading = lines(not_of_this_moment(incident, told), "")
    said = lines(why, *_since(session, incident, found))
    write_result(session.output, document, Group(heading, plan_table(found, over=True), said))
    return ExitCode.DONE


def not_of_this_moment(incident: Incident, told: PlanTold) -> str:
    """What has to be known before an earlier plan is read."""
    return f"NOT the plan of this moment: plan {told.digest[:12]} of {incident.name}. {became(told)}."


def plans(session: Session, name: str) -> ExitCode:
    """List the plans of a recovery."""
    incident = reading.incident(session, name)
    document = {"recovery": name, "plans": [told.as_said() for told in incident.plans]}
    shown = plans_table(incident.plans) if incident.plans else lines(f"{name} has no plan yet: {incident.state}.")
    newest = next((told for told in incident.plans if told.readable), None)
    command = f"plan {name} --plan {newest.digest[:12]}" if newest else ""
    write_result(session.output, document, shown, f"To read one: {session.command(command)}" if command else "")
    return ExitCode.DONE


def plans_table(told: Sequence[PlanTold]) -> RenderableType:
    """The newest first, and below what became of those that are not the plan of this moment."""
    rows = [
        (
            each.digest[:12] + ("" if each.readable else " (not kept)"),
            each.became,
            each.made_at or None,
            each.elections if each.made_at else None,
        )
        for each in told
    ]
    said = [f"{each.digest[:12]}: {became(each)}." for each in told if each.became is not Became.CURRENT]
    return Group(table("Plan", "Became", "Made at", "Elections", rows=rows), *([lines("", *said)] if said else []))


def became(told: PlanTold) -> str:
    """What became of a plan, in a sentence without its end."""
    at = f" at {told.at}" if told.at else ""
    by = f", followed by plan {told.replaced_by[:12]}" if told.replaced_by else ""
    differs = f" ({told.differs})" if told.differs else ""
    why = f": {told.message}" if told.message else ""
    return f"{told.became}{at}{why}{by}{differs}".rstrip(".")


def validity(incident: Incident) -> str:
    """How long the plan stands as it is."""
    if incident.finished:
        return f"{incident.name} has finished: {incident.state}."
    if not incident.asks:
        return f"Nobody is asked about it now: {incident.state}: {incident.message}"
    return (
        "An approval counts while nothing has changed. Once the evidence is older than the rules' maxAge, the operator "
        "looks again before it acts; if something changed, it makes another plan."
    )


def explain(session: Session, words: Sequence[str], prefix: str | None = None) -> ExitCode:
    """Explain one decision: of the recovery that is named, else of the open one that has the partition."""
    if len(words) > 2:
        raise InvalidDocument(f"explain takes [NAME] TOPIC-PARTITION, not {len(words)} words")
    if prefix is not None and len(words) == 1:
        raise InvalidDocument("explain --plan needs the recovery's NAME as well: whose plan it is")
    id = partition(words[-1])
    told: PlanTold | None = None
    if len(words) == 2:
        incident = reading.incident(session, words[0])
        told, found = _plan_about(session, incident, id, prefix)
    else:
        incident, found = _open_plan_about(session, id)
    explanation = explained(found, id, reading.led(session, incident)(id), session.kubectl)
    heading = [lines(not_of_this_moment(incident, told), "")] if told else []
    back = [lines(*said)] if (said := _back(session, incident, found, id)) else []
    write_result(session.output, as_data(explanation), Group(*heading, explanation_table(explanation), *back))
    return ExitCode.DONE


def _plan_about(
    session: Session, incident: Incident, id: TopicPartition, prefix: str | None
) -> tuple[PlanTold | None, Plan]:
    """The plan that is asked for, else the newest that holds the partition; what became of it, if it is an earlier one.

    An earlier one that can't be read is no reason not to look into the others.
    """
    current = incident.plan.digest if incident.plan else None
    if prefix is not None:
        told, found = reading.earlier_plan(session, incident, prefix)
        if not _decides(found, id):
            raise InvalidDocument(f"plan {told.digest[:12]} of {incident.name} does not hold {id}")
        return (None if told.digest == current else told), found
    if current is not None:
        _, found = reading.plan_of(session, incident)
        if _decides(found, id):
            return None, found
    for told in incident.plans:
        if told.digest != current and told.readable:
            with suppress(ApiError, InvalidDocument):
                found = reading.recorded(session, incident.recovery, told.digest)
                if _decides(found, id):
                    return told, found
    reading.plan_of(session, incident)  # says why there is none, if so
    name = incident.name
    raise InvalidDocument(f"no plan of {name} holds {id}; {session.command(f'plans {name}')} lists its plans")


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


def _since(session: Session, incident: Incident, plan: Plan) -> Iterator[str]:
    """What each broker may hold that was away when the plan was made, where another one leads by now."""
    led = reading.led(session, incident)
    partitions: dict[BrokerId, list[TopicPartition]] = {}
    for each in plan.evidence.partitions:
        leads = led(each.id)
        for broker in away(each) if leads else ():
            if leads and broker != leads.leader:
                partitions.setdefault(broker, []).append(each.id)
    cluster = cluster_of(session, incident) if partitions else None
    for broker, ids in sorted(partitions.items()):
        yield from of_broker(broker_now(cluster, broker), ids)


def _back(session: Session, incident: Incident, plan: Plan, id: TopicPartition) -> list[str]:
    """Brokers that were away when the plan was made, and were started since another one leads."""
    leads = reading.led(session, incident)(id)
    partition = next(each for each in plan.evidence.partitions if each.id == id)
    absent = [broker for broker in away(partition) if leads and broker != leads.leader]
    cluster = cluster_of(session, incident) if absent else None
    now = [broker_now(cluster, broker) for broker in absent]
    return [line for broker in now if broker.is_back for line in of_broker(broker, (id,))]
