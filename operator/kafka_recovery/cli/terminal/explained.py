"""One decision, explained to a person."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType

from kafka_recovery.cli.terminal import words
from kafka_recovery.cli.terminal.reasons import what_to_do
from kafka_recovery.cli.terminal.render import lines, table
from kafka_recovery.decision.explanation import Explanation, Row
from kafka_recovery.domain.plan import Verdict


def explanation_table(explanation: Explanation) -> RenderableType:
    """The verdict, a table of the replicas, and the sentences that give the reasons."""
    headings = ("Rank", "Broker", "Rack", "Last epoch", "Log end", "Chosen lacks", "State", "Verdict", "Reason")
    rows = [_row(row) for row in explanation.rows]
    return Group(
        lines(_heading(explanation), *_opens(explanation), ""),
        table(*headings, rows=rows),
        lines("", *_sentences(explanation)),
    )


def _heading(explanation: Explanation) -> str:
    leader = f" broker {explanation.leader}" if explanation.leader is not None else ""
    rule = f"rule {explanation.rule}, {explanation.candidate_order}" if explanation.rule else "no rule"
    return f"{explanation.id}: {explanation.verdict}{leader} ({rule})"


def _opens(explanation: Explanation) -> Iterator[str]:
    """Above the table: who reads on may do something about a reason below that the plan warns of."""
    if explanation.opens:
        yield f"While {explanation.id} has no leader:"
        yield from (f"  - {what}" for what in explanation.opens)


def _row(row: Row) -> tuple[object, ...]:
    rank = "-" if row.rank is None else row.rank
    reason = row.reason.code if row.reason else "-"
    return (
        rank,
        row.broker,
        row.rack or "-",
        row.last_epoch,
        words.empty(str(row.log_end)) if row.empty else row.log_end,
        row.lacks or "-",
        row.state,
        row.verdict,
        reason,
    )


def _sentences(explanation: Explanation) -> Iterator[str]:
    """Once somebody leads, what was said to those who decided about an election is left out: it holds no more."""
    yield from explanation.since
    yield from explanation.attested
    if explanation.reason:
        yield f"{explanation.verdict}: {explanation.reason.code if explanation.since else explanation.reason}"
    if explanation.why:
        yield f"Why: {explanation.why}."
    # A refusal for want of candidates quotes each replica's reason already.
    quoted = explanation.reason.message if explanation.reason else ""
    for row in explanation.rows:
        if row.reason and not explanation.since and row.reason.message not in quoted:
            yield f"Broker {row.broker}: {row.reason}"
    yield from explanation.pods
    yield from explanation.directories
    if explanation.loss:
        yield f"Loss: {explanation.loss}"
    yield from explanation.either_way
    if explanation.history:
        yield f"History: {explanation.history}."
    for warning in explanation.warnings:
        yield f"Warning: {warning}"
    if explanation.starting:
        yield "Before you start a broker:"
        yield from (f"  - {what}" for what in explanation.starting)
    if not explanation.since:
        reasons = (explanation.reason, *(row.reason for row in explanation.rows))
        yield from what_to_do((reason.code, reason.message) for reason in reasons if reason)
    if explanation.would_change and explanation.verdict is not Verdict.NOTHING:
        yield "What would change it:"
        yield from (f"  - {change}" for change in explanation.would_change)
