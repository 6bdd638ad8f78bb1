"""docs/tutorials/play.md is typed as it stands, and shows what its commands show."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.timeout(120)  # five times a broker that is silent for the five seconds of its deadline
def test_a_first_recovery_shows_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    generate_played = importlib.import_module("generate_played")

    assert generate_played.wanted(tmp_path) == generate_played.PAGE.read_text(), "python docs/generate_played.py"
