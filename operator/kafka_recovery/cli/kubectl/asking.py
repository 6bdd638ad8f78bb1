"""A yes or no from whoever sits at the terminal."""

from __future__ import annotations

import sys
from contextlib import suppress

from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.formats.printable import printable


def somebody_there() -> bool:
    """Whether there is a person to ask, who sees the question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def consent(question: str, done: str) -> None:
    """Ask about what can't be taken back. Raises Refusal for anything but a yes, and where there is nobody to ask."""
    if not somebody_there():
        raise Refusal(ExitCode.APPROVAL, "there is no terminal to ask at; to do it without being asked, add --yes")
    if line(f"{question} [y/N]").lower() not in ("y", "yes"):  # anything but a yes is a no
        raise Refusal(ExitCode.APPROVAL, f"not {done}; nothing was written")


def line(question: str) -> str:
    """What is answered, asked on stderr; nothing from a terminal that went away."""
    with suppress(OSError):
        print(f"{printable(question)} ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip()
    return ""
