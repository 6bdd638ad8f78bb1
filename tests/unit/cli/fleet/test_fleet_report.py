"""`kafka-recovery fleet report`: a new page, or a sentence that says why there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from kafka_recovery.cli import main
from kafka_recovery.fleet.manifest import NAME
from unit.fleet.runs import count, counts, evidence, losses, write_run


@pytest.fixture
def rank(tmp_path: Path) -> Path:
    return write_run(tmp_path / "rank", "rank", {"counts": [count("orders", "Refuse", 2)]})


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "report.html"


def report(page: Path, *folders: Path) -> Result:
    given = [word for folder in folders for word in ("--results", str(folder))]
    return CliRunner().invoke(main.app, ["fleet", "report", *given, "--out", str(page)])


def test_one_run_is_enough_for_a_page(rank: Path, page: Path) -> None:
    shown = report(page, rank)

    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == ["2 partitions are offline now: 2 are refused.", "", str(page)]
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_what_makes_two_runs_hard_to_compare_is_said_first(rank: Path, page: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "readiness", "readiness", seen=[evidence(digest="ef" * 32)])

    first, *_ = report(page, rank, other).stdout.splitlines()

    assert first.startswith("Careful: The two runs looked at different evidence of 1 cluster (prod)")


def test_a_run_that_was_killed_or_damaged_makes_no_page(rank: Path, page: Path) -> None:
    (rank / "counts" / "part-00000.parquet").write_bytes(b"")
    damaged = report(page, rank)
    (rank / NAME).unlink()
    killed = report(page, rank)

    assert (damaged.exit_code, killed.exit_code, page.exists()) == (2, 2, False)
    assert "its SHA-256 is not the one in manifest.json" in damaged.stderr
    assert "manifest.json: is not there" in killed.stderr


def test_rows_that_no_job_writes_are_told_in_a_sentence(page: Path, tmp_path: Path) -> None:
    (row, *_) = losses("prod", {1: counts(none=1)})
    forged = write_run(tmp_path / "forged", "readiness", {"losses": [row | {"brokers": []}]})

    shown = report(page, forged)

    assert shown.exit_code == 2
    assert "forged: hold what no run writes: Index 0 is out of bounds" in shown.stderr


def test_a_storage_that_can_t_be_read_is_told_by_its_exit_code(rank: Path, page: Path) -> None:
    (rank / "leaders" / "part-00000.parquet").unlink()

    shown = report(page, rank)

    assert shown.exit_code == 3
    assert "leaders/part-00000.parquet: can't be read: No such file or directory" in shown.stderr


@pytest.mark.parametrize("package", ["jinja2", "pyarrow"])
def test_without_its_packages_it_says_what_to_install(
    rank: Path, page: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    shown = report(page, rank)

    assert shown.exit_code == 2
    assert f"{package} is not installed: pip install '.[fleet]' in its checkout" in shown.stderr
