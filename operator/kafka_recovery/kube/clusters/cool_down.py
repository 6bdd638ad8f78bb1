"""The pause after an election that nobody was asked about (limits.coolDown): it outlives connections and processes."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.domain.reason import Reason


@dataclass(frozen=True, slots=True)
class LastAutomatic:
    """The last election that nobody was asked about, and the recovery it was part of."""

    at: datetime
    recovery_uid: str


@dataclass
class CoolDown:
    """Of one Kafka, for as long as this process lives: a Secret that is gone for a moment must not end it."""

    last: LastAutomatic | None = None
    _at: timedelta = timedelta(0)
    """When that was, on a clock that nobody sets (monotonic)."""

    def elected(self, recovery_uid: str) -> None:
        """Keep that an election of this recovery was held that nobody was asked about."""
        self.last = LastAutomatic(datetime.now(UTC), recovery_uid)
        self._at = timedelta(seconds=time.monotonic())

    def remember(self, status: Mapping[str, Any]) -> None:
        """Take over what an earlier process told of the last one, in a WatchedCluster's status."""
        told = status.get("lastAutomaticElection") or {}
        if {"at", "recoveryUid"} <= told.keys():
            self.elected_earlier(datetime.fromisoformat(told["at"]), str(told["recoveryUid"]))

    def elected_earlier(self, at: datetime, recovery_uid: str) -> None:
        """Keep what an earlier process did, unless a later election is known."""
        if self.last is None or self.last.at < at:
            self.last = LastAutomatic(at, recovery_uid)
            # One from the future tells that a clock was set; at the latest it was just now.
            ago = max(datetime.now(UTC) - at, timedelta(0))
            self._at = timedelta(seconds=time.monotonic()) - ago

    def why(self, lasts: timedelta | None, recovery_uid: str) -> Reason | None:
        """Why no automatic election of this recovery may follow the last one of another yet, if so."""
        if lasts is None or self.last is None or self.last.recovery_uid == recovery_uid:
            return None
        left = lasts - (timedelta(seconds=time.monotonic()) - self._at)
        if left <= timedelta(0):
            return None
        minutes = math.ceil(left / timedelta(minutes=1))  # what changed every second would be a write every second
        message = "another recovery held an automatic election"
        return Reason("CoolingDown", f"{message}; for at most {minutes} min more (limits.coolDown) a person says yes")
