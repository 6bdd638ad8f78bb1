"""`python -m kafka_recovery.simulator`: what it says, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_recovery.simulator.__main__ import main
from simulation.lagging import LAGGING


def test_one_history_is_no_plural(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--seeds", "3..4", "--jobs", "1"]) == 0
    assert capsys.readouterr().out.startswith("1 history in ")


def test_a_scenario_is_replayed_with_its_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lagging.yaml"
    path.write_text(LAGGING)

    assert main(["replay", "--scenario", str(path)]) == 0
    told = capsys.readouterr().out
    assert "pay-in-0 is Recovered (leader 3, epoch 2)" in told
    assert told.endswith("No finding.\n")


def test_a_scenario_with_a_field_twice_is_not_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lagging.yaml"
    path.write_text(LAGGING.replace("seed: 5", "seed: 5\nseed: 6"))

    assert main(["replay", "--scenario", str(path)]) == 2
    assert capsys.readouterr().err == f"{path}:3: seed: stands here again; it is at line 2 already\n"
