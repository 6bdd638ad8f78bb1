"""Topic names, racks, brokers' messages and people's reasons come from others and may hold anything."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line, with every control, format and other invisible character written as an escape.

    Whatever goes to a terminal, a log, a status or an event goes through here: an escape sequence would be obeyed, a
    line feed would pretend to be a line of ours.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _written(char) for char in text)


def is_blank(text: str) -> bool:
    """Whether nobody sees anything of it."""
    return not any(char.isprintable() and not char.isspace() for char in text)


def one_line(text: str, longest: int) -> str:
    """The text on one line of at most `longest` characters; what is longer ends in an ellipsis."""
    line = " ".join(printable(text[: 4 * longest]).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _written(char: str) -> str:
    return " " if char in "\t\n\r" else char.encode("unicode_escape").decode()
