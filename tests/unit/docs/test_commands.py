"""Whoever types what a page shows is not told that there is no such thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest

from unit.docs.commands import BLOCK, CONTINUED, PAGES, ROOT, Shown, lines, problem, shown

SHOWN = list(shown())
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
MAKE = re.compile(r"(?:^|`)make ((?:[a-z-]+ ?)+)", re.MULTILINE)
HELM = re.compile(r"\bhelm (?:install|upgrade|rollback|uninstall) (?:--install )?kafka-recovery[^\n`]*")
FILES = re.compile(r"(?<![\w./(-])((?:charts|crds|docs|examples|images|manifests|monitoring)/[\w./-]*\w)")


def test_our_commands_and_their_options_exist() -> None:
    wrong = [f"{command}: {unknown}" for command in SHOWN if (unknown := problem(command)) is not None]
    assert not wrong, "\n".join(wrong)


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
        *("kafka-recovery", "kubectl kafka-recovery", "kafka-recovery-operator", "kafka-recovery-fleet-operator"),
    }


def on_pages(find: Callable[[str], Iterable[str]]) -> list[str]:
    """What is found on any page, behind the page's name."""
    return [
        f"{page.relative_to(ROOT)}: {each}" for page in PAGES for each in find(CONTINUED.sub(" ", page.read_text()))
    ]


def test_a_release_is_always_in_the_namespace_that_is_named() -> None:
    """One that was installed in another than it is upgraded in would be two."""
    wrong = [typed for typed in on_pages(HELM.findall) if "--namespace kafka-recovery" not in typed]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/helm.md", "examples/README.md"])
def test_what_the_examples_apply_is_looked_for_in_their_namespace(page: str) -> None:
    (block,) = [each for each in BLOCK.findall((ROOT / page).read_text()) if "kubectl apply -k" in each]

    _, *others = (line for line in lines(block) if not line.startswith("#"))
    assert others
    assert all(re.search(r" (?:-n|--namespace) kafka-recovery\b", typed) for typed in others), block


def test_targets_of_make_exist() -> None:
    def unknown(text: str) -> set[str]:
        return {word for words in MAKE.findall(text) for word in words.split()} - TARGETS

    wrong = on_pages(unknown)
    assert not wrong, "\n".join(wrong)


def test_files_of_this_repository_exist() -> None:
    wrong = on_pages(lambda text: [name for name in FILES.findall(text) if not (ROOT / name).exists()])
    assert not wrong, "\n".join(wrong)
