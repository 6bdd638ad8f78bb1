"""Tables without lines, so that they can be searched and cut; no value is cut on a narrow terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

_GAP = "  "
_INDENT = "    "
_NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Rows:
    """Headings and rows of equal length. Columns without room stand below their row, the widest first, by name.

    The first column, which says what the row is about, always stays. Laid out here and not by rich, which breaks values
    in the middle and takes many seconds for thousands of rows.
    """

    headings: tuple[str, ...]
    rows: Sequence[Sequence[Text]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lines for a terminal of this width."""
        widths = self._widths()
        beside = _beside(widths, options.max_width)
        below = [column for column in range(len(widths)) if column not in beside]
        yield from _line(console, [Text(heading, style="bold") for heading in self.headings], widths, beside)
        for row in self.rows:
            yield from _line(console, row, widths, beside)
            named = [f"{self.headings[column]}: {row[column]}" for column in below if row[column].plain != _NOTHING]
            for text in _wrapped("; ".join(named), options.max_width):
                yield Segment(text)
                yield Segment.line()

    def _widths(self) -> list[int]:
        columns = zip(self.headings, *([cell.plain for cell in row] for row in self.rows), strict=True)
        return [max(map(cell_len, column)) for column in columns]


def _beside(widths: Sequence[int], room: int) -> list[int]:
    """The columns that fit side by side, in order."""
    kept = list(range(len(widths)))
    while len(kept) > 1 and sum(widths[column] + len(_GAP) for column in kept) - len(_GAP) > room:
        kept.remove(max(kept[1:], key=lambda column: widths[column]))
    return kept


def _line(console: Console, cells: Sequence[Text], widths: Sequence[int], columns: Sequence[int]) -> Iterator[Segment]:
    for column in columns:
        text, style = cells[column].plain, cells[column].style
        yield Segment(text, console.get_style(style) if style else None)
        yield Segment(" " * (widths[column] - cell_len(text)) + _GAP)
    yield Segment.line()


def _wrapped(text: str, room: int) -> list[str]:
    return textwrap.wrap(
        text,
        room,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
