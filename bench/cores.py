"""Kafka on one core and its client on another, so that neither takes the other's time, whatever is compared."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def apart(kafka: Iterable[int]) -> Iterator[None]:
    """Pin these processes to the first core and this one, with what it starts, to the second one.

    Afterwards all may use every core again. A machine with a single core changes nothing.
    """
    mine = os.getpid()
    processes = tuple(kafka)
    cores = sorted(os.sched_getaffinity(mine))
    if len(cores) > 1:
        for process in processes:
            _pin(process, cores[:1])
        _pin(mine, cores[1:2])
    try:
        yield
    finally:
        for process in (*processes, mine):
            _pin(process, cores)


def _pin(process: int, cores: Iterable[int]) -> None:
    """Every thread of it; those that they start later inherit it. Threads end meanwhile, and so do processes."""
    wanted = set(cores)
    with suppress(FileNotFoundError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread.name), wanted)
