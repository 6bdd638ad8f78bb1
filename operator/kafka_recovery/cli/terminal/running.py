"""Running one command: its event loop, its signals, and how its errors become a line and an exit code."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import NoReturn

import typer

from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.signals import Interrupts
from kafka_recovery.cli.terminal.text import complain, say
from kafka_recovery.cluster.errors import ClusterIdMismatch, InvalidConfiguration
from kafka_recovery.cluster.not_let_in import not_let_in
from kafka_recovery.domain.quickly import collect_seldom
from kafka_recovery.domain.reason import ClusterFault
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.recovery.ports import JournalLocked, JournalUnwritable, PlanFinished, PlanForAnotherCluster

Command = Callable[[Interrupts], Awaitable[ExitCode]]


class Refusal(Exception):
    """The command ends here: what to tell, and the exit code."""

    def __init__(self, code: ExitCode, message: str) -> None:
        self.code = code
        super().__init__(message)


_CODES: tuple[tuple[type[Exception], ExitCode], ...] = (
    (InvalidDocument, ExitCode.BAD_INPUT),
    (InvalidConfiguration, ExitCode.BAD_INPUT),
    (ClusterIdMismatch, ExitCode.BAD_INPUT),
    (PlanForAnotherCluster, ExitCode.BAD_INPUT),
    (PlanFinished, ExitCode.BAD_INPUT),
    (ClusterFault, ExitCode.UNAVAILABLE),
    (JournalLocked, ExitCode.JOURNAL),
    (JournalUnwritable, ExitCode.JOURNAL),
)
"""Errors that are somebody's to put right; the first kind that fits."""


def run(command: Command) -> NoReturn:
    """Run the command and leave with its exit code; whatever is not expected goes on to `main`."""
    interrupts = Interrupts()

    async def listening() -> ExitCode:
        interrupts.listen()
        return await command(interrupts)

    try:
        code = asyncio.run(listening())
    except asyncio.CancelledError:
        code = stopped(interrupts)
        say(f"{interrupts.received.name if interrupts.received else 'Stopped'}: ended; nothing was changed")
    except Refusal as refusal:
        complain(str(refusal))
        code = refusal.code
    except tuple(kind for kind, _ in _CODES) as error:
        complain(str(error))
        code = _code(error)
    raise typer.Exit(code)


def _code(error: Exception) -> ExitCode:
    if not_let_in(error) is not None:
        return ExitCode.NOT_LET_IN
    return next(code for kind, code in _CODES if isinstance(error, kind))


def stopped(interrupts: Interrupts) -> ExitCode:
    """The exit code of a run that a signal ended."""
    return ExitCode(128 + interrupts.received) if interrupts.received else ExitCode.INTERRUPTED


def leave(app: typer.Typer) -> NoReturn:
    """Run the whole program. An error nobody expected shows its traceback, without the values of variables."""
    collect_seldom()
    try:
        app()
    except Exception:  # noqa: BLE001 - the outermost frame: it is shown in full, and the exit code says it is our fault
        for line in traceback.format_exc().splitlines():
            say(line)
        sys.exit(ExitCode.BUG)
    sys.exit(ExitCode.DONE)
