"""The definitions are only added to: what older and newer releases stored can be read by each other."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from unit.kube.resources.promised import KEPT, broken, fields

BEFORE: dict[str, dict[str, Any]] = {
    "things.spec": {"type": "object"},
    "things.spec.mode": {"type": "string", "words": ["A", "B"], "default": "A"},
    "things.spec.name": {"type": "string"},
    "things.spec.rules": {"type": "array"},
    "things.spec.rules[]": {"type": "object"},
}


def test_no_definition_takes_back_what_it_promised() -> None:
    """`python -m unit.kube.resources.promised` adds what is new."""
    assert broken(yaml.safe_load(KEPT.read_text()), fields()) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"things.spec.name": None}, "things.spec.name is removed"),
        ({"things.spec.name": {"type": "integer"}}, "things.spec.name: its type was 'string', and is 'integer'"),
        ({"things.spec.name": {"type": "string", "required": True}}, "things.spec.name must be there"),
        ({"things.spec.name": {"type": "string", "words": ["x"]}}, "things.spec.name may not be anything any more"),
        (
            {"things.spec.mode": {"type": "string", "words": ["A", "B"], "default": "B"}},
            "things.spec.mode: its default was 'A', and is 'B'",
        ),
        (
            {"things.spec.mode": {"type": "string", "words": ["A"], "default": "A"}},
            "things.spec.mode may not be B any more",
        ),
        ({"things.spec.new": {"type": "string", "required": True}}, "must be there, and was not there before"),
        ({"things.spec.rules[].new": {"type": "integer", "default": 0}}, "its default 0 is not empty"),
        ({"things.spec.new": {"type": "boolean", "default": True}}, "its default True is not empty"),
    ],
)
def test_what_needs_another_version_of_the_api(change: dict[str, Any], says: str) -> None:
    (problem,) = broken(BEFORE, {path: field for path, field in (BEFORE | change).items() if field})

    assert says in problem


@pytest.mark.parametrize(
    "change",
    [
        {"things.spec.mode": {"type": "string", "words": ["A", "B", "C"], "default": "A"}},
        {"things.spec.new": {"type": "boolean", "default": False}},
        {"things.spec.new": {"type": "object"}, "things.spec.new.inner": {"type": "string", "required": True}},
        {"things.spec.new": {"type": "object"}, "things.spec.new.inner": {"type": "integer", "default": 5}},
    ],
)
def test_what_may_be_added(change: dict[str, Any]) -> None:
    assert broken(BEFORE, BEFORE | change) == []
