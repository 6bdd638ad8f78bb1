"""docs/tutorials/play.md is typed as it stands, and shows what its commands show."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kafka_recovery
from unit.processes import Forked

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def generate_played(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("generate_played")


@pytest.fixture
def forks(generate_played: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands have imported what they need."""

    def forked(words: list[str], folder: Path) -> Forked:
        there = f"import os; os.chdir({str(folder)!r}); os.environ.update({generate_played.surroundings(folder)!r})"
        return Forked(f"{there}; {generate_played.RECOVERY}", *words)

    monkeypatch.setattr(generate_played, "started", forked)


@pytest.mark.usefixtures("forks")
@pytest.mark.timeout(120)  # five times a broker that is silent for the five seconds of its deadline
def test_a_first_recovery_shows_what_the_page_shows(generate_played: ModuleType, tmp_path: Path) -> None:
    assert generate_played.wanted(tmp_path) == generate_played.PAGE.read_text(), "python docs/generate_played.py"


@pytest.mark.usefixtures("forks")
def test_the_proof_of_proofs_md_is_shown_as_the_page_has_it(generate_played: ModuleType, tmp_path: Path) -> None:
    """Of all that is shown the page has two lines. How far the metadata log has come depends on the machine."""
    page = (DOCS / "explanation" / "proofs.md").read_text()
    command, told = re.findall(r"^```(?:bash|text)\n(.*?)\n```", page, re.DOTALL | re.MULTILINE)[:2]

    with generate_played.played(tmp_path, "lossless") as ports:
        shown = anywhere(generate_played.run(command, ports, tmp_path))

    assert [line for line in told.splitlines() if anywhere(line) not in shown] == []


@pytest.mark.usefixtures("forks")
def test_an_incident_that_can_t_be_played_says_why(generate_played: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="unheard-of"), generate_played.played(tmp_path, "unheard-of"):
        pass


def anywhere(text: str) -> str:
    """As one line, and at any offset."""
    return re.sub(r"(?<=metadata offset )\d+", "N", " ".join(text.split()))


def test_the_page_shows_the_commands_of_this_checkout_however_its_path_was_given(
    generate_played: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They run in another folder."""
    other = tmp_path / "operator" / "kafka_recovery" / "__init__.py"
    other.parent.mkdir(parents=True)
    other.touch()
    monkeypatch.setenv("PYTHONPATH", "operator")
    asked = [sys.executable, "-c", "import kafka_recovery; print(kafka_recovery.__file__)"]

    found = subprocess.check_output(asked, cwd=tmp_path, env=generate_played.surroundings(tmp_path), text=True)

    assert found.strip() == kafka_recovery.__file__
