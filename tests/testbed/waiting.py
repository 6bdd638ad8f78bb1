"""Waiting for a condition, never for a time; and saying what was last seen when it does not come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from testbed.wire import Refused

Seen = TypeVar("Seen")

PATIENCE = 60.0
PAUSE, LONGEST_PAUSE = 0.05, 0.2
"""Seconds between two looks. A look at a Kafka costs 8 ms of CPU, at a Kubernetes API 2: who has waited for long looks
less often, and waits a tenth longer."""
LONGEST = 2000


class WaitedInVain(AssertionError):
    """What was awaited did not happen; the message says what, for how long, and what was seen last."""


def wait_until(
    what: str,
    look: Callable[[], Seen],
    good: Callable[[Seen], bool],
    patience: float = PATIENCE,
    alive: Callable[[], None] = lambda: None,
    *,
    passes: bool = False,
) -> Seen:
    """Looks again and again until what is seen is `good`, and returns that.

    `patience` in seconds; then WaitedInVain. An OSError or a Kafka refusal while looking counts as a sight, not as the
    end: brokers come and go here. `alive` is called before each look and may raise to end the wait at once. What
    `passes` soon is looked for often, however long that takes.
    """
    began = time.monotonic()
    while True:
        alive()
        last: Seen | str
        try:
            last = look()
            if good(last):
                return last
        except (OSError, Refused) as trouble:
            last = f"{type(trouble).__name__}: {trouble}"
        waited = time.monotonic() - began
        if waited > patience:
            raise WaitedInVain(f"waited {patience:g} s until {what}; last seen: {_shortened(repr(last))}")
        time.sleep(PAUSE if passes else min(max(PAUSE, waited / 10), LONGEST_PAUSE))


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"
