"""`make explore` draws ten times as many examples of every property."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import settings

from unit.examples import examples

TESTS = Path(__file__).parents[1]


def test_explore_draws_ten_times_as_many_as_make_test() -> None:
    assert settings.get_profile("explore").max_examples == 10 * settings.get_profile("same").max_examples


def test_a_number_of_a_test_s_own_follows_the_profile() -> None:
    assert examples(50) * settings.get_profile("same").max_examples == 50 * settings().max_examples


def test_no_test_has_a_number_that_explore_can_not_multiply() -> None:
    fixed = [
        str(file.relative_to(TESTS))
        for file in sorted(TESTS.rglob("test_*.py"))
        if re.search(r"max_examples=\d", file.read_text())
    ]
    assert fixed == []
