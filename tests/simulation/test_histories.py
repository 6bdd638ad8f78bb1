"""Hundreds of histories with the real engine inside, every promise kept in each; and one seed tells one story."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.judging.named import KNOWN, Named
from kafka_recovery.simulator.histories.scenario_files import load_scenario
from kafka_recovery.simulator.histories.schedules import draw
from kafka_recovery.simulator.histories.tables import Coverage, Vacuity
from simulation.all_histories import FIRSTS, HISTORIES, told_from

MENDED = Path(__file__).parent / "mended"
KEPT = Path(__file__).parent / "known"
"""Scenarios of defects that no seed is known of."""

LEAST = 1
"""In so many of 500 histories each mark is reached at least."""


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test run see."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.mark.parametrize("first", FIRSTS)
def test_every_promise_is_kept_in_every_history(first: int, shared: Path) -> None:
    for told in told_from(first, shared):
        found = "\n".join(map(str, told.findings))
        assert not found, f"python -m kafka_recovery.simulator replay --seed {told.seed}\n{found}"


@pytest.mark.skipif(HISTORIES < 500, reason="the marks are counted in 500 histories")
def test_no_promise_is_empty_and_every_mark_is_reached(shared: Path) -> None:
    """Takes as long as the histories that no other process has told yet, at most a minute."""
    vacuity, coverage = Vacuity(), Coverage()
    for first in FIRSTS:
        for told in told_from(first, shared):
            vacuity.add(told.examined)
            coverage.add(told.marks)

    assert vacuity.vacuous == (), str(vacuity)
    assert coverage.below(LEAST) == (), str(coverage)


@pytest.mark.parametrize("kept", sorted(MENDED.glob("*.yaml")), ids=lambda kept: kept.stem)
def test_a_mended_defect_does_not_come_back(kept: Path) -> None:
    scenario = load_scenario(kept.read_text(), kept.name)
    assert "\n".join(map(str, happen(scenario).findings)) == ""


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_a_known_defect_still_shows(known: Named) -> None:
    """Who has mended it takes it off the list."""
    kept = KEPT / f"{known.name}.yaml"
    scenarios = [draw(seed) for seed in known.seeds]
    scenarios += [load_scenario(kept.read_text(), kept.name)] if kept.exists() else []
    assert scenarios, "nothing shows it: an excuse that nobody can check"
    for scenario in scenarios:
        shown = {finding.named for finding in happen(scenario).verdict.findings}
        assert known.name in shown, f"seed {scenario.seed} shows it no more: mended? Then take it out of named.py"


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_a_known_defect_is_told_to_users(known: Named) -> None:
    page = (Path(__file__).parents[2] / "docs" / "contributing" / "simulator.md").read_text()

    assert known.name in page
    assert known.sentence in page


def test_a_seed_tells_the_same_story_whatever_hashes_are() -> None:
    """In two other processes, each with another order of sets."""
    command = [sys.executable, "-m", "kafka_recovery.simulator", "trace", "--seeds", "146..150"]
    told = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "4711")
    }

    assert len(told) == 1
    assert len(told.pop().splitlines()) == 4
