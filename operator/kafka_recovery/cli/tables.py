"""What each command shows to people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from kafka_recovery.cli import words
from kafka_recovery.cli.render import cell, lines, table
from kafka_recovery.domain.documents import digest
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import PartitionOutcome, Report
from kafka_recovery.domain.plan import Decision, Plan, Verdict
from kafka_recovery.domain.reason import Reason

_SENTENCES = 20
"""Different reasons written out below a table."""
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
        (f"{partition.id} at broker {replica.broker}", replica.problem)
        for partition in evidence.partitions
        for replica in partition.replicas
    ]
    gone = [(str(missing.id), missing.reason) for missing in evidence.missing]
    return Group(lines(heading, ""), shown, _sentences([*problems, *gone]))


def plan_table(plan: Plan, rows: int | None = None) -> RenderableType:
    """Decisions, waves, loss classes and the digest; at most `rows` decisions (None: all)."""
    shown = plan.decisions[:rows]
    hidden = len(plan.decisions) - len(shown)
    ending = [f"… and {hidden} more; --output json shows all of them"] if hidden else []
    reasons = [(str(decision.id), decision.reason) for decision in plan.decisions]
    gone = [(str(missing.id), missing.reason) for missing in plan.evidence.missing]
    summary = [words.verdicts(plan), words.waves(plan), words.loss_classes(plan), f"Digest: {digest(plan)}"]
    return Group(
        lines(f"Plan for cluster {plan.cluster_id}", ""),
        _decisions(plan, shown),
        lines(*ending),
        _sentences([*reasons, *gone]),
        lines("", *_warnings(plan), *summary),
    )


def report_table(report: Report) -> RenderableType:
    """One line a partition, then what has to be known besides."""
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
    back = sum(done.outcome.is_recovered for done in report.outcomes)
    summary = f"{back} of {len(report.outcomes)} partitions have a leader that answers."
    reasons = [(str(done.id), done.reason) for done in report.outcomes if not done.outcome.is_recovered]
    return Group(table(*headings, rows=rows), _sentences(reasons), lines("", *warnings, summary))


def _warnings(plan: Plan) -> Iterator[str]:
    """Each warning once, with the first partition it is about."""
    about: dict[str, list[TopicPartition]] = {}
    for decision in plan.decisions:
        for warning in decision.warnings:
            about.setdefault(warning, []).append(decision.id)
    for warning, ids in about.items():
        yield f"Warning: {ids[0]}{f' and {len(ids) - 1} more' if len(ids) > 1 else ''}: {warning}"


def undone_table(report: Report) -> RenderableType:
    """Which assignment orders are the original ones again."""
    if not report.outcomes:
        return lines("Nothing to undo: the journal holds no unfinished run.")
    rows = ((done.id, "restored" if done.order_restored else "NOT restored") for done in report.outcomes)
    return table("Partition", "Assignment order", rows=rows)


def _sentences(reasons: Iterable[tuple[str, Reason | None]]) -> RenderableType:
    """The whole reasons, below a table that has room for their codes only; the same sentence once."""
    first: dict[Reason, str] = {}
    others: Counter[Reason] = Counter()
    for where, reason in reasons:
        if reason is not None and first.setdefault(reason, where) != where:
            others[reason] += 1
    shown = [
        f"{where}{f' and {others[reason]} more' if others[reason] else ''}: {reason}"
        for reason, where in list(first.items())[:_SENTENCES]
    ]
    hidden = len(first) - len(shown)
    more = [f"… and {hidden} more; --output json shows all of them"] if hidden else []
    return lines("", *shown, *more) if shown else Group()


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
                words.broker_state(replica, evidence.cluster),
                log.last_epoch if log else None,
                log.start if log else None,
                log.end if log else None,
                replica.problem.code if replica.problem else "-",
            )


def _decisions(plan: Plan, decisions: tuple[Decision, ...]) -> RenderableType:
    wave_of = {id: number for number, wave in enumerate(plan.waves, 1) for id in wave}
    headings = ("Partition", "Verdict", "Wave", "Leader", "Log end", "Loss", "Approval", "Rule", "Why")
    rows = (
        (
            decision.id,
            cell(decision.verdict, _VERDICT_STYLES[decision.verdict]),
            _or_dash(wave_of.get(decision.id)),
            _or_dash(decision.leader),
            _or_dash(decision.log_end),
            words.loss_class(decision.loss),
            words.approval(decision),
            decision.rule or "-",
            words.why(decision),
        )
        for decision in decisions
    )
    return table(*headings, rows=rows)


def _outcome(done: PartitionOutcome) -> Text:
    return cell(done.outcome, "green" if done.outcome.is_recovered else "red")


def _why(done: PartitionOutcome) -> str:
    order = "" if done.order_restored else "its assignment order is not restored yet; "
    return order + (done.reason.code if done.reason else "") or "-"


def _or_dash(value: object) -> object:
    return "-" if value is None else value
