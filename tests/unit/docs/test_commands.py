"""Whoever types what a page shows is not told that there is no such thing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unit.docs.commands import BLOCK, PAGES, ROOT, Shown, problem, shown

SHOWN = list(shown())
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
MAKE = re.compile(r"(?:^|`)make ((?:[a-z-]+ ?)+)", re.MULTILINE)
HELM = re.compile(r"\bhelm (?:install|upgrade|rollback|uninstall) (?:--install )?kafka-recovery[^\n`]*")
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
def test_a_release_is_always_in_the_namespace_that_is_named(page: Path) -> None:
    """One that was installed in another than it is upgraded in would be two."""
    assert [typed for typed in HELM.findall(page.read_text()) if "--namespace kafka-recovery" not in typed] == []


@pytest.mark.parametrize("page", ["README.md", "docs/helm.md", "examples/README.md"])
def test_what_the_examples_apply_is_looked_for_in_their_namespace(page: str) -> None:
    (block,) = [each for each in BLOCK.findall((ROOT / page).read_text()) if "kubectl apply -k" in each]

    _, *others = block.splitlines()
    assert others
    assert all(re.search(r" (?:-n|--namespace) kafka-recovery\b", typed) for typed in others), block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_targets_of_make_exist(page: Path) -> None:
    named = {word for words in MAKE.findall(page.read_text()) for word in words.split()}

    assert named <= TARGETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_this_repository_exist(page: Path) -> None:
    text = page.read_text()

    assert [name for name in FILES.findall(text) if not (ROOT / name).exists()] == []
