"""What this process has used, and what machine it runs on."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def forget_peak() -> None:
    """Linux forgets the highest memory use on request; elsewhere a peak is that of everything so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_mib() -> float:
    """The most memory that this process has had since the peak was forgotten."""
    for line in _lines("/proc/self/status"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cpu_of(processes: Iterable[int]) -> float:
    """The CPU seconds that processes of Linux have used so far, all their threads together; 0 for one that is gone."""
    ticks = 0
    for process in processes:
        for line in _lines(f"/proc/{process}/stat"):
            user, system = line.rpartition(")")[2].split()[11:13]
            ticks += int(user) + int(system)
    return ticks / os.sysconf("SC_CLK_TCK")


def machine() -> str:
    """Processor, cores, memory and how busy it was just now."""
    model = next((line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if "model name" in line), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = os.getloadavg()[0]
    return (
        f"{model or platform.machine()}, {cores} cores, {memory:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}; load average when it began {load:.1f}"
    )


def _lines(path: str) -> list[str]:
    with suppress(OSError):
        return Path(path).read_text().splitlines()
    return []
