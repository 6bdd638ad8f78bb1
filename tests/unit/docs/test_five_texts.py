"""The table of the five texts' mechanisms: every file and every story it names is there, and every switch is in it."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from functools import cache
from pathlib import Path

from kafka_recovery.simulator.model.switches import Switches

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "operator" / "kafka_recovery"
PAGE = (ROOT / "docs" / "contributing" / "five-texts.md").read_text()
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| ")]
MECHANISMS = [row for row in ROWS if row != ["mechanism", "where", "story"]]


def named(cell: str) -> list[str]:
    """What stands between backticks."""
    return re.findall(r"`([^`]+)`", cell)


def missing(story: str) -> str | None:
    """What is not there of `file.py::test`, `file.py` or `tests/folder/file.py::test`."""
    path, _, test = story.partition("::")
    file = ROOT / path if "/" in path else ROOT / "tests" / "simulation" / path
    if not file.is_file():
        return f"{story}: no file {file.relative_to(ROOT)}"
    return f"{story}: no such test" if test and test not in functions(file) else None


@cache
def functions(file: Path) -> frozenset[str]:
    """The names of all of a file's functions, in classes too."""
    nodes = ast.walk(ast.parse(file.read_text()))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def problems(mechanism: str, where: str, story: str) -> list[str]:
    """What is wrong with a row."""
    if where == "–":
        return [] if story.startswith("Left out: ") else [f"{mechanism}: nothing says why it is left out"]
    gone = [file for file in named(where) if file.endswith(".py") and not (PACKAGE / file).is_file()]
    stories = [name for name in named(story) if name.startswith(("test_", "tests/"))]
    return gone + [problem for name in stories if (problem := missing(name))] + ([] if stories else [mechanism])


def test_a_mechanism_is_somewhere_and_has_a_story_or_says_why_it_is_left_out() -> None:
    assert [problem for row in MECHANISMS for problem in problems(*row)] == []


def test_every_switch_of_the_five_texts_has_its_row() -> None:
    told = {name for row in MECHANISMS for name in named(row[1])}
    of_other_texts = {"high_watermark_needs_min_isr", "cleared_members_are_forgotten"}

    assert {field.name for field in fields(Switches)} - told == of_other_texts
