"""What a page has somebody type is run by a test, or the page says why not.

Above its first block of commands each page has a line that the reader does not see: `<!-- commands: run by FILE -->`,
or `<!-- commands: not run: WHY -->`. It holds for the blocks below it, up to the next such line.
"""

from __future__ import annotations

import re

import pytest

from unit.docs.commands import PAGES, ROOT

PIECE = re.compile(r"^<!-- commands: (run by|not run:) (.*?) -->|^```(\w*)\n.*?^```$", re.DOTALL | re.MULTILINE)

WIDEST = 96
"""Some more than a browser shows of a block without scrolling: a word can't always be broken."""


def problems(text: str, page: str) -> list[str]:
    """What is wrong with the commands of a page."""
    wrong, told = [], False
    for piece in PIECE.finditer(text):
        kind, what, language = piece.groups()
        if kind is not None:
            told = True
            wrong += [f"{what} does not read {page}"] if kind == "run by" and not reads(what, page) else []
        elif not language:
            wrong.append(f"a block without a language: {piece[0][:60]!r}")
        elif language == "bash" and (long := [line for line in piece[0].splitlines() if len(line) > WIDEST]):
            wrong.append(f"a reader has to scroll to its end: {long[0]}")
        elif language == "bash" and not told:
            wrong.append(f"nothing says whether a test runs {piece[0][:60]!r}")
    return wrong


def reads(file: str, page: str) -> bool:
    """Whether a test's file names the page by its file's name."""
    path = ROOT / file
    return path.is_file() and page in path.read_text()


def test_every_command_is_run_by_a_test_or_the_page_says_why_not() -> None:
    told = {str(page.relative_to(ROOT)): problems(page.read_text(), page.name) for page in PAGES}
    assert {page: wrong for page, wrong in told.items() if wrong} == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```bash\nmake demo\n```", "nothing says whether a test runs"),
        ("```\nmake demo\n```", "a block without a language"),
        ("<!-- commands: run by tests/gone.py -->\n```bash\nmake demo\n```", "tests/gone.py does not read page.md"),
    ],
)
def test_a_page_that_does_not_say_would_be_found(text: str, said: str) -> None:
    (wrong,) = problems(text, "page.md")

    assert wrong.startswith(said)
