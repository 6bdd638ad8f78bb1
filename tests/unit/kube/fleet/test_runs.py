"""What status remembers of runs: written and read back it is the same, and what others wrote is not guessed at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.kube.fleet.dialect import Adapter
from kafka_recovery.kube.fleet.leaders import LONGEST
from kafka_recovery.kube.fleet.runs import Memory, Run, State, Unreadable, as_status, kept, remembered
from kafka_recovery.kube.machinery.api import Object
from unit.kube.fleet.asked import NOON, active, after, ranking

ACTIVE = active(ranking(), driver="d", message="m", state=State.DRIVER_PENDING)
RUN = Run(
    "prod-1",
    "prod-1-2",
    Adapter.APACHE,
    2,
    NOON,
    after(minutes=1),
    RunOutcome.SUCCEEDED,
    Reason("Succeeded", "ten"),
    "ab" * 32,
    "s3://b/r",
    "cd" * 32,
)
ENDING = Reason("DeadlineExceeded", "late")


@pytest.mark.parametrize(
    "memory",
    [
        Memory(),
        Memory(ACTIVE, (RUN, replace(RUN, checksum=None)), NOON, {"partitions": 3}),
        Memory(None, (replace(RUN, leaders="H4sI"), RUN), NOON),
        Memory(replace(ACTIVE, ending=ENDING, ending_at=NOON, message="late")),
    ],
)
def test_what_is_written_is_remembered(memory: Memory) -> None:
    assert remembered(as_status(memory)) == memory


def test_of_runs_whose_leaders_are_too_long_together_the_older_ones_go_without() -> None:
    """A recovery takes those of the newest; a status that the API server does not take would hold up all runs."""
    half = "x" * (LONGEST // 2)
    runs = [replace(RUN, leaders=half), RUN, *(replace(RUN, leaders=half + end) for end in ("", "x")), RUN]
    short = replace(RUN, leaders="x")

    assert [run.leaders for run in kept([*runs, short], 9)] == [half, None, half, None, None, None]
    assert len(kept([short] * 9, 3)) == 3


def test_messages_fit_the_schema() -> None:
    said = as_status(Memory(replace(ACTIVE, message="\x1b" + "x" * 2000)))

    assert len(said["active"]["message"]) == 1024
    assert said["active"]["message"].startswith("\\x1bxxx")


@pytest.mark.parametrize(
    "status",
    [
        {"active": {"name": "prod-1"}},
        {"active": as_status(Memory(ACTIVE))["active"] | {"state": "Dancing"}},
        {"active": as_status(Memory(ACTIVE))["active"] | {"attemptedAt": "2026-11-21T12:00:00"}},
        {"runs": [{"name": "x"}]},
        {"lastDueAt": "yesterday"},
    ],
)
def test_a_status_that_somebody_else_wrote_is_refused(status: Object) -> None:
    with pytest.raises(Unreadable, match="status is not as the operator writes it"):
        remembered(status)
