"""One small world a test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from unit.recovery.world import World

MEMORY = "/dev/shm"


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes die here, machines do not: what was written is there, and disks need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder for thousands of small files: in memory, where the machine has such a place."""
    with TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else tmp_path) as folder:
        yield Path(folder)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "journal")
