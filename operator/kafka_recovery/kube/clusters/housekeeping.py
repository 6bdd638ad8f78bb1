"""What nobody asks for and everybody expects: old recoveries go, orders that a lost one left altered are restored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.reason import ClusterFault
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.clusters import Clusters
from kafka_recovery.kube.clusters.open_cluster import OpenCluster
from kafka_recovery.kube.journal.orphans import OrphanedJournal, orphaned, prune
from kafka_recovery.kube.machinery.api import Api, ApiError, NotFound, Object
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.resources.admission import Admission
from kafka_recovery.kube.resources.fields import History
from kafka_recovery.kube.resources.kinds import RECOVERIES, strictest
from kafka_recovery.kube.resources.labels import RECOVERY_UID_LABEL
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.resources.operator_switch import OperatorSwitch
from kafka_recovery.recovery.ports import JournalUnwritable, PlanForAnotherCluster
from kafka_recovery.recovery.supervision import Authority

_LOG = logging.getLogger(__name__)

FIRST = timedelta(seconds=5)
EVERY = timedelta(minutes=1)
PRUNING = 10
"""Rounds between two prunings: all finished recoveries are listed for one."""

_OF_ONE = (InvalidDocument, JournalUnwritable, PlanForAnotherCluster)
_TROUBLE = (ApiError, ClusterFault, *_OF_ONE)


class Housekeeping:
    """Runs beside the reconciling, and never hurries."""

    def __init__(
        self, api: Api, clusters: Clusters, events: Events, switch: Callable[[], Awaitable[OperatorSwitch]]
    ) -> None:
        self._api = api
        self._switch = switch
        self._admission = Admission(api)
        self._clusters = clusters
        self._events = events
        self._damage: dict[Key, set[str]] = {}
        """What is wrong with orphans, as it was told last."""

    async def run(self) -> None:
        """For ever; a failure is told and tried again."""
        for number in count():
            await asyncio.sleep((EVERY if number else FIRST).total_seconds())
            chores = (self._restore_orphans,) if number % PRUNING else (self._restore_orphans, self._prune)
            # Side by side: one whose wave may still be under way is waited for a minute.
            await asyncio.gather(*(self._keep(cluster, chores) for cluster in self._clusters.open()))

    async def _keep(self, cluster: OpenCluster, chores: Sequence[Callable[[OpenCluster], Awaitable[None]]]) -> None:
        for chore in chores:
            what = getattr(chore, "__name__", "chore").strip("_")
            try:
                await chore(cluster)
            except _TROUBLE as trouble:
                _LOG.warning("%s of %s: %s", what, cluster.label, trouble)
            except Exception:  # noqa: BLE001 - a defect in a chore must not end the process
                _LOG.exception("%s of %s met an internal error", what, cluster.label)

    async def _restore_orphans(self, cluster: OpenCluster) -> None:
        """End runs whose PartitionRecovery was removed by force: put back the orders that are still theirs.

        Nobody's status names their plans any more, so it is asked who can have written them, and whether the operator
        may act here at all.
        """
        namespace, _ = cluster.key
        known = cluster.orphans, cluster.damaged
        found = await orphaned(self._api, namespace, cluster.spec.cluster_id, ())  # few: it asks for each
        damage: set[str] = set()
        for journal in found:
            try:
                if why := await self._held(cluster, journal):
                    damage.add(_to_do(journal, why))
                else:
                    await self._end(cluster, journal)
            except _OF_ONE as trouble:  # the others are ended all the same
                damage.add(f"{trouble}")
        await self._tell_anew(cluster, damage)
        if found or any(known):  # what was known may be over by now: its own run ended it, or a person deleted it
            await cluster.look_for_orphans(self._api)
        if (cluster.orphans, cluster.damaged) != known:
            self._clusters.soon(cluster.key)
            self._clusters.tell(cluster.key)

    async def _held(self, cluster: OpenCluster, journal: OrphanedJournal) -> str | None:
        """Why a person restores what this journal tells of, and not the operator."""
        switch = await self._switch()
        if strictest(switch.authority, cluster.spec.authority) is Authority.OBSERVE:
            return "ObserveOnly: authority is Observe, of the operator or of the WatchedCluster"
        if cluster.spec.suspend:
            return f"Suspended: spec.suspend of WatchedCluster {cluster.key[1]} is true"
        if switch.suspended:
            return str(switch.suspended)
        oldest = await journal.oldest()
        why = await self._admission.of_journal(oldest) if oldest else None
        return str(why) if why else None

    async def _end(self, cluster: OpenCluster, journal: OrphanedJournal) -> None:
        report = await cluster.undoer(journal).undo()
        left = [outcome.id for outcome in report.outcomes if not outcome.order_restored]
        message = f"the journal of a deleted recovery had {len(report.outcomes)} partitions; "
        message += f"{len(left)} could not be restored yet" if left else "their assignment orders are the original ones"
        if held := [done.id for done in report.outcomes if done.order_restored and not done.is_settled]:
            message += f"; of {len(held)} with their original order nobody knows yet whether an election takes effect"
        _LOG.warning(message)
        await self._events.say(cluster.raw, "Warning", "OrphanedJournal", "Undo", message)

    async def _tell_anew(self, cluster: OpenCluster, damage: set[str]) -> None:
        """What keeps orphans from being ended: once, not every minute."""
        for trouble in sorted(damage - self._damage.get(cluster.key, set())):
            message = f"what a deleted recovery altered can't be restored: {trouble}"
            _LOG.warning("%s: %s", cluster.label, message)
            await self._events.say(cluster.raw, "Warning", "OrphanedJournal", "Undo", message)
        self._damage[cluster.key] = damage

    async def _prune(self, cluster: OpenCluster) -> None:
        """Delete finished recoveries of a cluster that are too old, or too many; not those that are still of use."""
        namespace, name = cluster.key
        params = {"fieldSelector": "status.finished=true"}
        finished = await self._api.list_kept(RECOVERIES.path(namespace), without_scope, params=params)
        ours = [each for each in finished if each["spec"]["clusterRef"]["name"] == name]
        for each in to_prune(ours, cluster.spec.history, datetime.now(UTC)):
            if cluster.holds_back(each["status"]):
                continue
            await self._api.delete(RECOVERIES.path(namespace, each["metadata"]["name"]), uid=each["metadata"]["uid"])
        await self._forget_deleted(cluster)
        living = {each["metadata"]["uid"] for each in finished}
        before = datetime.now(UTC) - cluster.spec.history.lossy_ttl
        await prune(self._api, namespace, cluster.spec.cluster_id, living, before)

    async def _forget_deleted(self, cluster: OpenCluster) -> None:
        """A finished recovery that somebody deletes is seen by no watch; what it left may be opened again."""
        for name in cluster.watcher.holding_back():
            elsewhere, _, plain = name.rpartition("/")  # see `Earlier.name_in`
            try:
                await self._api.get(RECOVERIES.path(elsewhere or cluster.key[0], plain))
            except NotFound:
                cluster.watcher.forget(name)


def _to_do(journal: OrphanedJournal, why: str) -> str:
    return (
        f"the operator leaves PartitionRecovery {journal.recovery.name} (deleted) to you ({why}): "
        f"kafka-recovery undo --records restores what its RecoveryRecords name, -l "
        f"{RECOVERY_UID_LABEL}={journal.recovery.uid}. Read them before; delete only what the operator did not write: "
        "they may be all that tells of the original assignment orders. The operator looks again every minute"
    )


def without_scope(recovery: Object) -> Object:
    """All that counts of one that has ended."""
    return {**recovery, "spec": {**recovery["spec"], "scope": {}}}


def to_prune(finished: Sequence[Object], history: History, now: datetime) -> list[Object]:
    """Those beyond the limit, the oldest first, and those past their time, which is longer for what may have lost."""
    ended = sorted(((_ended_at(each), each) for each in finished), key=lambda pair: pair[0], reverse=True)
    return [
        each
        for place, (at, each) in enumerate(ended)
        if place >= history.limit or now - at > (history.lossy_ttl if _lossy(each) else history.ttl)
    ]


def _ended_at(recovery: Object) -> datetime:
    status: dict[str, Any] = recovery.get("status", {})
    return datetime.fromisoformat(status.get("finishedAt") or recovery["metadata"]["creationTimestamp"])


def _lossy(recovery: Object) -> bool:
    """Whether a leader was elected that may lack acknowledged records; what failed and tells no class may."""
    status: dict[str, Any] = recovery.get("status", {})
    failed = status.get("partitions", {}).get("failed", 0)
    untold = LossClass.UNKNOWN if failed else LossClass.LOSSLESS
    return bool(status.get("plan", {}).get("lossClass", untold) != LossClass.LOSSLESS)
