"""Workflows as GitHub would read them: keys, expressions, contexts, types of outputs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from testbed.actionlint.distribution import fetch
from testbed.go_module import ProgramsUnavailable

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]  # a Go module is built on first use
ROOT = Path(__file__).parents[3]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def actionlint() -> Path:
    try:
        return fetch()
    except ProgramsUnavailable as trouble:
        pytest.fail(str(trouble))


def lint(program: Path, *files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, "-no-color", *files], cwd=ROOT, capture_output=True, text=True)


def test_ours_are_right(actionlint: Path) -> None:
    said = lint(actionlint, *WORKFLOWS)

    assert said.returncode == 0, said.stdout


def test_a_wrong_one_would_be_found(actionlint: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOWS[0].read_text().replace("github.event_name", "github.event_game"))

    assert "event_game" in lint(actionlint, wrong).stdout
