"""Recoveries for which their cluster has no room: they have no partitions, and are looked at again once it has some."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.open_cluster import OpenCluster
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.journal.shown_plans import Named
from kafka_recovery.kube.resources.kinds import PartitionRecovery
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.watching.room import INCIDENTS, OTHERS, Room, Used


@dataclass(frozen=True, slots=True)
class _Waits:
    """One of them. `partitions`: as many as it is known to have."""

    uid: str
    created_at: datetime
    room: Room
    partitions: int


@dataclass(slots=True)
class _Cluster:
    """Those of one cluster, as it was open when they were refused."""

    open: OpenCluster
    waiting: dict[Key, _Waits] = field(default_factory=dict)


def room_of(recovery: PartitionRecovery) -> Room:
    """Whose room it takes up."""
    return INCIDENTS if recovery.is_from_incident else OTHERS


class Waiting:
    """All of them, by cluster. `soon(key, after)`: have a key reconciled.

    However many there are, nothing of them is gone through while nobody else ends.
    """

    def __init__(self, soon: Callable[[Key, timedelta], None]) -> None:
        self._soon = soon
        self._clusters: dict[Key, _Cluster] = {}
        self._where: dict[Key, Key] = {}

    async def full(
        self,
        key: Key,
        recovery: PartitionRecovery,
        cluster: OpenCluster,
        journal: RecordJournal,
        partitions: int,
        used: Callable[[Room], Used],
    ) -> Reason | None:
        """Why there is no room for it; then it waits. There is for what was begun: nobody else restores that.

        `used`: what is taken up of a room.
        """
        room = room_of(recovery)
        lacking = room.lacking(used(room), partitions)
        if lacking is None:
            return None
        if not self.knows(key, recovery.meta.uid):
            named = Named.by(recovery.status, recovery.meta.uid).begun
            if named or await journal.unfinished() or journal.never_shown:
                return None
        self.wait(key, recovery, cluster, partitions)
        return lacking

    def wait(self, key: Key, recovery: PartitionRecovery, cluster: OpenCluster, partitions: int) -> None:
        """There is no room for it in this cluster."""
        self.forget(key)
        known = self._clusters.setdefault(cluster.key, _Cluster(cluster))
        known.open = cluster
        known.waiting[key] = _Waits(recovery.meta.uid, recovery.meta.created_at, room_of(recovery), partitions)
        self._where[key] = cluster.key

    def knows(self, key: Key, uid: str) -> bool:
        """Whether it was refused before, so that it has begun nothing."""
        cluster = self._where.get(key)
        return cluster is not None and self._clusters[cluster].waiting[key].uid == uid

    def forget(self, key: Key) -> Key | None:
        """It waits no longer; returns for which cluster it did."""
        where = self._where.pop(key, None)
        if where is not None:
            del self._clusters[where].waiting[key]
            if not self._clusters[where].waiting:
                del self._clusters[where]
        return where

    def count(self, cluster: Key) -> int:
        """How many wait."""
        return len(self._clusters[cluster].waiting) if cluster in self._clusters else 0

    def may_enter(self, cluster: Key, used: Callable[[Room], Used]) -> None:
        """Look at those again that have room by now, the oldest first. `used`: what is taken up of a room."""
        if cluster not in self._clusters:
            return
        waiting = self._clusters[cluster].waiting
        for room in (OTHERS, INCIDENTS):
            now = used(room)
            if now.recoveries >= room.recoveries:
                continue
            mine = [(each.created_at, key) for key, each in waiting.items() if each.room is room]
            for _, key in sorted(mine):
                if room.lacking(now, waiting[key].partitions) is None:
                    now = now.plus(waiting[key].partitions)
                    self._soon(key, timedelta(0))

    def reopened(self, is_current: Callable[[OpenCluster], bool]) -> None:
        """Look at those again whose cluster was closed, or opened anew: they wait for something else now."""
        for each in self._clusters.values():
            if not is_current(each.open):
                for key in each.waiting:
                    self._soon(key, timedelta(0))
