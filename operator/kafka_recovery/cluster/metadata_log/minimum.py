"""min.insync.replicas as leaders may have held it: a raise is in the log before the leader obeys it.

A leader goes on acknowledging by the old value until it has applied the new one, for seconds if it is busy (measured on
3.9, 4.0 and 4.4). So the lowest counts of all values that were in force since the leader's process began, or, where it
began long ago, within an hour of the log's own time. What a broker's file says is in no record: it counts as 1.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from kafka_recovery.domain.ids import BrokerId

NAME = "min.insync.replicas"
SETTLED = timedelta(hours=1)
"""After so long, by the log's own time, a leader counts as having applied a value."""

TOPIC, BROKER = 2, 4
"""Resource types of configurations."""

_DEFAULT = 1
_TICK = 1_000
_LONGEST_STEP = 5_000
"""Milliseconds. Idle controllers write a record every half second, so a longer step is the clock's, not time's."""

Resource = tuple[int, str]
"""The type and the name of what has a configuration."""


@dataclass(slots=True)
class LogTime:
    """The log's own time: what its records' timestamps advance by. A clock that jumps adds little, or nothing."""

    milliseconds: int = 0
    _last: int | None = None
    _ticks: deque[tuple[int, int]] = field(default_factory=deque)

    def advance(self, offset: int, timestamp: int) -> None:
        """The records from this offset on were written at `timestamp` (milliseconds)."""
        if self._last is not None:
            self.milliseconds += min(max(0, timestamp - self._last), _LONGEST_STEP)
        self._last = timestamp
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
    """Every value that min.insync.replicas had, by resource, with the offset from which on.

    Before its first known value, such as the one in a snapshot, a resource has none: then the lowest there is counts.
    """

    _values: dict[Resource, list[tuple[int, int | None]]] = field(default_factory=dict)

    def set(self, resource: Resource, offset: int, value: str | None) -> None:
        """From this offset on. A value that is no number counts as the lowest there is."""
        told = None if value is None else int(value) if value.isascii() and value.isdigit() else _DEFAULT
        self._values.setdefault(resource, []).append((offset, told))

    def forget(self, resource: Resource) -> None:
        """The resource is gone."""
        self._values.pop(resource, None)

    def lowest(self, topic: str, leader: BrokerId | None, since: int, upto: int) -> int:
        """The lowest value in force for `topic` at `leader` at any offset from `since` to `upto`."""
        owners = [(TOPIC, topic), *([] if leader is None else [(BROKER, str(leader))]), (BROKER, "")]
        told = [self._values.get(owner, ()) for owner in owners]
        changes = {offset for values in told for offset, _ in values if since < offset <= upto}
        return min(_in_force(told, offset) for offset in (since, *changes))


def _in_force(told: Sequence[Sequence[tuple[int, int | None]]], offset: int) -> int:
    """The topic's value, else the broker's, else the cluster's."""
    for values in told:
        at = bisect_right(values, offset, key=_offset)
        value = values[at - 1][1] if at else None
        if value is not None:
            return value
    return _DEFAULT


def _offset(change: tuple[int, int | None]) -> int:
    return change[0]
