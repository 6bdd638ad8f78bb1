"""What a namespace full of the largest objects costs a recovery in another namespace of the same operator."""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Iterator

from bench import in_kubernetes
from bench.in_kubernetes import STEPS, Fenced, Site
from bench.results import Result, against, below

from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until

PARTITIONS, MOST_PARTITIONS = 100, 20_000
"""Of a recovery: of most of them, and as many as the definition allows."""
LARGEST = 150
"""Of the largest: with so many the API server takes 16 GiB of memory, and with 500 of them 24 GiB were not enough."""
SLOWEST = 1800
"""Seconds until each was looked at: the API server takes its time for the largest."""
LIMIT = 1024
"""MiB of memory that the chart gives to the operator."""


def run(quick: bool) -> Iterator[Result]:
    """From the controller's fence to a verified leader, with the same operator in both namespaces.

    Before, in the middle and after: a machine is not as quick at all times. The first looks at what somebody has just
    made are told apart: the API server writes each of these objects once more.
    """
    objects, largest, repeats = (1000, 50, 4) if quick else (10_000, LARGEST, 10)
    with in_kubernetes.site() as at:
        in_kubernetes.create_topics(at)
        crowd = in_kubernetes.crowded(at, objects - largest, PARTITIONS)
        in_kubernetes.crowded(at, largest, MOST_PARTITIONS, crowd)
        alone = _alone(at, repeats)
        with in_kubernetes.watching(at, crowd) as operator:
            began = time.monotonic()
            first = in_kubernetes.outages(at, operator, repeats)
            wait_until("each was looked at", lambda: _told(operator, crowd), lambda told: told >= objects, SLOWEST)
            took = time.monotonic() - began
            beside = in_kubernetes.outages(at, operator, repeats)
            peak = in_kubernetes.mib(operator.pid, "VmHWM")
        alone += _alone(at, repeats)
    label = f"beside {objects} hostile recoveries, {largest} of {MOST_PARTITIONS} partitions"
    yield against(f"{label}: fenced to verified leader, median", _median(beside), _median(alone), 1.1)
    for step in STEPS.values():
        yield against(f"  {step}, median", _median(beside, step), _median(alone, step))
    slowest, before = (in_kubernetes.percentile([run.seconds for run in runs], 99) for runs in (beside, alone))
    yield against(f"{label}: fenced to verified leader, 99th percentile", slowest, before)
    yield against(f"{label}: the same while each is looked at first, median", _median(first), _median(alone))
    yield Result(f"{label}: until each was looked at, at most", round(took), "s")
    yield below(f"{label}: memory at the peak", peak, "MiB", LIMIT)


def _alone(at: Site, repeats: int) -> list[Fenced]:
    with in_kubernetes.watching(at) as operator:
        return in_kubernetes.outages(at, operator, repeats)


def _told(operator: OperatorProcess, namespace: str) -> int:
    """How many recoveries of a namespace the operator has told of, by its log."""
    return len(set(re.findall(rf'"recovery": ?"{namespace}/([^"]+)"', operator.log.read_text())))


def _median(runs: list[Fenced], step: str = "") -> float:
    return statistics.median(run.steps[step] if step else run.seconds for run in runs)
