"""SIGINT, SIGTERM and SIGHUP: the first one ends the run in good order, a second one at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable

from kafka_recovery.cli.terminal.text import say

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOW_CURSOR = "\x1b[?25h"


class Interrupts:
    """Signals of one run. Until `gently` the first one cancels the run: nothing has been changed by then."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._stop: Callable[[], None] | None = None
        self._task: asyncio.Task[object] | None = None

    def listen(self) -> None:
        """Take signals over, from within the run's own task. One that the parent told us to ignore (nohup) stays so."""
        self._task = asyncio.current_task()
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, self._handle, number)

    def gently(self, stop: Callable[[], None]) -> None:
        """From here on something may be changed: the first signal calls `stop` and lets the run end by itself."""
        self._stop = stop

    def _handle(self, number: signal.Signals) -> None:
        if self.received is not None:
            _leave(number)
        self.received = number
        if self._stop is not None:
            say(f"{number.name}: ending after what is under way; a second signal ends at once (resume goes on later)")
            self._stop()
        elif self._task is not None:
            self._task.cancel()


def _leave(number: signal.Signals) -> None:
    """End without another word to Kafka: all that resuming needs is in the journal already."""
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), _SHOW_CURSOR.encode())
    say(
        f"{number.name} again: ended at once; to go on or to put back assignment orders: kafka-recovery resume, or undo"
    )
    os._exit(128 + number)
