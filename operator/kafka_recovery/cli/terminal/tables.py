"""What each command shows to people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from kafka_recovery.cli.terminal import words
from kafka_recovery.cli.terminal.reasons import Told, grouped, what_to_do
from kafka_recovery.cli.terminal.render import cell, lines, table
from kafka_recovery.decision import log_directories
from kafka_recovery.decision.afterwards import absent, led_alike, not_yet_all, tiered, to_do
from kafka_recovery.decision.alike import Alike, Copies, named
from kafka_recovery.decision.card import NOTHING_AT_HAND, AtHand, Card, card
from kafka_recovery.decision.costs import BrokerCost, costs, in_a_line, is_empty, partitions, records
from kafka_recovery.decision.glances import BrokerGlance
from kafka_recovery.decision.known_bugs import Answer, known_bugs, which_releases
from kafka_recovery.decision.moments import moment
from kafka_recovery.decision.questions import Question
from kafka_recovery.decision.seen import state
from kafka_recovery.decision.waiting import Choice, asked_about_all
from kafka_recovery.domain.counts import AWAITING_APPROVAL, Stage, counted
from kafka_recovery.domain.evidence import ClusterState, Evidence, PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome, Report
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.formats.documents import digest
from kafka_recovery.formats.printable import printable

_BROKERS_SHOWN = 12
"""So many brokers of a plan are shown to people; `explain` shows the others, a partition at a time."""
_ALIKE_SHOWN = 6
_VERDICT_STYLES = {Verdict.ELECT: "green", Verdict.WAIT: "yellow", Verdict.REFUSE: "red", Verdict.NOTHING: "dim"}


def evidence_table(evidence: Evidence) -> RenderableType:
    """Every replica of every partition, with its log as its own broker measured it; `?` is unknown, never zero."""
    cluster = evidence.cluster
    heading = (
        f"Cluster {cluster.cluster_id}, {len(evidence.partitions)} partitions, seen from broker {cluster.view_from}"
    )
    if not evidence.partitions and not evidence.missing:
        return lines(f"Cluster {cluster.cluster_id}: no offline partitions.")
    headings = (
        "Partition",
        "Epoch",
        "Broker",
        "Rack",
        "Role",
        "State",
        "Last epoch",
        "Log start",
        "Log end",
        "Problem",
    )
    shown = table(*headings, rows=_replica_rows(evidence))
    problems = [
        Told(partition.id, replica.problem, f" at broker {replica.broker}")
        for partition in evidence.partitions
        for replica in partition.replicas
        if replica.problem
    ]
    gone = [Told(missing.id, missing.reason) for missing in evidence.missing]
    directories = tuple(log_directories.wrong(evidence))
    noted = [lines("", *directories)] if directories else []
    return Group(lines(heading, ""), shown, *noted, _sentences([*problems, *gone]))


def plan_table(
    plan: Plan, rows: int | None = None, at_hand: AtHand = NOTHING_AT_HAND, *, over: bool = False
) -> RenderableType:
    """What a person needs to decide, then decisions, reasons and the digest; at most `rows` decisions (None: all).

    `over`: nothing is elected by it any more, so what could be done before is left out.
    """
    alike = _decided(asked_about_all(plan) if at_hand.asked else plan)
    hidden = sum(len(ids) for _, ids in alike[rows:]) if rows is not None else 0
    ending = [f"… and {hidden} more; --output json shows all of them"] if hidden else []
    reasons = [Told(decision.id, decision.reason) for decision in plan.decisions if decision.reason]
    gone = [Told(missing.id, missing.reason) for missing in plan.evidence.missing]
    summary = [*([words.waves(plan), words.DELETES] if plan.elections else []), f"Digest: {digest(plan)}"]
    made = moment(plan.evidence.cluster.observed_at)
    return Group(
        lines(f"Plan for cluster {plan.cluster_id}, as it was seen at {made}"),
        card_table(card(plan, at_hand, over=over)),
        _decisions(alike[:rows]),
        lines(*ending),
        _sentences([*reasons, *gone]),
        lines("", *_warnings(plan), *summary),
    )


def card_table(found: Card) -> RenderableType:
    """What decides; below it one line a broker, and one for all partitions that are alike."""
    shown = found.brokers[:_BROKERS_SHOWN]
    hidden = len(found.brokers) - len(shown)
    ending = [f"… and {hidden} more brokers"] if hidden else []
    choice = list(_choice(found.choice)) if found.choice else []
    after = list(map(_in_a_line, found.choice.after)) if found.choice else []
    dense = found.choice and found.choice.never  # that stands out itself, and all that decides is to fit a screen
    return Group(
        *([lines(*found.stop)] if found.stop else []),
        *_command(("In place of approving:", found.better) if found.better else None),
        *([lines("")] if found.stop and not dense else []),
        lines(*found.situation, *([] if dense else [""])),
        *choice,
        *_command(found.command),
        *after,
        *([lines("")] if found.choice and (found.choice.questions or found.choice.never or after) else []),
        *_brokers(found, shown),
        lines(*ending, *(("",) if shown else ())),
        *_alike(found.partitions),
    )


def _choice(found: Choice) -> Iterator[RenderableType]:
    """A question to a line, its answers below it and indented; what is no question stands in one line with its word."""
    if found.first:
        yield lines(*found.first, *([] if found.never else [""]))
    if found.never:
        yield cell(" ".join(found.never), "bold")
    for question in found.questions:
        if not any(answer for answer, _ in question.answers):
            yield _in_a_line(question)
            continue
        yield cell(question.asked.upper(), "bold")
        if question.known:
            yield Padding(Text.assemble(("When this was planned: ", "bold"), " ".join(question.known)), (0, 0, 0, 2))
        for answer, then in question.answers:
            yield Padding(Text.assemble((f"{answer}: ", "bold"), then), (0, 0, 0, 2))


def _in_a_line(question: Question) -> Text:
    return Text.assemble((f"{question.asked.upper()} ", "bold"), " ".join(then for _, then in question.answers))


def _command(found: tuple[str, str] | None) -> Iterator[RenderableType]:
    """In one piece, however wide the terminal is: it is to be copied."""
    if found:
        when, command = found
        asked = (f"{when.upper()} ", "bold")
        yield Text.assemble(asked, printable(command), no_wrap=True, overflow="ignore")


def _brokers(found: Card, shown: Sequence[BrokerGlance]) -> Iterator[RenderableType]:
    if shown:
        planned = [f"Deletes if {found.planned}"] if found.planned else []
        pods = ["Pod"] if any(broker.pod for broker in shown) else []
        headings = ("Broker", "Seen as", *pods, "Could lead", "Read", *planned, f"Deletes if {found.kafka}")
        yield table(*headings, rows=(_glance(broker, found, with_pods=bool(pods)) for broker in shown))


def _alike(found: Sequence[Alike]) -> Iterator[RenderableType]:
    if found:
        headings = ("Partitions", "ISR", "ELR", "Last leader", "Log end (last epoch) of each broker")
        yield table(*headings, rows=map(_seen_alike, found[:_ALIKE_SHOWN]))
        hidden = sum(len(each.ids) for each in found[_ALIKE_SHOWN:])
        yield lines(*([f"… and {partitions(hidden)} more; explain shows each"] if hidden else []), "")


def _seen_alike(found: Alike) -> tuple[object, ...]:
    return (
        named(found.ids),
        _listed(found.isr),
        "-" if found.elr is None else _listed(found.elr),
        found.last_leader,
        ", ".join(map(_copies, found.copies)),
    )


def _listed(brokers: Sequence[BrokerId]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _copies(found: Copies) -> str:
    if found.ends is None:
        return f"{found.broker}: ?"
    if found.empty:
        return f"{found.broker}: {words.empty(_range(found.ends))}"
    epochs = f" ({_range(found.epochs)})" if found.epochs else ""
    return f"{found.broker}: {_range(found.ends)}{epochs}"


def _range(values: tuple[int, int]) -> str:
    least, most = values
    return f"{least}" if least == most else f"{least} to {most}"


def _glance(broker: BrokerGlance, found: Card, *, with_pods: bool) -> tuple[object, ...]:
    by = (("by Kafka", broker.kafka_elects), ("by plan", broker.plan_elects))
    return (
        broker.broker,
        broker.state,
        *([broker.pod or "-"] if with_pods else []),
        ", ".join(f"{whom} {count:,} of {found.offline:,}" for whom, count in by if count) or "-",
        _logs(broker),
        *([_deletes(broker.cost, found.offline)] if found.planned else []),
        _deletes(broker.kafka_cost, found.offline),
    )


def _logs(broker: BrokerGlance) -> str:
    read = broker.replicas - broker.unread
    found = f"{read:,} of {broker.replicas:,}"
    return f"{found}, {broker.empty:,} EMPTY" if broker.empty else found


def _deletes(cost: BrokerCost, offline: int) -> str:
    known = [f"up to {records(cost.records)} ({cost.partitions:,} of {offline:,})"] if cost.partitions else []
    least = f", {cost.certain:,} offsets at least" if cost.certain else ""
    unknown = [f"unknown ({cost.unknown:,} of {offline:,}){least}"] if cost.unknown else []
    return "; ".join((*known, *unknown)) or "-"


def report_table(report: Report, carried_out: Sequence[Plan] = ()) -> RenderableType:
    """One line a partition, then what has to be known besides, and what to do next for brokers that may hold more.

    `carried_out`: plans that may have elected somebody.
    """
    if not report.outcomes:
        return lines("Nothing to do.")
    headings = ("Partition", "Outcome", "Leader", "Epoch", "Log end", "Why")
    rows = (
        (
            done.id,
            _outcome(done),
            _or_dash(done.leader),
            _or_dash(done.leader_epoch),
            _or_dash(done.log_end),
            _why(done),
        )
        for done in report.outcomes
    )
    warnings = [f"Warning: {done.id}: {warning}" for done in report.outcomes for warning in done.warnings]
    reasons = [Told(done.id, done.reason) for done in report.outcomes if done.reason and not done.outcome.is_recovered]
    places = counted({done.id: done for done in report.outcomes}, len(report.outcomes), Stage(over=True))
    planned = [f"When plan {digest(plan)[:12]} was made: {in_a_line(plan, costs(plan))}" for plan in carried_out]
    ending = lines("", *warnings, f"Partitions: {words.counts(places)}", *_elected(report), *planned, _led(report))
    return Group(table(*headings, rows=rows), _sentences(reasons), ending, lines(*_next_steps(carried_out, report)))


def is_any_absent(carried_out: Sequence[Plan], report: Report) -> bool:
    """Whether a broker was away whose copies the end of a report names."""
    return bool(absent(carried_out, {done.id: done for done in report.outcomes}))


def _next_steps(carried_out: Sequence[Plan], report: Report) -> Iterator[str]:
    outcomes = {done.id: done for done in report.outcomes}
    found, later = absent(carried_out, outcomes), tuple(tiered(carried_out, outcomes))
    led = led_alike(carried_out, outcomes)
    if found or later:
        yield ""
    yield from not_yet_all(found)
    yield from later
    yield from (f"{number}. {step}" for number, step in enumerate(to_do(found, led), 1))


def _elected(report: Report) -> Iterator[str]:
    """How, where anybody may have been; else where to read what may be done, if no plan waits for a yes."""
    if any(done.outcome is not Outcome.REFUSED for done in report.outcomes):
        yield words.elected(report.outcomes)
    elif all(done.reason and done.reason.code != AWAITING_APPROVAL for done in report.outcomes):
        yield "Nobody was elected. kafka-recovery plan says what may be done now, and whether another broker may lead."


def _led(report: Report) -> str:
    """Who can be read and written again, whatever the outcome is called: a log end is a leader's own answer."""
    led = [done for done in report.outcomes if done.leader is not None and done.log_end is not None]
    doubtful = sum(not done.outcome.is_recovered for done in led)
    but = f"; {doubtful} of them not as planned, see above" if doubtful else ""
    return f"{len(led)} of {len(report.outcomes)} partitions have a leader that answers{but}."


def _warnings(plan: Plan) -> Iterator[str]:
    """Each warning once, with the first partition it is about."""
    about: dict[str, list[TopicPartition]] = {}
    for decision in plan.decisions:
        for warning in decision.warnings:
            about.setdefault(warning, []).append(decision.id)
    for warning, ids in about.items():
        yield f"Warning: {ids[0]}{f' and {len(ids) - 1} more' if len(ids) > 1 else ''}: {warning}"
    known = (*which_releases(plan.evidence), *known_bugs(plan.evidence, Answer.INFORM))
    for note in (*known, *log_directories.unknown(plan.evidence.cluster)):
        yield f"Note: {note}"


def undone_table(report: Report) -> RenderableType:
    """Which assignment orders are the original ones again."""
    if not report.outcomes:
        return lines("Nothing to undo: the journal holds no unfinished run.")
    told = {True: "restored", False: "NOT restored", None: "not known"}
    rows = ((done.id, told[done.order_restored]) for done in report.outcomes)
    return table("Partition", "Assignment order", rows=rows)


def _sentences(reasons: Iterable[Told]) -> RenderableType:
    """The whole reasons, below a table that has room for their codes only, and what to do about each."""
    told = list(reasons)
    shown = list(grouped(told))
    remedies = list(what_to_do((each.reason.code, each.reason.message) for each in told))
    return Group(*([lines("", *shown)] if shown else []), *([lines("", *remedies)] if remedies else []))


def _replica_rows(evidence: Evidence) -> Iterator[tuple[object, ...]]:
    for partition in evidence.partitions:
        for replica in partition.replicas:
            log = replica.log
            yield (
                partition.id,
                partition.leader_epoch,
                replica.broker,
                words.rack(replica, evidence.cluster),
                words.role(replica, partition),
                _seen_as(replica, evidence.cluster),
                log.last_epoch if log else None,
                _start(log) if log else None,
                log.end if log else None,
                replica.problem.code if replica.problem else "-",
            )


def _start(log: ReplicaLog) -> str:
    """A tiered topic's log begins on the broker's own disk later than in all, or at the same offset."""
    return f"{log.start}" if log.local_start is None else f"{log.start} (local {log.local_start})"


def _seen_as(replica: Replica, cluster: ClusterState) -> str:
    leads = ", still leads it" if replica.leads else ""
    return f"{state(cluster.broker(replica.broker))}{leads}"


_Decided = tuple[Verdict, object, object, str, str, str, str]
_DECIDED = ("Verdict", "Leader", "Log end", "Loss", "Approval", "Rule", "Why")
_SAME_OF_ALL = ("Approval", "Rule")
"""Columns that are left out where they say the same of each."""


def _decided(plan: Plan) -> list[tuple[_Decided, list[TopicPartition]]]:
    """What is decided, and of which partitions; in their order."""
    seen = {partition.id: partition for partition in plan.evidence.partitions}
    found: dict[_Decided, list[TopicPartition]] = {}
    for each in plan.decisions:
        partition = seen.get(each.id)
        told = (
            each.verdict,
            _or_dash(each.leader),
            _planned_end(each, partition),
            words.loss_class(each.loss),
            words.approval(each),
            each.rule or "-",
            words.why(each, partition.leader if partition else None),
        )
        found.setdefault(told, []).append(each.id)
    return list(found.items())


def _decisions(alike: Sequence[tuple[_Decided, list[TopicPartition]]]) -> RenderableType:
    columns = [
        column
        for column, heading in enumerate(_DECIDED)
        if heading not in _SAME_OF_ALL or len({told[column] for told, _ in alike}) > 1
    ]
    rows = (
        (named(ids), cell(told[0], _VERDICT_STYLES[told[0]]), *(told[column] for column in columns[1:]))
        for told, ids in alike
    )
    return table("Partition", *(_DECIDED[column] for column in columns), rows=rows)


def _planned_end(decision: Decision, seen: PartitionEvidence | None) -> object:
    """Where the new leader's log ends; an empty one may end anywhere."""
    copy = seen.replica(decision.leader) if seen and decision.leader is not None else None
    if copy and is_empty(copy.log) and decision.log_end is not None:
        return words.empty(str(decision.log_end))
    return _or_dash(decision.log_end)


def _outcome(done: PartitionOutcome) -> Text:
    return cell(done.outcome, "green" if done.outcome.is_recovered else "red")


def _why(done: PartitionOutcome) -> str:
    order = words.order_left(done)
    return (order and f"{order}; ") + (done.reason.code if done.reason else "") or "-"


def _or_dash(value: object) -> object:
    return "-" if value is None else value
