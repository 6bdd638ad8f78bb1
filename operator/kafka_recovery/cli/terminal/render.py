"""The result on stdout: tables for people, JSON and YAML for programs. Nothing else is ever written there.

What draws tables is imported where something is drawn: a program's help and its options need none of it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

from kafka_recovery.formats.printable import printable

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.text import Text

FORMAT = 1
"""Of all documents that programs read: raised when a field goes away or means something else."""

_WIDTH_OF_FILES = 200
"""Columns where there is no terminal to ask: wide enough that no word of a table is broken."""


class Output(StrEnum):
    """The form of the result."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def write_result(output: Output, data: Any, shown: RenderableType, command: str = "") -> None:
    """Write `data` as JSON or YAML, or else what is `shown`. A reader who closes the pipe early is no error.

    `command` is what to type next, a line each; it is shown to people only, and never wrapped: it is to be copied.
    """
    if isinstance(data, Mapping) and "apiVersion" not in data:  # Kubernetes' own objects have theirs
        data = {"formatVersion": FORMAT, **data}
    if output is Output.TABLE:
        text = _drawn(shown, sys.stdout) + "".join(f"\n{printable(line)}" for line in command.splitlines())
        text += "\n" * bool(command)
    elif output is Output.JSON:
        text = json.dumps(data, indent=2) + "\n"
    else:
        import yaml

        text = yaml.safe_dump(data, sort_keys=False, allow_unicode=False, width=_WIDTH_OF_FILES)
    _write(sys.stdout, text)


def write_aside(shown: RenderableType) -> None:
    """Draw on stderr, for a person who is about to decide; as with progress, a closed terminal is no error."""
    with suppress(OSError, ValueError):
        _write(sys.stderr, _drawn(shown, sys.stderr))


def cell(value: object, style: str = "") -> Text:
    """Any value as text that is never taken for markup; None is unknown and shown as a question mark."""
    from rich.text import Text

    return Text("?" if value is None else printable(str(value)), style=style, overflow="fold")


def table(*headings: str, rows: Iterable[Iterable[object]]) -> RenderableType:
    """A table that fits the terminal, whatever its width."""
    from rich.text import Text

    from kafka_recovery.cli.terminal.layout import Rows

    return Rows(headings, [[value if isinstance(value, Text) else cell(value) for value in row] for row in rows])


def lines(*texts: str) -> Group:
    """Sentences, one a line; indentation is kept."""
    from rich.console import Group

    return Group(*(cell(text) for text in texts))


def _drawn(shown: RenderableType, stream: TextIO) -> str:
    from rich.console import Console

    columns = os.environ.get("COLUMNS", "")
    width = None if stream.isatty() else int(columns) if columns.isdecimal() and int(columns) else _WIDTH_OF_FILES
    console = Console(file=stream, width=width, markup=False, highlight=False, emoji=False)
    with console.capture() as captured:
        console.print(shown, crop=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        # Python flushes once more when it ends; let that go nowhere instead of failing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
