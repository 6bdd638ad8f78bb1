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
_NOBODY = ("--bootstrap-server", "localhost:1", "--all-offline-partitions")


def run() -> Iterator[Result]:
    """The median of some runs, each a process of its own, the first of which is not counted: it fills the caches."""
    program = Path(sys.executable).with_name("kafka-recovery")
    for what, arguments in (("--help", ("--help",)), ("plan, where nobody answers", ("plan", *_NOBODY))):
        seconds = [_cpu(program, *arguments) for _ in range(1 + REPEATS)][1:]
        yield below(f"start of kafka-recovery {what}: CPU", statistics.median(seconds), "CPU s", 0.4)


def _cpu(*command: object) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(part) for part in command], check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
