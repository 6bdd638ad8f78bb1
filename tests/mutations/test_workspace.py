"""A copy of a tree under a mutation, and what pytest says in it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mutations.catalogue import Mutation, Tier
from mutations.workspace import Workspace, copy_tree

SETTINGS = """
[tool.pytest.ini_options]
pythonpath = ["operator", "tests"]
addopts = ["--import-mode=importlib"]
markers = ["full: only in make test-full"]
"""
RULES = "LIMIT = 10\nSPARE = 20\n"
TESTS = "from rules import LIMIT\n\n\ndef test_the_limit():\n    assert LIMIT == 10\n"
TEST = "tests/test_rules.py"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # others than this one take their time
    monkeypatch.setenv("PYTEST_PLUGINS", "pytest_timeout")
    for path, text in {"pyproject.toml": SETTINGS, "operator/rules.py": RULES, TEST: TESTS}.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return Workspace(tmp_path)


def _mutation(old: str, new: str) -> Mutation:
    return Mutation("one", "rules.py", old, new, "Nothing.", Tier.UNIT, (TEST,))


def test_what_is_noticed_is_told_by_its_test_and_what_is_not_survives(workspace: Workspace) -> None:
    assert workspace.run([TEST], 60).caught_by is None
    with workspace.spoilt(_mutation("LIMIT = 10", "LIMIT = 11")):
        assert workspace.run([TEST], 60).caught_by == f"{TEST}::test_the_limit"
    with workspace.spoilt(_mutation("SPARE = 20", "SPARE = 21")):
        unnoticed = workspace.run([TEST], 60)

    assert (unnoticed.caught_by, unnoticed.trouble) == (None, "")
    assert (workspace.root / "operator/rules.py").read_text() == RULES


def test_what_make_test_leaves_out_notices_only_where_that_case_is_named(workspace: Workspace) -> None:
    (workspace.root / TEST).write_text(
        "import pytest\n\nfrom rules import LIMIT\n\n\n"
        "@pytest.mark.parametrize('most', [20, pytest.param(10, marks=pytest.mark.full)])\n"
        "def test_the_limit(most):\n    assert LIMIT <= most\n"
    )
    with workspace.spoilt(_mutation("LIMIT = 10", "LIMIT = 11")):
        whole = workspace.run([TEST], 60)
        named = workspace.run([TEST, f"{TEST}::test_the_limit[10]"], 60)

    assert (whole.caught_by, whole.trouble) == (None, "")
    assert named.caught_by == f"{TEST}::test_the_limit[10]"


def test_a_failure_counts_only_where_the_named_promise_is_found_broken(workspace: Workspace) -> None:
    finding = "    1.000 s  best_first: broker 2 is worse\\n    2.000 s  waves_hold [known: it]: too many"
    (workspace.root / TEST).write_text(
        f"from rules import LIMIT\n\ndef test_it():\n    assert LIMIT < 11, '{finding}'\n"
    )
    with workspace.spoilt(_mutation("LIMIT = 10", "LIMIT = 11")):
        best, waves, nothing = (
            workspace.run([TEST], 60, reported_by=promise) for promise in ("best_first", "waves_hold", "limits_hold")
        )

    assert best.caught_by == f"{TEST}::test_it"
    assert (waves.caught_by, nothing.caught_by) == (None, None)
    assert "limits_hold finds nothing: ['best_first']" in nothing.trouble


def test_what_can_not_even_be_imported_was_noticed_by_no_test(workspace: Workspace) -> None:
    with workspace.spoilt(_mutation("LIMIT = 10", "LIMIT = (")):
        verdict = workspace.run([TEST], 60)

    assert verdict.caught_by is None
    assert "SyntaxError" in verdict.trouble


def test_a_copy_has_what_git_would_track_and_not_what_it_ignores(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name, text in {".gitignore": "build\n", "tracked": "1", "changed": "1", "gone": "1", "build": "1"}.items():
        (tree / name).write_text(text)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tree, check=True)
    (tree / "changed").write_text("2")
    (tree / "new").write_text("2")
    (tree / "gone").unlink()

    copy_tree(tree, tmp_path / "copy")

    copied = {path.name: path.read_text() for path in (tmp_path / "copy").iterdir()}
    assert copied == {".gitignore": "build\n", "tracked": "1", "changed": "2", "new": "2"}
