"""Words on a terminal: topic names, racks and brokers' messages come from others and may hold anything."""

from __future__ import annotations

import contextlib
import sys


def safe(text: str) -> str:
    """The text on one line, with every control, format and other invisible character written as an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _written(char) for char in text)


def _written(char: str) -> str:
    return " " if char in "\t\n\r" else char.encode("unicode_escape").decode()


def say(message: str) -> None:
    """One line on stderr. That it can't be written is no error: a terminal that goes away must not stop a recovery."""
    with contextlib.suppress(OSError, ValueError):
        print(safe(message), file=sys.stderr, flush=True)


def complain(message: str) -> None:
    """An error on stderr, one line for each line of the message."""
    for line in message.splitlines():
        if line.strip():
            say(f"Error: {line}" if not line.startswith(" ") else line)
