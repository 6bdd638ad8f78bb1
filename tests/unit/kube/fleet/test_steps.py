"""What is done next with a FleetRanking: a table of situations, each with the one thing to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.fleet.ports import Phase, Seen
from kafka_recovery.kube.fleet.resource import FleetRanking
from kafka_recovery.kube.fleet.runs import Active, Memory, State
from kafka_recovery.kube.fleet.steps import (
    GRACE,
    LOOK,
    LOOK_AT_RESULT,
    Again,
    Begin,
    End,
    Finish,
    Idle,
    Look,
    NoResult,
    ReadResult,
    Result,
    Step,
    Submit,
    failed,
    next_step,
)
from unit.kube.fleet.asked import NIGHTLY, NOON, active, after, found, ranking

ONCE = ranking()
EVERY_NIGHT = ranking(schedule=NIGHTLY)
TWO_AT_NIGHT = NOON + timedelta(hours=14)
STUCK = Reason("ErrImagePull", "no such image")
UNREACHABLE = NoResult(Reason("StorageUnavailable", "s3://b/r: can't be listed: Timeout"), may_pass=True)
MISSING = NoResult(Reason("ResultMissing", "manifest.json is not there"))
FORGED = NoResult(Reason("ResultInvalid", "checksum"))


def step(
    asked: FleetRanking = ONCE,
    attempt: Active | None = None,
    seen: Seen | None = None,
    result: Result | None = None,
    **duration: float,
) -> Step:
    """The step with this attempt under way, so long after noon."""
    return next_step(asked, Memory(active=attempt, last_due=NOON), seen, result, after(**duration))


def running(asked: FleetRanking = ONCE, number: int = 1, **fields: Any) -> Active:
    return active(asked, number, **{"state": State.RUNNING, **fields})


def run_of(step: Step) -> tuple[RunOutcome, str]:
    assert isinstance(step, Finish)
    return step.run.outcome, step.run.reason.code


# When a run begins


def test_a_ranking_without_schedule_runs_at_once_and_once() -> None:
    assert next_step(ONCE, Memory(), None, None, after(days=3)) == Begin(NOON)
    assert next_step(ONCE, Memory(last_due=NOON), None, None, after(days=3)) == Idle(None)


def test_a_schedule_is_waited_for() -> None:
    assert next_step(EVERY_NIGHT, Memory(), None, None, NOON) == Idle(TWO_AT_NIGHT)
    assert next_step(EVERY_NIGHT, Memory(), None, None, TWO_AT_NIGHT) == Begin(TWO_AT_NIGHT)


def test_what_ran_does_not_run_again_before_the_next_time() -> None:
    memory = Memory(last_due=TWO_AT_NIGHT)

    assert next_step(EVERY_NIGHT, memory, None, None, TWO_AT_NIGHT + timedelta(hours=3)) == Idle(
        TWO_AT_NIGHT + timedelta(days=1)
    )


def test_of_several_missed_runs_only_the_last_is_made_up_for() -> None:
    monday = TWO_AT_NIGHT + timedelta(days=5)

    assert next_step(EVERY_NIGHT, Memory(last_due=TWO_AT_NIGHT), None, None, monday + timedelta(hours=9)) == Begin(
        monday
    )


def test_a_suspended_ranking_begins_nothing() -> None:
    for asked in (ranking(suspend=True), ranking(suspend=True, schedule=NIGHTLY)):
        assert next_step(asked, Memory(), None, None, after(days=3)) == Idle(None)


@pytest.mark.parametrize("schedule", ["61 * * * *", "0 0 30 2 *", "* * * * FRI-MON"])
def test_a_schedule_that_never_comes_is_refused(schedule: str) -> None:
    with pytest.raises(InvalidDocument, match=r"spec\.schedule"):
        next_step(ranking(schedule=schedule), Memory(), None, None, NOON)


# Submission


def test_what_is_not_there_yet_is_submitted() -> None:
    attempt = active(ONCE)

    assert step(ONCE, attempt, Seen(Phase.GONE)) == Submit(attempt)


@pytest.mark.parametrize(
    "edit",
    [
        {"task": "Readiness"},
        {"clusterSelector": {"clusterIds": ["one"]}},
        {"storage": {"evidence": "s3://fleet/other", "results": "s3://fleet/results"}},
        {"storage": {"evidence": "s3://fleet/evidence", "results": "s3://fleet/elsewhere"}},
    ],
    ids=["task", "clusters", "evidence", "results"],
)
@pytest.mark.parametrize("state", [State.SUBMITTING, State.BACKING_OFF])
def test_what_is_edited_before_a_submission_is_what_is_asked_and_compared(edit: dict[str, Any], state: State) -> None:
    edited = ranking(**edit)
    submitted = step(edited, active(ONCE, 2, state=state), Seen(Phase.GONE))

    assert submitted == Submit(active(edited, 2))
    assert submitted.active.question != active(ONCE).question
    assert step(edited, submitted.active, Seen(Phase.SUCCEEDED)) == ReadResult(submitted.active)


def test_results_that_lie_where_spec_no_longer_says_are_not_used() -> None:
    moved = ranking(storage={"evidence": "s3://fleet/evidence", "results": "s3://fleet/elsewhere"})

    assert run_of(step(moved, running(number=2), Seen(Phase.SUCCEEDED))) == (RunOutcome.FAILED, "QuestionChanged")


def test_a_submission_that_never_succeeds_ends_by_the_deadline() -> None:
    assert run_of(step(ONCE, active(ONCE), Seen(Phase.GONE), hours=1)) == (RunOutcome.FAILED, "DeadlineExceeded")


# While it runs


@pytest.mark.parametrize(("phase", "state"), [(Phase.WAITING, State.DRIVER_PENDING), (Phase.RUNNING, State.RUNNING)])
def test_how_far_it_is_is_written_down(phase: Phase, state: State) -> None:
    seen = step(ONCE, running(), Seen(phase, STUCK, driver="d"), minutes=59)

    assert seen == Look(running(state=state, driver="d", message="ErrImagePull: no such image"), LOOK)


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.RUNNING])
def test_a_job_that_is_stuck_is_ended_and_its_pod_s_reason_is_told(phase: Phase) -> None:
    ending = step(ONCE, running(), Seen(phase, STUCK), hours=1)

    assert isinstance(ending, End)
    assert not ending.by_force
    assert ending.active.state is State.CANCELLING
    assert ending.active.ending_at == after(hours=1)
    assert ending.active.ending == Reason(
        "DeadlineExceeded",
        f"attempt 1 was not done within 1h; it was {phase.lower()}: ErrImagePull: no such image",
    )


def test_what_can_t_be_looked_at_is_waited_for_until_the_deadline() -> None:
    assert step(ONCE, running(), None, minutes=59) == Look(running())
    assert run_of(step(ONCE, running(), None, hours=1)) == (RunOutcome.FAILED, "DeadlineExceeded")


# How it is ended


ENDING = running(state=State.CANCELLING, ending=Reason("DeadlineExceeded", "late"), ending_at=NOON)


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.SUCCEEDED, Phase.GONE])
def test_what_was_ended_ends_for_the_reason_it_was_ended_for(phase: Phase) -> None:
    """Also if it succeeded in that very moment: what was written down first holds."""
    assert run_of(step(ONCE, ENDING, Seen(phase))) == (RunOutcome.FAILED, "DeadlineExceeded")


def test_it_is_asked_again_and_then_made_to() -> None:
    assert step(ONCE, ENDING, Seen(Phase.RUNNING)) == End(ENDING)
    assert step(ONCE, ENDING, Seen(Phase.RUNNING), minutes=GRACE.total_seconds() / 60) == End(ENDING, by_force=True)


def test_an_object_that_can_t_be_deleted_is_left_and_the_run_is_over() -> None:
    held, twice = Seen(Phase.RUNNING, deleted=True), 2 * GRACE.total_seconds()
    over = step(ONCE, ENDING, held, seconds=twice)

    assert step(ONCE, ENDING, held, seconds=twice - 1) == End(ENDING, by_force=True)
    assert isinstance(over, Finish)
    assert (over.run.outcome, over.run.reason.code) == (RunOutcome.FAILED, "DeadlineExceeded")
    assert over.run.reason.message == (
        "late; SparkApplication prod-29921040-1 could not be deleted and is left: its finalizer waits for its operator"
    )


def test_what_was_not_deleted_yet_is_never_left_running() -> None:
    """Nobody looked for a day: the deletion itself is still to be asked for."""
    assert step(ONCE, ENDING, Seen(Phase.RUNNING), days=1) == End(ENDING, by_force=True)


def test_a_changed_application_is_ended_and_not_tried_again() -> None:
    ending = step(ONCE, running(), Seen(Phase.RUNNING, changed="kubectl-edit"))

    assert isinstance(ending, End)
    assert ending.active.ending is not None
    assert ending.active.ending.code == "ApplicationNotOurs"
    assert "changed by kubectl-edit" in ending.active.ending.message


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
def test_what_a_changed_application_wrote_is_not_used(phase: Phase) -> None:
    changed = step(ONCE, running(), Seen(phase, changed="kubectl-edit"), found(ONCE, running()))

    assert isinstance(changed, Finish)
    assert run_of(changed) == (RunOutcome.FAILED, "ApplicationNotOurs")
    assert "was changed by kubectl-edit while it ran" in changed.run.reason.message


# Success


def test_a_driver_that_ended_well_is_not_believed_without_its_manifest() -> None:
    assert step(ONCE, running(), Seen(Phase.SUCCEEDED)) == ReadResult(running())


def test_a_whole_manifest_is_success() -> None:
    answer = found(ONCE, running())
    done = step(ONCE, running(), Seen(Phase.SUCCEEDED), answer, minutes=2)

    assert isinstance(done, Finish)
    assert (done.run.outcome, done.run.reason) == (
        RunOutcome.SUCCEEDED,
        Reason("Succeeded", "10 partitions of 2 clusters"),
    )
    assert (done.run.checksum, done.run.ended_at, done.found) == (answer.checksum, after(minutes=2), answer)


def test_the_leaders_that_a_run_chose_stand_in_it_or_why_not() -> None:
    answer = found(ONCE, running())
    ended = [
        step(ONCE, running(), Seen(Phase.SUCCEEDED), told)
        for told in (
            replace(answer, leaders="H4sI"),
            replace(answer, no_leaders="no recovery can name it: too many"),
        )
    ]

    assert [(each.run.leaders, each.run.reason.message) for each in ended if isinstance(each, Finish)] == [
        ("H4sI", "10 partitions of 2 clusters"),
        (None, "10 partitions of 2 clusters; no recovery can name it: too many"),
    ]


def test_a_success_is_read_even_if_nobody_looked_for_long() -> None:
    assert (
        run_of(step(ONCE, running(), Seen(Phase.SUCCEEDED), found(ONCE, running()), days=1))[0] is RunOutcome.SUCCEEDED
    )


def test_a_storage_that_does_not_answer_is_waited_for() -> None:
    waiting = step(ONCE, running(), Seen(Phase.SUCCEEDED), UNREACHABLE)

    assert waiting == Look(running(message=str(UNREACHABLE.reason)), LOOK_AT_RESULT)
    assert run_of(step(ONCE, running(), Seen(Phase.SUCCEEDED), UNREACHABLE, hours=1)) == (
        RunOutcome.FAILED,
        "StorageUnavailable",
    )


def test_a_forged_manifest_is_not_tried_again() -> None:
    assert run_of(step(ONCE, running(), Seen(Phase.SUCCEEDED), FORGED)) == (RunOutcome.FAILED, "ResultInvalid")


# Attempts


@pytest.mark.parametrize(
    ("seen", "result", "code", "why"),
    [
        (Seen(Phase.FAILED, Reason("ApplicationFailed", "exit code 1")), None, "ApplicationFailed", "exit code 1"),
        (Seen(Phase.GONE), None, "ApplicationFailed", "was deleted by somebody else"),
        (Seen(Phase.SUCCEEDED), MISSING, "ResultMissing", MISSING.reason.message),
    ],
)
def test_what_may_pass_is_tried_again_as_often_as_was_said(
    seen: Seen, result: Result | None, code: str, why: str
) -> None:
    asked = ranking(retries=1)
    first = step(asked, running(), seen, result, minutes=5)

    assert isinstance(first, Again)
    assert (first.active.attempt, first.active.application) == (2, "prod-29921040-2")
    assert (first.active.state, first.active.attempted_at) == (State.BACKING_OFF, after(minutes=5, seconds=30))
    assert first.active.started_at == NOON
    assert first.active.result != running().result
    assert code in first.active.message
    assert why in first.active.message
    assert run_of(step(asked, running(asked, 2), seen, result)) == (RunOutcome.FAILED, code)


def test_pauses_grow_and_have_an_end() -> None:
    asked = ranking(retries=10)
    pauses = []
    for number in range(1, 11):
        again = failed(asked, active(asked, number), Reason("ApplicationFailed", "x"), NOON)
        assert isinstance(again, Again)
        pauses.append((again.active.attempted_at - NOON).total_seconds())

    assert pauses == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800, 1800]


def test_a_pause_is_waited_out_and_the_deadline_begins_after_it() -> None:
    paused = active(ONCE, 2, state=State.BACKING_OFF, attempted_at=after(seconds=30))

    assert step(ONCE, paused, None, seconds=10) == Look(paused, timedelta(seconds=20))
    assert step(ONCE, paused, None, hours=9) == Submit(
        replace(paused, state=State.SUBMITTING, attempted_at=after(hours=9))
    )


def test_no_further_attempt_begins_while_suspended() -> None:
    paused = active(ONCE, 2, state=State.BACKING_OFF)

    assert step(ranking(suspend=True), paused, None, hours=9) == Look(paused, LOOK_AT_RESULT)
