"""`rehearse` on the command line: what it shows, its exit codes, and what is wrong said with its line and field."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kafka_recovery.cli import main
from kafka_recovery.cli.fleet import rehearse as rehearsing
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.simulator.histories.scenario import VERSION
from kafka_recovery.simulator.histories.schedules import VERSION as SEEDS
from simulation.lagging import LAGGING
from unit.documents import document


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "lagging.yaml"
    path.write_text(LAGGING)
    return path


def rehearse(*words: object) -> Result:
    return CliRunner().invoke(main.app, ["rehearse", *map(str, words)])


@pytest.fixture
def in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of its own for a history imports everything anew, for most of a second; the first test has one."""
    monkeypatch.setattr(rehearsing, "ProcessPoolExecutor", lambda jobs, *_: ThreadPoolExecutor(jobs))


def test_the_policy_stands_beside_kafkas_own_choice_and_waiting(automatic: Path, scenario: Path) -> None:
    shown = rehearse("--policy", automatic, "--scenario", scenario, "--jobs", 1)

    assert shown.exit_code == 0, shown.stderr
    assert shown.stdout.startswith("1 history, 1 partition; the same accidents in every row\n"), "one is no plural"
    rows = [line.split("  ")[1].strip() for line in shown.stdout.splitlines() if line.startswith("all rules")]
    assert rows == ["this policy", "Kafka's own choice", "just wait"]
    assert f"--scenario {scenario} --timeline" in shown.stdout


@pytest.mark.usefixtures("in_threads")
def test_json_holds_every_sum_and_a_limit_that_is_exceeded_is_exit_code_1(automatic: Path, scenario: Path) -> None:
    words = ("--policy", automatic, "--scenario", scenario, "--jobs", 1, "--output", "json")
    shown = rehearse(*words, "--max-lost", 0)

    told = document("rehearsal", shown.stdout)
    assert shown.exit_code == 1
    assert told["version"] == SEEDS
    assert 0 < told["total"]["policy"]["lost"] < told["total"]["kafka"]["lost"]
    assert told["rules"]["everything"]["policy"]["elected"] == 1
    assert told["exceeded"][0].startswith("--max-lost 0: ")
    assert shown.stderr == f"Error: {told['exceeded'][0]}\n"


def test_a_timeline_tells_one_history(automatic: Path, scenario: Path) -> None:
    shown = rehearse("--policy", automatic, "--scenario", scenario, "--timeline")

    assert shown.exit_code == 0
    assert "engine-1" in shown.stdout
    assert "No finding." in shown.stdout


@pytest.mark.usefixtures("in_threads")
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_plot_is_a_new_picture(automatic: Path, scenario: Path, tmp_path: Path, kind: str) -> None:
    picture = tmp_path / f"rehearsal.{kind}"
    words = ("--policy", automatic, "--scenario", scenario, "--jobs", 1, "--plot", picture)

    assert rehearse(*words).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG" if kind == "png" else b"<?xml")
    again = rehearse(*words)
    assert again.exit_code == 2
    assert "exists already and is not overwritten" in again.stderr


LONG = "a" * 300 + ".svg"


@pytest.mark.parametrize(
    ("picture", "problem"),
    [
        ("automatic.svg", "automatic.svg: exists already and is not overwritten"),
        ("nowhere/a.svg", "a.svg: its directory does not exist"),
        (LONG, f"{LONG}: can't be written: "),
    ],
)
def test_a_picture_that_could_not_be_written_is_refused_before_any_history_is_played(
    automatic: Path, tmp_path: Path, picture: str, problem: str
) -> None:
    (tmp_path / "automatic.svg").touch()

    refused = rehearse("--policy", automatic, "--seeds", 50_000, "--plot", tmp_path / picture)

    assert refused.exit_code == 2
    assert problem in refused.stderr
    assert refused.stdout == ""


@pytest.mark.usefixtures("in_threads")
def test_the_table_is_there_even_if_the_picture_fails_in_the_end(
    automatic: Path, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_: object) -> None:
        raise InvalidDocument(f"{path}: can't be written: No space left on device")

    monkeypatch.setattr(rehearsing, "plot", full)

    words = ("--policy", automatic, "--scenario", scenario, "--jobs", 1, "--max-lost", 0, "--plot", tmp_path / "a.svg")
    shown = rehearse(*words)

    assert shown.exit_code == 2
    assert "Kafka's own choice" in shown.stdout
    assert "--max-lost 0: " in shown.stderr
    assert "a.svg: can't be written: No space left on device" in shown.stderr
    assert not (tmp_path / "a.svg").exists(), "what the check beforehand wrote is gone"


def test_without_matplotlib_it_is_said_how_to_get_it(
    automatic: Path, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)

    refused = rehearse("--policy", automatic, "--scenario", scenario, "--plot", tmp_path / "a.png")

    assert refused.exit_code == 2
    assert "pip install '.[plot]' in its checkout" in refused.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--seeds", "many"], "--seeds 'many': give how many (200), or first..last+1 (40..60)"),
        (["--seeds", "v99:1..2"], "these are seeds of version 99"),
        (["--seeds", "3", "--timeline"], "--timeline tells one history, and 3 are asked for"),
        (["--seeds", "1", "--timeline", "--plot", "a.svg"], "sums up nothing: leave out --plot\n"),
        (
            ["--seeds", "1", "--timeline", "--max-lost", "0", "--max-refused", "0", "--max-failed", "0"],
            "sums up nothing: leave out --max-lost and --max-refused and --max-failed\n",
        ),
        (["--seeds", "3", "--plot", "a.jpg"], "--plot a.jpg: give a name that ends in .png or .svg"),
        (["--scenario", "/nowhere.yaml"], "/nowhere.yaml: can't be read"),
    ],
)
def test_a_command_line_that_is_not_right(automatic: Path, words: list[str], problem: str) -> None:
    refused = rehearse("--policy", automatic, *words)

    assert refused.exit_code == 2
    assert problem in refused.stderr
    assert refused.stdout == ""


def test_a_scenario_that_is_given_twice_is_refused_whatever_it_is_called(automatic: Path, scenario: Path) -> None:
    """It would count twice."""
    link = scenario.with_name("link.yaml")
    link.symlink_to(scenario)

    same = rehearse("--policy", automatic, "--scenario", scenario, "--scenario", scenario)
    linked = rehearse("--policy", automatic, "--scenario", scenario, "--scenario", link)

    assert (same.exit_code, linked.exit_code) == (2, 2)
    assert f"--scenario {scenario} is given twice; did you mean another one?" in same.stderr
    assert f"--scenario {link} is given twice, as {scenario} too; did you mean another one?" in linked.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        (f"version: {VERSION}", "version: 99", "lagging.yaml:1: version: this simulator replays version"),
        ("broker: 1}", "broker: 9}", "lagging.yaml:12: faults.2.broker: there is no broker 9"),
        ("seed: 5", "seed: 5\nseed: 6", "lagging.yaml:3: seed: stands here again; it is at line 2 already"),
        ("kind: kill, broker: 1", "kind: kil, broker: 1", "there is no kind 'kil'; did you mean kill?"),
        ("engines:\n- {at: 40, whole_cluster: true}\n", "", "engines: is missing"),
    ],
)
def test_a_scenario_that_is_not_right(automatic: Path, scenario: Path, right: str, wrong: str, said: str) -> None:
    scenario.write_text(LAGGING.replace(right, wrong))

    refused = rehearse("--policy", automatic, "--scenario", scenario)

    assert refused.exit_code == 2
    assert said in refused.stderr
