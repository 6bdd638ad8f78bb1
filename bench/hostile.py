"""What a namespace full of the largest objects costs a recovery in another namespace of the same operator."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from bench import in_kubernetes
from bench.in_kubernetes import STEPS, Fenced, Site
from bench.results import Result, against, below

PARTITIONS, MOST_PARTITIONS = 100, 20_000
"""Of a recovery: of most of them, and as many as the definition allows."""
LARGEST = 500
"""Of the largest; 330 MB of them, for etcd takes 2 GiB of everything by default."""
ROUNDS = 2
"""In turns without and with the crowd: a machine is not as quick at all times."""
LIMIT = 1024
"""MiB of memory that the chart gives to the operator."""


def run(quick: bool) -> Iterator[Result]:
    """From the controller's fence to a verified leader, with the same operator in both namespaces."""
    objects, largest, repeats = (1000, 50, 4) if quick else (10_000, LARGEST, 10)
    with in_kubernetes.site() as at:
        in_kubernetes.create_topics(at)
        crowd = in_kubernetes.crowded(at, objects - largest, PARTITIONS)
        in_kubernetes.crowded(at, largest, MOST_PARTITIONS, crowd)
        alone, beside, peaks = list[Fenced](), list[Fenced](), list[float]()
        for _ in range(ROUNDS):
            alone += _measured(at, repeats)[0]
            runs, peak = _measured(at, repeats, crowd)
            beside += runs
            peaks.append(peak)
    label = f"beside {objects} hostile recoveries, {largest} of {MOST_PARTITIONS} partitions"
    yield against(f"{label}: fenced to verified leader, median", _median(beside), _median(alone), 1.1)
    for step in STEPS.values():
        yield against(f"  {step}, median", _median(beside, step), _median(alone, step))
    slowest, before = (in_kubernetes.percentile([run.seconds for run in runs], 99) for runs in (beside, alone))
    yield against(f"{label}: fenced to verified leader, 99th percentile", slowest, before)
    yield below(f"{label}: memory at the peak", max(peaks), "MiB", LIMIT)


def _measured(at: Site, repeats: int, *others: str) -> tuple[list[Fenced], float]:
    """The outages, and MiB at the operator's peak."""
    with in_kubernetes.watching(at, *others) as operator:
        return in_kubernetes.outages(at, operator, repeats), in_kubernetes.mib(operator.pid, "VmHWM")


def _median(runs: list[Fenced], step: str = "") -> float:
    return statistics.median(run.steps[step] if step else run.seconds for run in runs)
