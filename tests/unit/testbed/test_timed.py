"""What a tier took is kept beside what the others took, and its exit status is handed on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def timed(folder: Path, tier: str, program: str) -> int:
    command = [sys.executable, "-m", "testbed.timed", tier, sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder).returncode


def test_each_tier_has_its_seconds_and_a_failure_stays_one(tmp_path: Path) -> None:
    assert timed(tmp_path, "unit", "") == 0
    assert timed(tmp_path, "spark", "raise SystemExit(3)") == 3
    assert timed(tmp_path, "brokers", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)") == 143

    said = json.loads((tmp_path / "build" / "timings.json").read_text())
    assert set(said) == {"unit", "spark", "brokers"}
    assert all(0 <= seconds < 60 for seconds in said.values())
