"""YAML from people: what stands twice is found, wherever it stands."""

from __future__ import annotations

import pytest
import yaml

from kafka_recovery.formats.plain_yaml import PlainLoader, Repeated, repeated


def found(text: str) -> list[Repeated]:
    node = yaml.compose(text, Loader=PlainLoader)
    assert node is not None
    return list(repeated(node))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a: 1\nb: 2\n", []),
        ("a: 1\nb: 2\na: 3\n", [Repeated(("a",), 1, 3)]),
        ("{a: 1, a: 2}", [Repeated(("a",), 1, 1)]),
        ("a: 1\na: 2\na: 3\n", [Repeated(("a",), 1, 2), Repeated(("a",), 1, 3)]),
        ("- {a: 1}\n- a: 1\n  b: {c: 1,\n    c: 2}\n", [Repeated((1, "b", "c"), 3, 4)]),
        ("[[1, 1], 1]", []),
        ("1: a\n'1': b\n", []),
    ],
)
def test_a_field_that_stands_twice_is_found_with_both_lines(text: str, wanted: list[Repeated]) -> None:
    assert found(text) == wanted


def test_what_stands_below_the_second_of_two_is_not_looked_at() -> None:
    assert found("a: 1\na: {b: 1, b: 2}\n") == [Repeated(("a",), 1, 2)]
