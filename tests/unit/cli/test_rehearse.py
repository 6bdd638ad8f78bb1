"""`rehearse` on the command line: what it shows, its exit codes, and what is wrong said with its line and field."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kafka_recovery.cli import main
from kafka_recovery.simulator.histories.scenario import VERSION

LAGGING = """version: 1
seed: 5
brokers: 3
elr: false
topics:
- {name: pay-in, assignments: [[1, 2, 3]]}
traffic:
- {partition: pay-in-0, acks_all: true, first: 1, last: 40, every: 0.5}
faults:
- {at: 5, kind: kill, broker: 2}
- {at: 15, kind: kill, broker: 3}
- {at: 25, kind: kill, broker: 1}
- {at: 30, kind: start, broker: 2}
- {at: 30, kind: start, broker: 3}
engines:
- {at: 40, whole_cluster: true}
quiet_at: 80
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "lagging.yaml"
    path.write_text(LAGGING)
    return path


def rehearse(*words: object) -> Result:
    return CliRunner().invoke(main.app, ["rehearse", *map(str, words)])


def test_the_policy_stands_beside_kafkas_own_choice_and_waiting(automatic: Path, scenario: Path) -> None:
    shown = rehearse("--policy", automatic, "--scenario", scenario, "--jobs", 1)

    assert shown.exit_code == 0, shown.stderr
    rows = [line.split("  ")[1].strip() for line in shown.stdout.splitlines() if line.startswith("all rules")]
    assert rows == ["this policy", "Kafka's own choice", "just wait"]
    assert f"--scenario {scenario} --timeline" in shown.stdout


def test_json_holds_every_sum_and_a_limit_that_is_exceeded_is_exit_code_1(automatic: Path, scenario: Path) -> None:
    words = ("--policy", automatic, "--scenario", scenario, "--jobs", 1, "--output", "json")
    shown = rehearse(*words, "--max-lost", 0)

    told = json.loads(shown.stdout)
    assert shown.exit_code == 1
    assert told["version"] == VERSION
    assert 0 < told["total"]["policy"]["lost"] < told["total"]["kafka"]["lost"]
    assert told["rules"]["everything"]["policy"]["elected"] == 1
    assert told["exceeded"][0].startswith("--max-lost 0: ")
    assert shown.stderr == f"Error: {told['exceeded'][0]}\n"


def test_a_timeline_tells_one_history(automatic: Path, scenario: Path) -> None:
    shown = rehearse("--policy", automatic, "--scenario", scenario, "--timeline")

    assert shown.exit_code == 0
    assert "engine-1" in shown.stdout
    assert "No finding." in shown.stdout


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_plot_is_a_new_picture(automatic: Path, scenario: Path, tmp_path: Path, kind: str) -> None:
    picture = tmp_path / f"rehearsal.{kind}"
    words = ("--policy", automatic, "--scenario", scenario, "--jobs", 1, "--plot", picture)

    assert rehearse(*words).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG" if kind == "png" else b"<?xml")
    again = rehearse(*words)
    assert again.exit_code == 2
    assert "exists already and is not overwritten" in again.stderr


def test_without_matplotlib_it_is_said_how_to_get_it(
    automatic: Path, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    refused = rehearse("--policy", automatic, "--scenario", scenario, "--plot", tmp_path / "a.png")

    assert refused.exit_code == 2
    assert "pip install 'kafka-recovery-operator[plot]'" in refused.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--seeds", "many"], "--seeds 'many': give how many (200), or first..last+1 (40..60)"),
        (["--seeds", "v99:1..2"], "these are seeds of version 99"),
        (["--seeds", "3", "--timeline"], "--timeline tells one history, and 3 are asked for"),
        (["--seeds", "3", "--plot", "a.jpg"], "--plot a.jpg: give a name that ends in .png or .svg"),
        (["--scenario", "/nowhere.yaml"], "/nowhere.yaml: can't be read"),
    ],
)
def test_a_command_line_that_is_not_right(automatic: Path, words: list[str], problem: str) -> None:
    refused = rehearse("--policy", automatic, *words)

    assert refused.exit_code == 2
    assert problem in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("version: 1", "version: 99", "lagging.yaml:1: version: this simulator replays version"),
        ("broker: 1}", "broker: 9}", "lagging.yaml:12: faults.2.broker: there is no broker 9"),
        ("engines:\n- {at: 40, whole_cluster: true}\n", "", "engines: is missing"),
    ],
)
def test_a_scenario_that_is_not_right(automatic: Path, scenario: Path, right: str, wrong: str, said: str) -> None:
    scenario.write_text(LAGGING.replace(right, wrong))

    refused = rehearse("--policy", automatic, "--scenario", scenario)

    assert refused.exit_code == 2
    assert said in refused.stderr


def test_a_policy_that_is_not_right(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text("rules:\n- name: a\n  patiance: 1s\n")

    refused = rehearse("--policy", path)

    assert refused.exit_code == 2
    assert f"{path}:3: rules[0].patiance: is an unknown field" in refused.stderr
