"""What is another thing in a plan than in the one that was read before, partition by partition."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType

from kafka_recovery.cli.terminal.render import lines, table
from kafka_recovery.domain.plan import Decision, Plan

_ROWS_SHOWN = 40


def changed_table(read: Plan, now: Plan) -> RenderableType:
    """Leaders, loss classes and refusals that differ, then and now."""
    rows = list(_rows(read, now))
    if not rows:
        return lines("The same leaders, loss classes and refusals; what differs is in the evidence or the policy.")
    more = [f"… and {len(rows) - _ROWS_SHOWN} more partitions"] if len(rows) > _ROWS_SHOWN else []
    return Group(table("Partition", "As read", "Now", rows=rows[:_ROWS_SHOWN]), lines(*more))


def _rows(read: Plan, now: Plan) -> Iterator[tuple[str, str, str]]:
    before, after = ({each.id: each for each in plan.decisions} for plan in (read, now))
    for id in sorted(before.keys() | after.keys()):
        old, new = _told(before.get(id)), _told(after.get(id))
        if old != new:
            yield str(id), old, new


def _told(decision: Decision | None) -> str:
    if decision is None:
        return "not in the plan"
    if decision.leader is None:
        return f"{decision.verdict}: {decision.reason.code}" if decision.reason else str(decision.verdict)
    if decision.loss is None:
        return f"broker {decision.leader}"
    lacked = sum(lack.records for lack in decision.loss.lacks)
    records = f", {lacked} records of other replicas" if lacked else ""
    return f"broker {decision.leader}, {decision.loss.loss_class}{records}"
