"""How a FleetRanking stands, as kubectl, Flux and Argo CD read it, and what its numbers look like."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.kube.fleet.dialect import Adapter
from kafka_recovery.kube.fleet.runs import Memory, Run, State
from kafka_recovery.kube.fleet.status import status_of, summary_of
from kafka_recovery.kube.machinery.api import Object
from testbed.kstatus import Kstatus, kstatus
from unit.kube.fleet.asked import NOON, SUMMARY, WORST, active, after, ranking
from unit.kube.fleet.schema import refusals, status_schema

WHY = "Unschedulable: no node"
WORKING = active(ranking(), state=State.RUNNING, message=WHY)
GOOD = Run(
    "prod-1",
    "prod-1-1",
    Adapter.APACHE,
    1,
    NOON,
    NOON,
    RunOutcome.SUCCEEDED,
    Reason("Succeeded", "ten"),
    "ab" * 32,
    "s3://b",
)
BAD = replace(GOOD, outcome=RunOutcome.FAILED, reason=Reason("DeadlineExceeded", "late"))
TROUBLE = Reason("ApiMissing", "install one")
ONCE: dict[str, Any] = {"scheduled": False}
NIGHTLY: dict[str, Any] = {"scheduled": True, "next_run": after(hours=14)}


def told(memory: Memory, old: Object | None = None, **how: Any) -> Object:
    return status_of(memory, 3, old or {}, NOON, **how)


def ready(status: Object) -> tuple[str, str]:
    (found,) = (each for each in status["conditions"] if each["type"] == "Ready")
    return found["reason"], found["message"]


@pytest.mark.parametrize(
    ("memory", "how", "stands", "reason", "message"),
    [
        (Memory(), NIGHTLY, Kstatus.CURRENT, "AsExpected", "the first run is due at 2026-11-22T02:00:00Z"),
        (
            Memory(),
            ONCE | {"suspended": True},
            Kstatus.CURRENT,
            "Suspended",
            "no run begins while spec.suspend is true",
        ),
        (Memory(WORKING), ONCE, Kstatus.IN_PROGRESS, "Running", "prod-29921040-1: running: Unschedulable: no node"),
        *(
            (
                Memory(replace(WORKING, state=state)),
                ONCE,
                Kstatus.IN_PROGRESS,
                reason,
                f"prod-29921040-1: {told}: {WHY}",
            )
            for state, reason, told in (
                (State.SUBMITTING, "Running", "submitting"),
                (State.DRIVER_PENDING, "DriverPending", "driverpending"),
                (State.CANCELLING, "Running", "cancelling"),
                (State.BACKING_OFF, "Running", "backingoff"),
            )
        ),
        (Memory(runs=(GOOD,)), ONCE, Kstatus.CURRENT, "Succeeded", "prod-1: ten"),
        (Memory(runs=(BAD, GOOD)), ONCE, Kstatus.FAILED, "DeadlineExceeded", "prod-1: late"),
        (
            Memory(WORKING),
            NIGHTLY,
            Kstatus.CURRENT,
            "AsExpected",
            "the first run is under way; prod-29921040-1: running: Unschedulable: no node",
        ),
        (
            Memory(WORKING, (BAD,)),
            NIGHTLY,
            Kstatus.FAILED,
            "DeadlineExceeded",
            "prod-1: late; prod-29921040-1: running: Unschedulable: no node",
        ),
        (Memory(WORKING, (GOOD,)), NIGHTLY | {"trouble": TROUBLE}, Kstatus.FAILED, "ApiMissing", "install one"),
    ],
)
def test_it_stands_as_its_last_run_ended(
    memory: Memory, how: dict[str, Any], stands: Kstatus, reason: str, message: str
) -> None:
    status = told(memory, **how)

    assert kstatus({"metadata": {"generation": 3}, "status": status}) is stands
    assert ready(status) == (reason, message)
    assert not list(refusals(status, status_schema()))


def test_the_numbers_are_those_of_the_manifest_and_names_are_made_to_fit() -> None:
    strange = replace(WORST, cluster_id="c" * 99, failing="rack \x1b[31m" + "r" * 999)
    summary = summary_of(GOOD, replace(SUMMARY, worst=(strange,)))

    assert (summary["partitions"], summary["lossless"], summary["none"]) == (10, 4, 1)
    assert summary["worst"][0]["failing"].startswith("rack \\x1b[31mrrr")
    assert not list(refusals({"summary": summary}, status_schema()))
    assert "worst" not in summary_of(GOOD, SUMMARY)
