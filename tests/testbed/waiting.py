"""Waiting for a condition, never for a time; and saying what was last seen when it does not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from testbed.wire import Refused

Seen = TypeVar("Seen")

PATIENCE = 60.0
PAUSE = 0.05
LONGEST = 2000


class WaitedInVain(AssertionError):
    """What was awaited did not happen; the message says what, for how long, and what was seen last."""


def wait_until(
    what: str,
    look: Callable[[], Seen],
    good: Callable[[Seen], bool],
    patience: float = PATIENCE,
    alive: Callable[[], None] = lambda: None,
) -> Seen:
    """Looks again and again until what is seen is `good`, and returns that.

    `patience` in seconds; then WaitedInVain. An OSError or a Kafka refusal while looking counts as a sight, not as the
    end: brokers come and go here. `alive` is called before each look and may raise to end the wait at once.
    """
    deadline = time.monotonic() + patience
    while True:
        alive()
        last: Seen | str
        try:
            last = look()
            if good(last):
                return last
        except (OSError, Refused) as trouble:
            last = f"{type(trouble).__name__}: {trouble}"
        if time.monotonic() > deadline:
            raise WaitedInVain(f"waited {patience:g} s until {what}; last seen: {_shortened(repr(last))}")
        time.sleep(PAUSE)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
