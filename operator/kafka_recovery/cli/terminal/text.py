"""Words on stderr, for people."""

from __future__ import annotations

import contextlib
import sys

from kafka_recovery.formats.printable import printable


def say(message: str) -> None:
    """One line on stderr. That it can't be written is no error: a terminal that goes away must not stop a recovery."""
    with contextlib.suppress(OSError, ValueError):
        print(printable(message), file=sys.stderr, flush=True)


def complain(message: str) -> None:
    """An error on stderr, one line for each line of the message."""
    for line in message.splitlines():
        if line.strip():
            say(f"Error: {line}" if not line.startswith(" ") else line)
