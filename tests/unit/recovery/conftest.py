"""One small world a test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unit.recovery.world import World


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes die here, machines do not: what was written is there, and disks need not be waited for."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "journal")
