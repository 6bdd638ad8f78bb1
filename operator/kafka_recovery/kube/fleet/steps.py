"""What to do next with a FleetRanking, from what is wished, remembered and seen. Pure.

    step = next_step(ranking, memory, seen, result, now)

A run is one or more attempts, each a SparkApplication of its own. Tries are counted here and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

import durationpy

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.manifest import Manifest
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.kube.fleet import naming
from kafka_recovery.kube.fleet.ports import Phase, Seen
from kafka_recovery.kube.fleet.resource import FleetRanking
from kafka_recovery.kube.fleet.runs import Active, Memory, Run, State
from kafka_recovery.kube.fleet.schedule import last_due, next_due

LOOK = timedelta(seconds=5)
"""Between two looks at a run: neither API tells all that its Pods say."""
LOOK_AT_RESULT = timedelta(seconds=30)
"""While the storage does not answer."""
FIRST_PAUSE = timedelta(seconds=30)
"""Before a second attempt; doubled before each further one."""
LONGEST_PAUSE = timedelta(minutes=30)
GRACE = timedelta(minutes=2)
"""For a cancelled run to end by itself; after it the object is deleted. As long again for the object to be gone."""


@dataclass(frozen=True, slots=True)
class Found:
    """A manifest that is whole, and its checksum. `leaders`: those that the run chose, packed, or why not."""

    manifest: Manifest
    checksum: str
    leaders: str | None = None
    no_leaders: str = ""


@dataclass(frozen=True, slots=True)
class NoResult:
    """Why there is no manifest that can be used. `may_pass`: the storage gave no answer."""

    reason: Reason
    may_pass: bool = False


Result = Found | NoResult


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing is due. `until`: when something is; None: never again."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class Begin:
    """A run is due."""

    due: datetime


@dataclass(frozen=True, slots=True)
class Submit:
    """Have this attempt run."""

    active: Active


@dataclass(frozen=True, slots=True)
class Look:
    """Write down how far it is, and look again."""

    active: Active
    after: timedelta = LOOK


@dataclass(frozen=True, slots=True)
class ReadResult:
    """Its driver says that it succeeded: see what it wrote."""

    active: Active


@dataclass(frozen=True, slots=True)
class End:
    """Write down why it is ended, and end it. `by_force`: it was asked to, and did not."""

    active: Active
    by_force: bool = False


@dataclass(frozen=True, slots=True)
class Again:
    """It failed; another attempt is to follow."""

    active: Active


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over. `found`: what it wrote, if it succeeded."""

    run: Run
    found: Found | None = None


Step = Idle | Begin | Submit | Look | ReadResult | End | Again | Finish


class Failure(StrEnum):
    """Why a run fails, in words that stay."""

    FAILED = "ApplicationFailed"
    NOT_OURS = "ApplicationNotOurs"
    TOO_LATE = "DeadlineExceeded"
    ASKED_ELSE = "QuestionChanged"
    NO_RESULT = "ResultMissing"


AGAIN = frozenset({Failure.FAILED, Failure.ASKED_ELSE, Failure.NO_RESULT})
"""Failures that another attempt may not meet. What took too long would again; what a person did, a person mends."""


def next_step(ranking: FleetRanking, memory: Memory, seen: Seen | None, result: Result | None, now: datetime) -> Step:
    """The one thing to do now.

    `seen`: of the attempt under way; None: it could not be looked at. `result`: asked for by ReadResult. Raises
    InvalidDocument for a schedule that is none.
    """
    if memory.active is None:
        return _between_runs(ranking, memory, now)
    active, late = memory.active, _too_late(ranking, memory.active, now)
    if active.state is State.BACKING_OFF:
        return _pausing(ranking, active, now)
    if seen is None:
        return _finished(active, Failure.TOO_LATE, f"{late}, and it can't be looked at", now) if late else Look(active)
    if active.ending:
        return _ending(active, active.ending, seen, now)
    if seen.phase is Phase.GONE and active.state is State.SUBMITTING:
        return _finished(active, Failure.TOO_LATE, late, now) if late else Submit(naming.asked_now(ranking, active))
    if seen.changed:
        return _changed(active, seen, seen.changed, now)
    match seen.phase:
        case Phase.SUCCEEDED:
            return _succeeded(ranking, active, result, late, now)
        case Phase.FAILED:
            why = str(seen.reason) if seen.reason else "nobody said why"
            return failed(ranking, active, Reason(Failure.FAILED, why), now)
        case Phase.GONE:
            gone = f"SparkApplication {active.application} was deleted by somebody else"
            return failed(ranking, active, Reason(Failure.FAILED, gone), now)
    if late:
        stuck = f"; it was {seen.phase.lower()}" + (f": {seen.reason}" if seen.reason else "")
        return _end(_as_seen(active, seen), Reason(Failure.TOO_LATE, late + stuck), now)
    return Look(_as_seen(active, seen))


def failed(ranking: FleetRanking, active: Active, reason: Reason, now: datetime) -> Step:
    """After an attempt that came to nothing: another one, or the end of the run."""
    if reason.code not in AGAIN or active.attempt > ranking.spec.retries:
        return _finished(active, reason.code, reason.message, now)
    following = naming.attempt(ranking, active.name, active.attempt + 1, now, active.adapter, active.policy_digest)
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (active.attempt - 1))
    message = f"attempt {active.attempt} failed: {reason}"
    return Again(
        replace(
            following, state=State.BACKING_OFF, started_at=active.started_at, attempted_at=now + pause, message=message
        )
    )


def _between_runs(ranking: FleetRanking, memory: Memory, now: datetime) -> Step:
    since = memory.last_due or ranking.meta.created_at
    if ranking.spec.schedule is None:
        if memory.last_due or memory.runs:
            return Idle(None)
        return Idle(None) if ranking.spec.suspend else Begin(ranking.meta.created_at)
    due = last_due(ranking.spec.schedule, since, now)
    if due and not ranking.spec.suspend:
        return Begin(due)
    return Idle(None if ranking.spec.suspend else next_due(ranking.spec.schedule, now))


def _pausing(ranking: FleetRanking, active: Active, now: datetime) -> Step:
    left = active.attempted_at - now
    if ranking.spec.suspend:
        return Look(active, after=max(left, LOOK_AT_RESULT))
    if left > timedelta(0):
        return Look(active, after=left)
    return Submit(replace(naming.asked_now(ranking, active), state=State.SUBMITTING, attempted_at=now))


def _ending(active: Active, why: Reason, seen: Seen, now: datetime) -> Step:
    if seen.phase.ended:
        return _finished(active, why.code, why.message, now)
    lasted = now - (active.ending_at or now)
    if seen.deleted and lasted >= 2 * GRACE:
        left = f"SparkApplication {active.application} could not be deleted and is left"
        return _finished(active, why.code, f"{why.message}; {left}: its finalizer waits for its operator", now)
    return End(active, by_force=lasted >= GRACE)


def _changed(active: Active, seen: Seen, who: str, now: datetime) -> Step:
    message = f"SparkApplication {active.application} was changed by {who} while it ran: what it writes can't be used"
    reason = Reason(Failure.NOT_OURS, message)
    return _finished(active, reason.code, message, now) if seen.phase.ended else _end(active, reason, now)


def _succeeded(ranking: FleetRanking, active: Active, result: Result | None, late: str, now: datetime) -> Step:
    if active.question != naming.question(ranking):
        changed = "what is asked, or its storage, was changed in spec while the run answered what stood there before"
        return failed(ranking, active, Reason(Failure.ASKED_ELSE, changed), now)
    if result is None:
        return ReadResult(active)
    if isinstance(result, Found):
        numbers = result.manifest.summary
        message = f"{numbers.partitions} partitions of {numbers.clusters} clusters"
        message += f"; {result.no_leaders}" if result.no_leaders else ""
        run = _over(active, RunOutcome.SUCCEEDED, Reason("Succeeded", message), now)
        return Finish(replace(run, checksum=result.checksum, leaders=result.leaders), result)
    if result.may_pass and not late:
        return Look(replace(active, message=str(result.reason)), after=LOOK_AT_RESULT)
    return failed(ranking, active, result.reason, now)


def _too_late(ranking: FleetRanking, active: Active, now: datetime) -> str:
    """What is said of an attempt whose time is over; empty: it has time."""
    if now < active.attempted_at + ranking.spec.timeout:
        return ""
    return f"attempt {active.attempt} was not done within {durationpy.to_str(ranking.spec.timeout)}"


def _as_seen(active: Active, seen: Seen) -> Active:
    state = State.RUNNING if seen.phase is Phase.RUNNING else State.DRIVER_PENDING
    return replace(active, state=state, driver=seen.driver, message=str(seen.reason) if seen.reason else "")


def _end(active: Active, reason: Reason, now: datetime) -> End:
    return End(replace(active, state=State.CANCELLING, ending=reason, ending_at=now))


def _finished(active: Active, code: str, message: str, now: datetime) -> Finish:
    return Finish(_over(active, RunOutcome.FAILED, Reason(str(code), message), now))


def _over(active: Active, outcome: RunOutcome, reason: Reason, now: datetime) -> Run:
    return Run(
        name=active.name,
        application=active.application,
        adapter=active.adapter,
        attempts=active.attempt,
        started_at=active.started_at,
        ended_at=now,
        outcome=outcome,
        reason=reason,
        policy_digest=active.policy_digest,
        result=active.result,
    )
