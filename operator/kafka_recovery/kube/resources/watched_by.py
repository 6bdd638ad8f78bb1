"""Which operator watches a WatchedCluster, or runs a FleetRanking: two that see the same one would act side by side.

The operator writes where its Lease lies into the object's status (`watchedBy`), and renews that. The Lease itself would
say as much, but to read one in another release's namespace takes a right there. Whoever finds another's place looks at
it from time to time. Once it was seen unchanged for long enough, by the finder's own clock, it counts for nothing: no
two clocks are compared, as with Leases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.machinery.conditions import instant
from kafka_recovery.kube.resources.kinds import WATCHED_BY, watched_by
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.recovery.clock import SystemClock


@dataclass(frozen=True, slots=True)
class ClaimTimes:
    """`renew`: how old a place becomes, `stale`: how long others leave it to us unchanged; `look`: how often they look.

    After a pause in looking of half of `stale` the others count anew: it may have been renewed meanwhile, or nobody
    could write at all.
    """

    renew: timedelta = timedelta(seconds=30)
    stale: timedelta = timedelta(seconds=90)
    look: timedelta = timedelta(seconds=10)


class WatchedElsewhere(Exception):
    """Another operator watches it, so nothing is done here, and nothing is said in its status."""

    def __init__(self, lease: Key) -> None:
        self.reason = elsewhere(lease)
        super().__init__(str(self.reason))


def elsewhere(lease: Key) -> Reason:
    """What is to be said of an object that another operator watches."""
    message = (
        f"the operator whose Lease is {'/'.join(lease)} watches it; end that operator, or have one of both watch other "
        "namespaces (--namespace, chart: watchNamespaces)"
    )
    return Reason(Decisive.WATCHED_ELSEWHERE, message)


@dataclass(frozen=True, slots=True)
class _Sight:
    """Another's place, since when it was seen unchanged, and when last."""

    told: object
    since: timedelta
    last: timedelta


@dataclass
class Places:
    """What this operator watches by which Lease. Without one it claims nothing, and leaves to others what is theirs."""

    lease: Key | None = None
    times: ClaimTimes = field(default_factory=ClaimTimes)
    monotonic: Callable[[], timedelta] = field(default_factory=lambda: SystemClock().monotonic)
    _seen: dict[Key, _Sight] = field(default_factory=dict)

    def let_watch(self, key: Key, raw: Object) -> None:
        """Return if this operator may watch it. Raises WatchedElsewhere."""
        holder = watched_by(raw.get("status"))
        if holder in (None, self.lease):
            self._seen.pop(key, None)
            return
        told, now = raw["status"][WATCHED_BY], self.monotonic()
        seen = self._seen.get(key)
        if seen is None or seen.told != told or now - seen.last > self.times.stale / 2:
            seen = _Sight(told, now, now)
        self._seen[key] = replace(seen, last=now)
        if now - seen.since < self.times.stale:
            raise WatchedElsewhere(holder)

    def is_ours(self, raw: Object) -> bool:
        """Whether nothing has to be written before it is acted on."""
        return self.lease is None or watched_by(raw.get("status")) == self.lease

    def claiming(self, status: Mapping[str, Any], old: Mapping[str, Any], now: datetime) -> dict[str, Any]:
        """A status with this operator's place in it: as it was told, while that is young."""
        if self.lease is None:
            return dict(status)
        told = old.get(WATCHED_BY) or {}
        at = instant(now)
        if watched_by(old) == self.lease and _is_young(told.get("renewed"), now, self.times.renew):
            at = told["renewed"]
        namespace, name = self.lease
        return {**status, WATCHED_BY: {"namespace": namespace, "name": name, "renewed": at}}


def _is_young(renewed: object, now: datetime, lasts: timedelta) -> bool:
    try:
        age = now - datetime.fromisoformat(str(renewed))
    except (ValueError, TypeError):
        return False
    return timedelta(0) <= age < lasts
