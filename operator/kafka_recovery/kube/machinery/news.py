"""Which conditions an event tells: another reason at once, and now and then other words under the same one.

Numbers, times, digests and names with a digit change in a message while the cause does not. Which broker is meant, and
what a reference names that leads nowhere, is what a person goes by.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

EVERY = 300.0
"""Seconds: so often other words under the same reason are told in the long run."""
AT_ONCE = 3
"""So many come at once, if they come after a quiet time."""
REMEMBERED = 1000
"""Conditions of which is known what was told last; of others the status says it. Of no more are other words told at
once: who makes many objects would have events told without end.
"""

_CHANGES = re.compile(r"(?<!\bbroker )(?<!\bbrokers )(?<!\S)\S*\d\S*")


class _Told(NamedTuple):
    """`settled`: when all that was told will have been told no more often than it may be."""

    words: tuple[str, str]
    settled: float


class News:
    """What one process tells. `monotonic`: its clock, in seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._told: dict[tuple[str, str], _Told] = {}

    def is_told(self, uid: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
        """Whether an event tells this condition of the object `uid`, which was as `before`. Who asks tells it then."""
        key, now = (uid, after["type"]), self._monotonic()
        last = self._told.get(key)
        if before.get("reason") == after["reason"]:
            if _words(after) == (last.words if last else _words(before)):
                return False
            if last and now + AT_ONCE * EVERY < last.settled + EVERY:
                return False
            if last is None and len(self._told) >= REMEMBERED and now < next(iter(self._told.values())).settled:
                return False
        settled = max(now, last.settled) if last else now
        self._told.pop(key, None)
        self._told[key] = _Told(_words(after), min(settled + EVERY, now + AT_ONCE * EVERY))
        if len(self._told) > REMEMBERED:
            del self._told[next(iter(self._told))]
        return True


def _words(said: Mapping[str, Any]) -> tuple[str, str]:
    reason, message = said["reason"], said.get("message") or ""
    return reason, message if reason == "InvalidReference" else _CHANGES.sub("", message)
