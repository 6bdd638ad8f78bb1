"""Which open recovery has which partition of one cluster: an index, brought up to date by what changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.kube.recoveries.open_recovery import OpenRecovery
from kafka_recovery.kube.recoveries.run import RecoveryRun
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.watching.room import Room


class _Rank(NamedTuple):
    """The smallest one has a partition: whoever is at work on it, whoever may be, then the oldest."""

    at_work: int
    created_at: datetime
    key: Key


@dataclass(frozen=True, slots=True)
class Claimant:
    """An open recovery, and since when its object is there."""

    key: Key
    created_at: datetime
    run: RecoveryRun


class _Known(NamedTuple):
    """What was known of a claimant when the index was brought up to date, and what followed from it."""

    run: RecoveryRun
    holds: frozenset[TopicPartition]
    taken_up: bool
    version: int
    ranks: Mapping[TopicPartition, _Rank]

    def is_of(self, run: RecoveryRun) -> bool:
        """Whether nothing has changed since."""
        same = run is self.run and run.holds is self.holds
        return same and (run.taken_up, run.progress.version) == (self.taken_up, self.version)


class Claims:
    """The oldest recovery has a partition.

    But whoever is at work on it keeps it, and of one whose journal was not read yet nobody knows whether it is.
    """

    def __init__(self) -> None:
        self.holders: dict[TopicPartition, str] = {}
        """Partitions, and the names of the recoveries that have them."""
        self._first: dict[TopicPartition, _Rank] = {}
        """The claims of these."""
        self._rest: dict[TopicPartition, list[_Rank]] = {}
        """All other claims: of few partitions there are any."""
        self._known: dict[Key, _Known] = {}

    def count(self, key: Key) -> int:
        """Partitions that a recovery claims, whoever has them."""
        return len(self._known[key].ranks)

    def update(self, claimants: Iterable[Claimant]) -> None:
        """These are open now, and no others. What did not change since the last time costs nothing."""
        gone = set(self._known)
        for each in claimants:
            gone.discard(each.key)
            known = self._known.get(each.key)
            if known is None or not known.is_of(each.run):
                self._replace(each.key, _known(each))
        for key in gone:
            self._replace(key, None)

    def _replace(self, key: Key, now: _Known | None) -> None:
        before = self._known.pop(key, None)
        old = before.ranks if before else {}
        new = now.ranks if now else {}
        if now:
            self._known[key] = now
        for id in old.keys() | new.keys():
            if old.get(id) != new.get(id):
                self._set(id, old.get(id), new.get(id))

    def _set(self, id: TopicPartition, old: _Rank | None, new: _Rank | None) -> None:
        first, rest = self._first.get(id), self._rest.get(id)
        alone = rest is None and first == old
        first = new if alone else self._among(id, first, old, new)
        if first is None:
            del self._first[id], self.holders[id]
        else:
            self._first[id], self.holders[id] = first, first.key[1]

    def _among(self, id: TopicPartition, first: _Rank | None, old: _Rank | None, new: _Rank | None) -> _Rank | None:
        """Which claim of several comes first, once one of them is another one. It goes through all if it must."""
        rest = self._rest.setdefault(id, [])
        if old == first:
            rest.sort(reverse=True)
            first = rest.pop()
        elif old is not None:
            rest.remove(old)
        if first is not None and new is not None:
            rest.append(max(first, new))
            first = min(first, new)
        if not rest:
            del self._rest[id]
        return first


class ClaimsByCluster:
    """Of every cluster. `open_`: the recoveries that are open, as they come and go."""

    def __init__(self, open_: Mapping[Key, OpenRecovery]) -> None:
        self._open = open_
        self._claims: dict[Key, Claims] = {}

    def holders(self, cluster: Key) -> Mapping[TopicPartition, str]:
        """Which open recovery has which partition; it changes with what recoveries do."""
        return self._updated(cluster).holders

    def counts(self, cluster: Key, room: Room) -> list[int]:
        """How many partitions each open recovery in this room claims."""
        claims = self._updated(cluster)
        return [claims.count(key) for key, open_ in self._of(cluster) if open_.room is room]

    def _updated(self, cluster: Key) -> Claims:
        claims = self._claims.setdefault(cluster, Claims())
        claims.update(Claimant(key, open_.created_at, open_.run) for key, open_ in self._of(cluster))
        return claims

    def _of(self, cluster: Key) -> Iterator[tuple[Key, OpenRecovery]]:
        return ((key, open_) for key, open_ in self._open.items() if open_.cluster.key == cluster)


def _known(claimant: Claimant) -> _Known:
    run, age = claimant.run, (claimant.created_at, claimant.key)
    holds, may_be, waits = _Rank(0, *age), _Rank(1, *age), _Rank(2, *age)
    ranks = dict.fromkeys(run.progress.open_partitions(run.scope), waits)
    ranks |= dict.fromkeys(() if run.taken_up else run.scope, may_be)
    ranks |= dict.fromkeys(run.holds, holds)
    return _Known(run, run.holds, run.taken_up, run.progress.version, ranks)
