"""The pause after an election that nobody was asked about (limits.coolDown): it outlives connections and processes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.decision.moments import moment
from kafka_recovery.domain.reason import Reason

TURN = timedelta(minutes=1)
"""So long the others leave the next election to the recovery that was first to go on after a cool-down."""


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LastAutomatic:
    """The last election that nobody was asked about, and the recovery it was part of."""

    at: datetime
    recovery_uid: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What a CoolDown knew at some moment."""

    last: LastAutomatic | None
    at: timedelta
    learned_at: datetime


_ANOTHER_FIRST = Reason(
    "CoolingDown", "another recovery is about to hold an automatic election; until it has, a person says yes"
)


@dataclass
class CoolDown:
    """Of one Kafka, for as long as this process lives: a Secret that is gone for a moment must not end it."""

    last: LastAutomatic | None = None
    _at: timedelta = timedelta(0)
    """When that was, on a clock that nobody sets (monotonic)."""
    _learned_at: datetime = _LONG_AGO
    """When it was known: one that is told to be later tells that a clock was set."""
    _turn: tuple[str, timedelta] | None = None
    """The recovery that is about to hold the next one, and until when the others leave it that (monotonic)."""

    def elected(self, recovery_uid: str) -> None:
        """Keep that an election of this recovery was held that nobody was asked about."""
        self._learned_at = datetime.now(UTC)
        self.last = LastAutomatic(self._learned_at, recovery_uid)
        self._at = timedelta(seconds=time.monotonic())
        self._turn = None

    def goes_first(self, recovery_uid: str) -> None:
        """Have the others wait for this recovery: else all that waited would alter orders, and all but one in vain."""
        self._turn = recovery_uid, timedelta(seconds=time.monotonic()) + TURN

    def remember(self, status: Mapping[str, Any]) -> None:
        """Take over what an earlier process told of the last one, in a WatchedCluster's status."""
        told = status.get("lastAutomaticElection") or {}
        if {"at", "recoveryUid"} <= told.keys():
            self.elected_earlier(datetime.fromisoformat(told["at"]), str(told["recoveryUid"]))

    def kept(self) -> Kept:
        """What is known now, for `taken_back`."""
        return Kept(self.last, self._at, self._learned_at)

    def taken_back(self, kept: Kept) -> None:
        """Know no more than was known then."""
        self.last, self._at, self._learned_at = kept.last, kept.at, kept.learned_at

    def elected_earlier(self, at: datetime, recovery_uid: str) -> None:
        """Keep what an earlier process did, unless a later election is known."""
        if self.last is None or self.last.at < at:
            self.last = LastAutomatic(at, recovery_uid)
            # One from the future tells that a clock was set; at the latest it was just now.
            self._learned_at = datetime.now(UTC)
            ago = max(self._learned_at - at, timedelta(0))
            self._at = timedelta(seconds=time.monotonic()) - ago

    def why(self, lasts: timedelta | None, recovery_uid: str) -> Reason | None:
        """Why no automatic election of this recovery may follow the last one of another yet, if so."""
        if lasts is None or self.last is None or self.last.recovery_uid == recovery_uid:
            return None
        now = timedelta(seconds=time.monotonic())
        left = lasts - (now - self._at)
        if left <= timedelta(0):
            first = self._turn is None or self._turn[0] == recovery_uid or self._turn[1] <= now
            return None if first else _ANOTHER_FIRST
        # Not how much is left: each recovery that waits has its status written when the words change.
        ends = min(self.last.at, self._learned_at) + lasts
        message = f"another recovery held an automatic election; until {moment(ends)} (limits.coolDown)"
        return Reason("CoolingDown", f"{message} a person says yes")


@dataclass
class UnaskedTry:
    """What the tries of one recovery do to the pause: each wave begins it, and a try that elects nobody never did.

    Else a recovery whose elections Kafka refuses each time would have all others ask a person for good.
    """

    cool_down: CoolDown
    recovery_uid: str
    _before: Kept | None = None
    """What was known before the try under way, if a wave of it began."""
    _ours: LastAutomatic | None = None

    def begins_wave(self) -> None:
        """An election is about to be held; a crash must not hide it."""
        self._before = self._before or self.cool_down.kept()
        self.cool_down.elected(self.recovery_uid)
        self._ours = self.cool_down.last

    def over(self, in_vain: bool) -> bool:
        """The try has ended; `in_vain`: it surely changed nothing. Whether the pause is another one by that."""
        before, self._before = self._before, None
        if before is None or not in_vain or self.cool_down.last is not self._ours:
            return False
        self.cool_down.taken_back(before)
        return True
