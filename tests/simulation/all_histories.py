"""The histories of `make test`, told once a test run, by whichever process comes first."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Sequence
from pathlib import Path

from kafka_recovery.simulator.histories.many import Told, many

HISTORIES = int(os.environ.get("HISTORIES", "500"))
CHUNK = 25
FIRSTS = range(0, HISTORIES, CHUNK)


def told_from(first: int, shared: Path) -> Sequence[Told]:
    """One chunk of them; `shared` is a folder of all processes of this test run."""
    path = shared / f"histories-{first}.pickle"
    with (shared / f"histories-{first}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            kept: Sequence[Told] = pickle.loads(path.read_bytes())
            return kept
        told = tuple(many(range(first, min(first + CHUNK, HISTORIES)), jobs=1))
        path.write_bytes(pickle.dumps(told))
        return told
