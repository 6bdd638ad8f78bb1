"""min.insync.replicas of topics, as leaders may have held it: a raise is in the log before the leader obeys it.

A leader goes on acknowledging by the old value until it has applied the new one, for seconds if it is busy (measured on
3.9, 4.0 and 4.4). So the lowest counts of all values that were in force since the leader's process began, or, where it
began long ago, within an hour of the log's own time.

Only a topic's own value counts, and 1 where it has none. What a broker's file says is in no record. What the log says
of all brokers, or of one, proves nothing of the leader: a broker takes its dynamic settings over all together or not at
all, and goes on without them where it refuses any (seen on 3.9 and 4.4).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

NAME = "min.insync.replicas"
SETTLED = timedelta(hours=1)
"""After so long, by the log's own time, a leader counts as having applied a value."""

DEFAULT = 1
"""What counts where a topic has no value of its own."""
_TICK = 1_000
_LONGEST_STEP = 5_000
"""Milliseconds. Idle controllers write a record every half second, so a longer step is the clock's, not time's."""


@dataclass(slots=True)
class LogTime:
    """The log's own time: what its records' timestamps advance by. A clock that jumps adds little, or nothing.

    `now`: the timestamp itself; None: an earlier record has a later one, so one of them is wrong.
    """

    milliseconds: int = 0
    now: int | None = None
    _latest: int = 0
    _last: int | None = None
    _ticks: deque[tuple[int, int]] = field(default_factory=deque)

    def advance(self, offset: int, timestamp: int) -> None:
        """The records from this offset on were written at `timestamp` (milliseconds)."""
        if self._last is not None:
            self.milliseconds += min(max(0, timestamp - self._last), _LONGEST_STEP)
        self._last = timestamp
        self.now = timestamp if timestamp >= self._latest else None
        self._latest = max(self._latest, timestamp)
        if not self._ticks or self.milliseconds - self._ticks[-1][0] >= _TICK:
            self._ticks.append((self.milliseconds, offset))
        settled = self.milliseconds - SETTLED / timedelta(milliseconds=1)
        while len(self._ticks) > 1 and self._ticks[1][0] <= settled:
            self._ticks.popleft()

    def settled(self) -> int | None:
        """The offset that was written `SETTLED` ago; None: the log does not reach back so far."""
        if not self._ticks:
            return None
        began, offset = self._ticks[0]
        return offset if self.milliseconds - began >= SETTLED / timedelta(milliseconds=1) else None


@dataclass(slots=True)
class Minima:
    """Every value of its own that a topic's min.insync.replicas had, with the offset from which on.

    Before its first known value, such as the one in a snapshot, a topic has none.
    """

    _values: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def set(self, topic: str, offset: int, value: str | None) -> None:
        """From this offset on. None, or what is no number, counts as the lowest there is."""
        told = int(value) if value is not None and value.isascii() and value.isdigit() else DEFAULT
        self._values.setdefault(topic, []).append((offset, told))

    def of(self, topic: str) -> Sequence[tuple[int, int]]:
        """What is known of a topic: (offset, value), oldest first."""
        return self._values.get(topic, ())

    def put(self, topic: str, values: Iterable[tuple[int, int]]) -> None:
        """More is known of a topic than was read."""
        self._values[topic] = list(values)

    def forget(self, topic: str) -> None:
        """The topic is gone."""
        self._values.pop(topic, None)

    def lowest(self, topic: str, since: int, upto: int) -> int:
        """The lowest value in force at any offset from `since` to `upto`."""
        values = self._values.get(topic, ())
        before, after = (bisect_right(values, offset, key=_offset) for offset in (since, upto))
        in_force = values[before - 1][1] if before else DEFAULT
        return min([in_force, *(value for _, value in values[before:after])])


def _offset(change: tuple[int, int]) -> int:
    return change[0]
