"""What a command costs before it does anything: the CPU seconds until it has told its help, or that nobody answers."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.results import Result, below

REPEATS = 5
PROGRAMS = ("kafka-recovery", "kubectl-kafka_recovery", "kafka-unclean-recovery", "kafka-recovery-operator")
_NOBODY = ("--bootstrap-server", "localhost:1", "--all-offline-partitions")


def run() -> Iterator[Result]:
    """The median of some runs, each a process of its own, the first of which is not counted: it fills the caches."""
    programs = Path(sys.executable).parent
    yield Result("start of Python alone: CPU", round(_median(sys.executable, "-c", "pass"), 3), "CPU s")
    for name in PROGRAMS:
        for option in ("--help", "--version"):
            yield below(f"start of {name} {option}: CPU", _median(programs / name, option), "CPU s", 0.4)
    nobody = _median(programs / "kafka-recovery", "plan", *_NOBODY)
    yield below("start of kafka-recovery plan, where nobody answers: CPU", nobody, "CPU s", 0.4)


def _median(*command: object) -> float:
    return statistics.median([_cpu(*command) for _ in range(1 + REPEATS)][1:])


def _cpu(*command: object) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(part) for part in command], check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
