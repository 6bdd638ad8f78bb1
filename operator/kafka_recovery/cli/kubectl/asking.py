"""A yes or no from whoever sits at the terminal."""

from __future__ import annotations

import sys
from contextlib import suppress

from kafka_recovery.cli.text import safe


def somebody_there() -> bool:
    """Whether there is a person to ask, who sees the question."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def asked(question: str) -> bool:
    """Ask on stderr; anything but a yes is a no, also a terminal that went away."""
    with suppress(OSError):
        print(f"{safe(question)} [y/N] ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    return False
