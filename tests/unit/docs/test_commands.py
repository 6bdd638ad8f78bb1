"""Whoever types what a page shows is not told that there is no such thing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unit.docs.commands import PAGES, ROOT, Shown, problem, shown

SHOWN = list(shown())
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
MAKE = re.compile(r"(?:^|`)make ((?:[a-z-]+ ?)+)", re.MULTILINE)
FILES = re.compile(r"(?<![\w./(-])((?:charts|crds|docs|examples|images|manifests|monitoring)/[\w./-]*\w)")


@pytest.mark.parametrize("command", SHOWN, ids=str)
def test_our_commands_and_their_options_exist(command: Shown) -> None:
    assert problem(command) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("kafka-recovery elect", "has no command elect"),
        ("kafka-recovery plan --all", "has no option --all"),
        ("kubectl kafka-recovery approve prod-1 --force", "has no option --force"),
    ],
)
def test_what_does_not_exist_would_be_found(words: str, said: str) -> None:
    assert said in str(problem(Shown("a page", tuple(words.split()))))


def test_every_program_is_shown_somewhere() -> None:
    assert {" ".join(each.words[: 1 + (each.words[0] == "kubectl")]) for each in SHOWN} >= {
        *("kafka-recovery", "kubectl kafka-recovery", "kafka-recovery-operator"),
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_targets_of_make_exist(page: Path) -> None:
    named = {word for words in MAKE.findall(page.read_text()) for word in words.split()}

    assert named <= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_this_repository_exist(page: Path) -> None:
    text = page.read_text()

    assert [name for name in FILES.findall(text) if not (ROOT / name).exists()] == []
