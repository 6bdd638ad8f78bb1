"""Histories that once broke a promise, shortened, so that they never do again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario_files import load_scenario

HERE = Path(__file__).parent


def findings(path: Path) -> str:
    history = happen(load_scenario(path.read_text(), path.name))
    return "\n".join(map(str, history.findings))


@pytest.mark.parametrize("path", sorted((HERE / "found").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_was_found_once_is_not_found_again(path: Path) -> None:
    assert findings(path) == ""
