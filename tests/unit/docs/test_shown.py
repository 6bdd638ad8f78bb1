"""Pages show what programs show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unit.docs.shown import BLOCK, PAGES, SHOWN, wanted


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_what_is_shown(page: Path) -> None:
    assert wanted(page) == page.read_text(), "python -m unit.docs.shown"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nothing_that_a_page_shows_was_copied_by_hand(page: Path) -> None:
    text = page.read_text()
    assert len(BLOCK.findall(text)) == len(re.findall(r"^```text$", text, re.MULTILINE))


def test_all_that_is_made_for_pages_is_shown() -> None:
    assert sorted(name for page in PAGES for _, name in BLOCK.findall(page.read_text())) == sorted(SHOWN)
