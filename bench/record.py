"""Writing a plan down before anything is done: canonical JSON, its digest, and a file that would survive a crash."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.decision import incident
from bench.results import Result, below

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.policy import Limits, Policy
from kafka_recovery.formats.documents import canonical
from kafka_recovery.recovery.local_storage import local_journal

PARTITIONS, REPEATS = 5000, 7


def run() -> Iterator[Result]:
    """The median of some runs, each into a journal of its own in the system's folder of temporary files."""
    plan = decide(incident(PARTITIONS), Policy(limits=Limits(partitions=PARTITIONS)))
    wall, cpu = [], []
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as folder, local_journal(Path(folder), "bench") as journal:
            began, busy = time.perf_counter(), time.process_time()
            asyncio.run(journal.record(plan))
            wall.append(time.perf_counter() - began)
            cpu.append(time.process_time() - busy)
    label = f"record a plan of {PARTITIONS} partitions ({len(canonical(plan)) / 2**20:.1f} MiB)"
    yield below(f"{label}: canonical JSON, digest, fsync", statistics.median(wall), "s", 0.1)
    yield Result(f"{label}: CPU", round(statistics.median(cpu), 3), "CPU s")
