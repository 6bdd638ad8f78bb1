"""A FleetRanking's status: what it remembers, its conditions, its headline numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic.alias_generators import to_camel

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.manifest import Summary
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.formats.printable import printable
from kafka_recovery.kube.fleet.runs import Active, Memory, Run, State, as_status
from kafka_recovery.kube.machinery.conditions import Standing, instant, merged, standing

WORST = 10
"""Losses of brokers in status; the schema's bound."""
_LONGEST = {"clusterId": 64, "failing": 253}


def status_of(
    memory: Memory,
    generation: int,
    old: Mapping[str, Any],
    now: datetime,
    *,
    scheduled: bool,
    suspended: bool = False,
    next_run: datetime | None = None,
    trouble: Reason | None = None,
) -> dict[str, Any]:
    """All of it. `trouble`: why no run can begin or be gone on with; `old`: the status as it was read."""
    how, reason = _standing(memory, scheduled, suspended, next_run, trouble)
    conditions = standing(how, reason.code, reason.message, generation)
    said = {
        "observedGeneration": generation,
        **as_status(memory),
        "conditions": merged(old.get("conditions") or (), conditions, now),
    }
    return said | ({"nextRunAt": instant(next_run)} if next_run else {})


def untold(trouble: Reason, generation: int, old: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The status of an object that can't be read: what it remembers stays as it stands."""
    kept = {name: old[name] for name in ("active", "lastDueAt", "runs", "summary") if name in old}
    conditions = standing(Standing.STUCK, trouble.code, trouble.message, generation)
    return {
        "observedGeneration": generation,
        **kept,
        "conditions": merged(old.get("conditions") or (), conditions, now),
    }


def summary_of(run: Run, numbers: Summary) -> dict[str, Any]:
    """The headline numbers of a run that succeeded, as status has them."""
    said = {to_camel(name): value for name, value in asdict(numbers).items() if name != "worst"}
    worst = [
        {to_camel(name): _fitting(to_camel(name), value) for name, value in asdict(each).items()}
        for each in numbers.worst[:WORST]
    ]
    return {"run": run.name, "at": instant(run.ended_at), **said} | ({"worst": worst} if worst else {})


def _standing(
    memory: Memory, scheduled: bool, suspended: bool, next_run: datetime | None, trouble: Reason | None
) -> tuple[Standing, Reason]:
    """A ranking with a schedule stands as its last run ended: a Git sync must not wait for a night's work."""
    if trouble:
        return Standing.STUCK, trouble
    last = memory.runs[0] if memory.runs else None
    if memory.active and not scheduled:
        pending = memory.active.state is State.DRIVER_PENDING
        return Standing.WORKING, Reason("DriverPending" if pending else "Running", _about(memory.active))
    also = f"; {_about(memory.active)}" if memory.active else ""
    if last:
        how = Standing.DONE if last.outcome is RunOutcome.SUCCEEDED else Standing.STUCK
        return how, Reason(last.reason.code, f"{last.name}: {last.reason.message}{also}")
    if memory.active:
        return Standing.DONE, Reason("AsExpected", f"the first run is under way{also}")
    if suspended:
        return Standing.DONE, Reason("Suspended", "no run begins while spec.suspend is true")
    return Standing.DONE, Reason(
        "AsExpected", f"the first run is due at {instant(next_run)}" if next_run else "no run is due"
    )


def _about(active: Active) -> str:
    what = f"{active.application}: {active.state.lower()}"
    why = active.ending.message if active.ending else active.message
    return f"{what}: {why}" if why else what


def _fitting(name: str, value: object) -> object:
    """Text of the job, as the schema takes it."""
    return printable(value)[: _LONGEST[name]] if isinstance(value, str) else value
