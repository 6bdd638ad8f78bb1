"""What a FleetRanking remembers in its status: the run under way, and how the last ones ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.kube.fleet.dialect import Adapter
from kafka_recovery.kube.fleet.leaders import LONGEST
from kafka_recovery.kube.machinery.conditions import cut, instant

MOST_RUNS = 20
"""Finished runs in status; the schema's bound."""


class State(StrEnum):
    """How far the run under way is."""

    SUBMITTING = "Submitting"
    DRIVER_PENDING = "DriverPending"
    """Submitted; its driver does not run yet."""
    RUNNING = "Running"
    CANCELLING = "Cancelling"
    BACKING_OFF = "BackingOff"
    """Before another attempt."""


@dataclass(frozen=True, slots=True)
class Active:
    """A run under way. `attempted_at`: when this attempt began, or, while pausing, when it is to begin.

    `question`: a digest of what is asked. `result`: the URL of this attempt's own folder. `ending`: why it is being
    ended, and since when.
    """

    name: str
    attempt: int
    application: str
    adapter: Adapter
    state: State
    started_at: datetime
    attempted_at: datetime
    policy_digest: str
    question: str
    result: str
    driver: str | None = None
    ending: Reason | None = None
    ending_at: datetime | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run. `attempts` 0: none could be submitted. `checksum`: of its manifest, if it succeeded.

    `leaders`: those that it chose, as `leaders.packed` writes them; None: its task chooses none, or they were too many.
    """

    name: str
    application: str
    adapter: Adapter
    attempts: int
    started_at: datetime
    ended_at: datetime
    outcome: RunOutcome
    reason: Reason
    policy_digest: str
    result: str
    checksum: str | None = None
    leaders: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """`runs`: the newest first. `last_due`: what was due until then is settled. `summary`: as status has it."""

    active: Active | None = None
    runs: tuple[Run, ...] = ()
    last_due: datetime | None = None
    summary: Mapping[str, Any] = field(default_factory=dict)


def kept(runs: Iterable[Run], limit: int) -> tuple[Run, ...]:
    """The newest ones. Where the leaders of all are too long for a status, the older runs go without."""
    left, found = LONGEST, list[Run]()
    for run in islice(runs, limit):
        fits = len(run.leaders or "") <= left
        left = left - len(run.leaders or "") if fits else 0
        found.append(run if fits else replace(run, leaders=None))
    return tuple(found)


class Unreadable(Exception):
    """The status is not as this operator writes it."""


def remembered(status: Mapping[str, Any]) -> Memory:
    """What a status says. Raises Unreadable: somebody else wrote it, and to guess might run a job twice."""
    try:
        active, due = status.get("active"), status.get("lastDueAt")
        return Memory(
            active=_active(active) if active else None,
            runs=tuple(_run(each) for each in status.get("runs") or ()),
            last_due=_read_instant(due) if due else None,
            summary=status.get("summary") or {},
        )
    except (KeyError, ValueError, TypeError, AttributeError) as wrong:
        raise Unreadable(f"status is not as the operator writes it: {type(wrong).__name__}: {wrong}") from None


def as_status(memory: Memory) -> dict[str, Any]:
    """The fields of status that `remembered` reads."""
    said: dict[str, Any] = {"runs": [_said_of_run(run) for run in memory.runs[:MOST_RUNS]]}
    if memory.active:
        said["active"] = _said_of_active(memory.active)
    if memory.last_due:
        said["lastDueAt"] = instant(memory.last_due)
    if memory.summary:
        said["summary"] = dict(memory.summary)
    return said


def _read_instant(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return at


def _active(said: Mapping[str, Any]) -> Active:
    ending = said.get("ending")
    message = str(said.get("message") or "")
    return Active(
        name=said["name"],
        attempt=int(said["attempt"]),
        application=said["application"],
        adapter=Adapter(said["adapter"]),
        state=State(said["state"]),
        started_at=_read_instant(said["startedAt"]),
        attempted_at=_read_instant(said["attemptedAt"]),
        policy_digest=said["policyDigest"],
        question=said["question"],
        result=said["result"],
        driver=said.get("driver"),
        ending=Reason(ending, message) if ending else None,
        ending_at=_read_instant(said["endingAt"]) if ending else None,
        message=message,
    )


def _said_of_active(active: Active) -> dict[str, Any]:
    said = {
        "name": active.name,
        "attempt": active.attempt,
        "application": active.application,
        "adapter": str(active.adapter),
        "state": str(active.state),
        "startedAt": instant(active.started_at),
        "attemptedAt": instant(active.attempted_at),
        "policyDigest": active.policy_digest,
        "question": active.question,
        "result": active.result,
        "message": cut(active.ending.message if active.ending else active.message),
    }
    if active.driver:
        said["driver"] = active.driver
    if active.ending and active.ending_at:
        said |= {"ending": active.ending.code, "endingAt": instant(active.ending_at)}
    return said


def _run(said: Mapping[str, Any]) -> Run:
    return Run(
        name=said["name"],
        application=said["application"],
        adapter=Adapter(said["adapter"]),
        attempts=int(said["attempts"]),
        started_at=_read_instant(said["startedAt"]),
        ended_at=_read_instant(said["endedAt"]),
        outcome=RunOutcome(said["outcome"]),
        reason=Reason(said["reason"], said["message"]),
        policy_digest=said["policyDigest"],
        result=said["result"],
        checksum=said.get("checksum"),
        leaders=said.get("leaders"),
    )


def _said_of_run(run: Run) -> dict[str, Any]:
    said: dict[str, Any] = {
        "name": run.name,
        "application": run.application,
        "adapter": str(run.adapter),
        "attempts": run.attempts,
        "startedAt": instant(run.started_at),
        "endedAt": instant(run.ended_at),
        "outcome": str(run.outcome),
        "reason": run.reason.code,
        "message": cut(run.reason.message),
        "policyDigest": run.policy_digest,
        "result": run.result,
    }
    known = {"checksum": run.checksum, "leaders": run.leaders}
    return said | {name: value for name, value in known.items() if value}
