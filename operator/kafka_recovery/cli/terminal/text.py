"""Words on stderr, for people."""

from __future__ import annotations

import contextlib
import logging
import sys
from contextvars import ContextVar

import typer

from kafka_recovery.formats.printable import printable


def say(message: str) -> None:
    """One line on stderr. That it can't be written is no error: a terminal that goes away must not stop a recovery."""
    with contextlib.suppress(OSError, ValueError):
        print(printable(message), file=sys.stderr, flush=True)


_QUIET: ContextVar[bool] = ContextVar("quiet", default=False)


def is_quiet() -> bool:
    """Whether the command that runs tells nothing of its progress."""
    return _QUIET.get()


def narrate(message: str) -> None:
    """One line of progress on stderr, unless --quiet was typed. What a person must read or answer goes by `say`."""
    if not is_quiet():
        say(message)


class _Aside(logging.Handler):
    """What the client logs, beside the result; each line with the milliseconds since the program began."""

    def emit(self, record: logging.LogRecord) -> None:
        say(f"{record.relativeCreated:7.0f} ms  {record.getMessage()}")


def tell_of_requests(context: typer.Context, wanted: bool) -> bool:
    """Until the command ends."""
    if not wanted:
        return False
    _refuse_both(context, "quiet")
    log, aside = logging.getLogger("kafka_recovery.cluster"), _Aside()
    before = log.level
    log.addHandler(aside)
    log.setLevel(logging.DEBUG)

    def stop() -> None:
        log.removeHandler(aside)
        log.setLevel(before)

    context.call_on_close(stop)
    return True


def keep_quiet(context: typer.Context, wanted: bool) -> bool:
    """Until the command ends."""
    if not wanted:
        return False
    _refuse_both(context, "verbose")
    before = _QUIET.set(True)
    context.call_on_close(lambda: _QUIET.reset(before))
    return True


def _refuse_both(context: typer.Context, other: str) -> None:
    """Options are read in the order in which they were typed: the second of the two finds the first."""
    if context.params.get(other):
        context.close()  # no command begins: what the first of the two began is over
        raise typer.BadParameter("--quiet and --verbose exclude each other; give one of them")


def complain(message: str) -> None:
    """An error on stderr, one line for each line of the message."""
    for line in message.splitlines():
        if line.strip():
            say(f"Error: {line}" if not line.startswith(" ") else line)
