"""What a search for harmful bytes found, and what it begins with, does no harm any more."""

from __future__ import annotations

import pytest

from fuzz.targets import FOUND, TARGETS, beginnings


@pytest.mark.parametrize("target", list(TARGETS))
def test_what_was_found_and_what_a_search_begins_with_is_taken(target: str) -> None:
    found = [case.read_bytes() for case in sorted((FOUND / target).glob("*"))]
    for data in (*beginnings(target), *found):
        TARGETS[target](data)
