"""Words on stderr, for people."""

from __future__ import annotations

import contextlib
import logging
import sys

import typer

from kafka_recovery.formats.printable import printable


def say(message: str) -> None:
    """One line on stderr. That it can't be written is no error: a terminal that goes away must not stop a recovery."""
    with contextlib.suppress(OSError, ValueError):
        print(printable(message), file=sys.stderr, flush=True)


class _Aside(logging.Handler):
    """What the client logs, beside the result; each line with the milliseconds since the program began."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.relativeCreated:7.0f} ms  {record.getMessage()}")


def tell_of_requests(context: typer.Context, wanted: bool) -> None:
    """Until the command ends."""
    if not wanted:
        return
    log, aside = logging.getLogger("kafka_recovery.cluster"), _Aside()
    before = log.level
    log.addHandler(aside)
    log.setLevel(logging.DEBUG)

    def stop() -> None:
        log.removeHandler(aside)
        log.setLevel(before)

    context.call_on_close(stop)


def complain(message: str) -> None:
    """An error on stderr, one line for each line of the message."""
    for line in message.splitlines():
        if line.strip():
            say(f"Error: {line}" if not line.startswith(" ") else line)
