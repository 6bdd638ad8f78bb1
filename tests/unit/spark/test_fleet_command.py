"""`kafka-recovery fleet rank` and `readiness` before Spark is started: a sentence where there can be no answer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kafka_recovery.cli import main
from kafka_recovery.fleet.export import Archive
from unit.fleet.looks import look


@pytest.fixture
def root(tmp_path: Path) -> Path:
    Archive.at(str(tmp_path / "evidence")).write(look("prod"))
    (tmp_path / "policy.yaml").write_text("rules:\n- name: all\n")
    return tmp_path


def fleet(root: Path, task: str, *words: str) -> Result:
    where = {"--evidence": "evidence", "--policy": "policy.yaml", "--to": "results"}
    given = [word for option, name in where.items() for word in (option, str(root / name))]
    return CliRunner().invoke(main.app, ["fleet", task, *given, "--run", "once", *words])


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--cluster", "stage"), 2, "holds no evidence of cluster 'stage'"),
        (("--not-before", "yesterday"), 2, "--not-before: must be an instant with its zone"),
        (("--to", "/proc/results"), 3, "/proc/results/once/_claimed: can't be written"),
    ],
)
def test_what_is_not_right_is_said_in_a_sentence(root: Path, words: tuple[str, ...], code: int, says: str) -> None:
    shown = fleet(root, "rank", *words)

    assert shown.exit_code == code
    assert says in shown.stderr


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (b"rules: [", "policy.yaml:1: column 9: not YAML that can be read: "),
        (b"rules:\n- name: caf\xe9\n", "policy.yaml: is not UTF-8 text"),
        (b"rules:\n- name: all\n  patiense: 5m\n", "policy.yaml:3: rules[0].patiense: "),
    ],
)
def test_a_policy_that_is_not_right_is_told_by_its_file_and_field(root: Path, written: bytes, says: str) -> None:
    (root / "policy.yaml").write_bytes(written)

    shown = fleet(root, "readiness")

    assert shown.exit_code == 2
    assert f"{root}/{says}" in shown.stderr


def test_without_java_it_says_what_to_install(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(root))

    shown = fleet(root, "rank")

    assert shown.exit_code == 2
    assert "Spark needs Java 17 or newer" in shown.stderr


def test_without_pyspark_it_says_what_to_install(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("kafka_recovery_spark")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyspark", None)

    shown = fleet(root, "rank")

    assert shown.exit_code == 2
    assert "pip install '.[spark]' in its checkout" in shown.stderr
