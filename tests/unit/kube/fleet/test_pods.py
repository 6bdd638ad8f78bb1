"""What Pods say: why they wait, and the last words of a driver, fit for a line of text."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.fleet.pods import driver_of, hindrance, last_words, ran, short
from kafka_recovery.kube.machinery.api import Object
from unit.kube.fleet.asked import after, ended, pod, unschedulable, waiting

TRACEBACK = """26/11/21 12:00:00 INFO SparkContext: Running Spark version 4.3.0
Traceback (most recent call last):
  File "/opt/kafka-recovery/fleet_job.py", line 3, in <module>
kafka_recovery.formats.documents.InvalidDocument: not telling
pyspark.errors.exceptions.captured.AnalysisException: [PATH_NOT_FOUND] no s3a://b/e
26/11/21 12:00:09 INFO ShutdownHookManager: Shutdown hook called
"""


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no evidence of cluster one", "no evidence of cluster one (Error, exit code 1)"),
        ("", "Error, exit code 1"),
        ("  \\n ", "\\\\n (Error, exit code 1)"),
        (
            TRACEBACK,
            "pyspark.errors.exceptions.captured.AnalysisException: [PATH_NOT_FOUND] no s3a://b/e (Error, exit code 1)",
        ),
        ("one\ntwo", "two (Error, exit code 1)"),
        ("\x1b[2Jgone", "\\x1b[2Jgone (Error, exit code 1)"),
    ],
)
def test_the_line_that_says_most_is_quoted(message: str, said: str) -> None:
    assert last_words(ended(1, message)) == said.replace("\\\\n", "\\n")


def test_who_ended_well_has_no_last_words() -> None:
    assert last_words(ended(0, "done")) is None
    assert last_words({}) is None
    assert last_words(waiting("ContainerCreating")) is None


def test_a_pod_that_fits_nowhere_says_what_is_missing() -> None:
    assert hindrance(pod(**unschedulable("0/3 nodes:\n3 Insufficient memory"))) == Reason(
        "Unschedulable", "0/3 nodes: 3 Insufficient memory"
    )


def test_a_reason_of_a_strange_form_is_no_word_of_ours() -> None:
    assert hindrance(pod(**waiting("no word", "x"))) == Reason("DriverPending", "x")


def test_warnings_count_only_while_a_pod_is_pending() -> None:
    assert hindrance(pod(), ["FailedMount: a"]) == Reason("DriverPending", "FailedMount: a")
    assert hindrance(pod(phase="Running"), ["FailedMount: a"]) is None


def test_the_newest_driver_is_the_driver() -> None:
    old, new = pod(created=after(minutes=1)), pod(created=after(minutes=2))

    assert driver_of([new, pod("executor", created=after(minutes=3)), old]) is new
    assert driver_of([pod("executor")]) is None


def test_when_it_ran_is_known_as_far_as_it_is_told() -> None:
    running: Object = {"containerStatuses": [{"state": {"running": {"startedAt": "2026-11-21T12:00:00Z"}}}]}

    assert ran(pod(**running)) == (after(minutes=0), None)
    assert ran(pod(**ended(0))) == (after(minutes=0), after(minutes=1))
    assert ran(pod(containerStatuses=[{"state": {"running": {"startedAt": "soon"}}}])) == (None, None)
    assert ran(None) == (None, None)


def test_what_others_say_is_one_line_of_bounded_length() -> None:
    assert short(" a\r\n\tb ") == "a b"
    assert len(short("x" * 10_000)) == 500
