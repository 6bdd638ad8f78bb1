"""No sentence of the documentation is longer than a tired reader keeps in mind."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from unit.docs.said_reasons import nodes, sources

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))

LONGEST = 35
"""Words of a sentence, also of one in a table's cell."""

_CODE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BEGINS = re.compile(r"\s*(?:[-*]|\d+\.)\s|#|!!!|>|\||\s*$")
"""A line with which a new text begins: a point of a list, a heading, a box, a row of a table, or nothing."""
_MARKER = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
_CELL = re.compile(r"(?<!\\)\|")
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?])(?:\*\*|\))?\s+")
_CODES = re.compile(r"(?:`\w+`(?:, )?)+")
"""A list of codes is looked through, and not read."""


def sentences(page: str) -> Iterator[str]:
    """Of a page in Markdown, without its code; a link counts as its words."""
    for text in _texts(_LINK.sub(r"\1", _COMMENT.sub("", _CODE.sub("", page)))):
        if not _CODES.fullmatch(text):
            yield from _END.split(text)


def _texts(page: str) -> Iterator[str]:
    lines: list[str] = []
    for line in [*page.splitlines(), ""]:
        if _BEGINS.match(line) and lines:
            yield " ".join(lines)
            lines = []
        if line.lstrip().startswith("|"):
            yield from (cell.strip() for cell in _CELL.split(line))
        elif line.startswith("#"):
            yield line
        elif line.strip():
            lines.append(_MARKER.sub("", line).strip())


def test_no_sentence_of_a_page_is_longer_than_a_tired_reader_keeps_in_mind() -> None:
    told = [(page, each) for page in PAGES for each in sentences((DOCS / page).read_text())]
    assert [each for each in told if len(each[1].split()) > LONGEST] == []


FIRST_PERSON = re.compile(r"\b(we|us|our|ours|ourselves)\b", re.IGNORECASE)


@pytest.mark.parametrize("room", sorted({file.split("/")[0] for file in sources() if "/" in file}))
def test_no_program_speaks_of_itself_as_we(room: str) -> None:
    told = [(file, each) for file in sources() if file.startswith(f"{room}/") for each in _shown(file)]
    assert [each for each in told if FIRST_PERSON.search(each[1])] == []


def _shown(file: str) -> Iterator[str]:
    """Strings that are more than a word, without those that document the code."""
    documents = {id(node.value) for node in nodes(file) if isinstance(node, ast.Expr)}
    for node in nodes(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
            yield from [node.value] if " " in node.value else []


def test_a_sentence_is_found_in_a_paragraph_in_a_list_and_in_a_cell() -> None:
    page = (
        "# Heading\n\nOne [link\nover two](lines.md#here). Two.\n- A point\n  that goes on.\n\n"
        "| a cell. Its second | b |\n\n```bash\nno sentence at all\n```\n`One`, `Two`\n"
    )
    assert [each for each in sentences(page) if each] == [
        *("# Heading", "One link over two.", "Two.", "A point that goes on.", "a cell.", "Its second", "b"),
    ]
