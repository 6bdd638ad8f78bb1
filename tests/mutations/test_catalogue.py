"""The list does not rot: what each mutation would change stands in the tree, and so do the tests that must notice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mutations.catalogue import Mutation, NotInTree, Tier, listed

ROOT = Path(__file__).parents[2]


def _wrong(mutation: Mutation) -> str:
    """Why it could not be tried; nothing if it could."""
    try:
        can_be_tried = mutation.place(ROOT).is_file() and mutation.test_ids(ROOT) and mutation.old != mutation.new
    except NotInTree as lost:
        return str(lost)
    return "" if can_be_tried else f"{mutation.id}: changes nothing, or names no tests"


def test_every_mutation_finds_its_one_place_and_its_tests() -> None:
    wrong = list(filter(None, map(_wrong, listed())))
    assert not wrong, "\n".join(wrong)


def test_every_mutation_has_a_name_of_its_own_and_is_another_change() -> None:
    named = Counter(mutation.id for mutation in listed())
    changes = Counter((each.tier, each.file, each.old, each.new) for each in listed())

    assert [name for name, count in named.items() if count > 1] == []
    assert [change for change, count in changes.items() if count > 1] == []


def _one(old: str, file: str = "rules.py", test: str = "test_rules.py") -> Mutation:
    return Mutation("one", file, old, "", "Nothing.", Tier.UNIT, (test,))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for path, text in {
        "operator/room/rules.py": "limit = 1\nother = 2\nother = 2\n",
        "operator/hall/rules.py": "unlike = 3\n",
        "tests/unit/test_rules.py": "def test_the_limit() -> None: ...\n",
        "tests/property/test_rules.py": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_a_file_is_known_by_its_name_and_the_text_that_it_holds(tree: Path) -> None:
    assert _one("limit = 1").place(tree) == tree / "operator/room/rules.py"
    assert _one("unlike = 3").place(tree) == tree / "operator/hall/rules.py"


@pytest.mark.parametrize(("old", "times"), [("gone = 1", 0), ("other = 2", 2)])
def test_a_text_that_is_gone_or_there_twice_is_told(tree: Path, old: str, times: int) -> None:
    with pytest.raises(NotInTree, match=f"one: its old text is there {times} times, not once, in operator/"):
        _one(old).place(tree)


def test_tests_are_known_by_their_names_and_folders(tree: Path) -> None:
    assert _one("", test="unit/test_rules.py").test_ids(tree) == ("tests/unit/test_rules.py",)
    assert _one("", test="test_rules.py::test_the_limit[1]").test_ids(tree) == (
        "tests/unit/test_rules.py::test_the_limit[1]",
    )
    for wrong in ("test_rules.py", "unit/test_rules.py::test_gone", "test_gone.py"):
        with pytest.raises(NotInTree, match=f"test files are meant by {wrong}, not one"):
            _one("", test=wrong).test_ids(tree)
