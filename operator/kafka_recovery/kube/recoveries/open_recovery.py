"""What is known of a recovery that is not over: one that this process works on, or why it can't; and how many are."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.open_cluster import OpenCluster, no_such_cluster
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.journal.shown_plans import Named
from kafka_recovery.kube.machinery.api import NotFound, Object
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.recoveries.hold_back import is_over, named_by
from kafka_recovery.kube.recoveries.run import RecoveryRun
from kafka_recovery.kube.recoveries.scopes import LOOKING
from kafka_recovery.kube.recoveries.status import OBSERVE_ONLY, Known, Phase
from kafka_recovery.kube.recoveries.waiting import room_of
from kafka_recovery.kube.resources.kinds import FINALIZER, PartitionRecovery
from kafka_recovery.kube.resources.objects import Key, Objects
from kafka_recovery.kube.watching.room import Room

NOT_YET = Reason("Connecting", "its WatchedCluster is being opened")
SOON_OVER = frozenset({NOT_YET, LOOKING})
"""Why a recovery can't be worked on that is over in a moment."""


WAVE_ENDS = timedelta(seconds=20)
"""So long a process that was told to end waits for the waves under way; what takes longer is left as by a crash."""


class MendedBy(NamedTuple):
    """What of an object a person may change to mend its journal, beside the records: no generation tells of it."""

    finalizers: tuple[str, ...]
    begun: tuple[str, ...]

    @classmethod
    def of(cls, recovery: PartitionRecovery) -> MendedBy:
        """As it was read."""
        return cls(recovery.meta.finalizers, Named.by(recovery.status, recovery.meta.uid).begun)


@dataclass
class OpenRecovery:
    """A recovery that this process works on. `offline_at`: since when a partition of it is known to have no leader."""

    uid: str
    generation: int
    created_at: datetime
    offline_at: datetime
    cluster: OpenCluster
    run: RecoveryRun
    journal: RecordJournal
    task: asyncio.Task[None]
    room: Room
    mended_by: MendedBy
    undoing_since: datetime | None = None

    @classmethod
    def of(
        cls,
        recovery: PartitionRecovery,
        cluster: OpenCluster,
        offline_since: datetime,
        run: RecoveryRun,
        journal: RecordJournal,
        task: asyncio.Task[None],
    ) -> OpenRecovery:
        """As it is taken up. `offline_since`: when its cluster was first seen without a leader of its partitions."""
        meta, room, mended_by = recovery.meta, room_of(recovery), MendedBy.of(recovery)
        offline_at = min(meta.created_at, offline_since)
        told = meta.uid, meta.generation, meta.created_at
        return cls(*told, offline_at, cluster, run, journal, task, room, mended_by)

    async def leave(self) -> None:
        """As a crash would."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    def known(self, name: str) -> Known:
        """What the run knows; of one that has ended also what it leaves, which nobody takes up again by himself."""
        progress = self.run.progress
        known = progress.known()
        if known.end is None:
            return known
        left = self.cluster.outages(progress.unrecovered(self.run.scope), progress.decided_last or progress.plan)
        self.cluster.watcher.leave_alone(left, name)
        return replace(known, left=left)


class Untaken(NamedTuple):
    """A recovery that can't be worked on for now: the cluster that it is for, and why. `held`: names of its Pods."""

    cluster: str
    why: Reason
    stuck: bool
    held: frozenset[str] = frozenset()


def held_by(raw: Object) -> frozenset[str]:
    """The Pods that a recovery holds back though nobody works on it: if it has begun and goes on, those it named."""
    has_begun = FINALIZER in (raw["metadata"].get("finalizers") or ())
    status: Mapping[str, Any] = raw.get("status") or {}
    return frozenset(named_by(status).values()) if has_begun and not is_over(raw) else frozenset()


def tell_of(
    metrics: Metrics, cluster: str, taken: Collection[OpenRecovery], untaken: Collection[Untaken], waiting: int
) -> None:
    """Tell metrics of all open recoveries of a cluster. `waiting`: so many more wait for room."""
    progress = [each.run.progress for each in taken]
    stuck = sum(each.phase is Phase.STUCK for each in progress) + sum(each.stuck for each in untaken)
    cautions = [each.run.supervision.caution for each in taken]
    idle = sum(each is not None and each.code == OBSERVE_ONLY for each in cautions)
    idle += sum(each.why not in SOON_OVER for each in untaken) + waiting
    metrics.recoveries_open(cluster, len(taken) + len(untaken) + waiting, stuck, idle)
    metrics.recovery_partitions(cluster, [each.known().counts for each in progress])
    since = [each.awaiting_since for each in progress if each.awaiting_since and each.reason.code != OBSERVE_ONLY]
    metrics.awaiting_approval(cluster, since)
    held = [each.run.holds_back for each in taken] + [each.held for each in untaken]
    metrics.pods_held(cluster, len(frozenset[str]().union(*held)))


async def why_not_open(objects: Objects, cluster: Key, told: Reason) -> Reason:
    """A process that has just started has not opened it yet: that is no reason to call it missing."""
    if told != no_such_cluster(cluster):
        return told
    try:
        await objects.cluster(cluster)
    except (NotFound, InvalidDocument):
        return told
    return NOT_YET


async def end_in_order(runs: Mapping[asyncio.Task[None], RecoveryRun]) -> None:
    """The process ends: waves under way come to their end, all else is left as it is."""
    waves = {task for task, run in runs.items() if run.stop()}
    for task in runs.keys() - waves:
        task.cancel()  # at once: else it might begin a wave now
    if waves:
        _, late = await asyncio.wait(waves, timeout=WAVE_ENDS.total_seconds())
        for task in late:
            task.cancel()
    await asyncio.gather(*runs, return_exceptions=True)
