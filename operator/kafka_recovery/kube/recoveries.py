"""Reconciling PartitionRecovery objects: each open one has its run, and its status says what the run knows."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.domain.documents import InvalidDocument
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.kube.admission import Admission
from kafka_recovery.kube.api import Api, ApiError, Conflict, NotFound, Object
from kafka_recovery.kube.approvals import KubeApprovals
from kafka_recovery.kube.clusters import Clusters
from kafka_recovery.kube.conditions import condition, merged
from kafka_recovery.kube.config_map_journal import ConfigMapJournal
from kafka_recovery.kube.events import Events
from kafka_recovery.kube.logs import about
from kafka_recovery.kube.metrics import Metrics
from kafka_recovery.kube.objects import Key, Objects
from kafka_recovery.kube.open_cluster import OpenCluster
from kafka_recovery.kube.progress import Progress
from kafka_recovery.kube.recovery_run import RecoveryRun
from kafka_recovery.kube.recovery_status import ApprovedBy, Known, Phase, status_of, untaken
from kafka_recovery.kube.resources import (
    APPROVALS,
    FINALIZER,
    RECOVERIES,
    PartitionRecovery,
    RecoveryApproval,
    read_recovery,
)
from kafka_recovery.kube.supervision import House, KubeSupervision
from kafka_recovery.kube.work_queue import Requeue

_LOG = logging.getLogger(__name__)

RESYNC = timedelta(minutes=1)
SHOWN_EVERY = timedelta(milliseconds=200)
SHOWN_EACH = timedelta(microseconds=100)
"""Progress is written so long after it was made, plus so much for each partition: a status with all in it is work for
the API server."""
GIVE_UP_UNDOING = timedelta(minutes=10)
"""So long a deletion waits for orders to be restored, counted from when Kafka could be reached for it."""


_STUCK = frozenset({"JournalDamaged", "OtherCluster"})
"""Why a recovery can't be taken up that a person has to mend."""

_NOT_YET = Reason("ClusterNotOpenYet", "its WatchedCluster is being opened")


@dataclass
class _Open:
    """A recovery that this process works on."""

    uid: str
    generation: int
    created_at: datetime
    cluster: OpenCluster
    run: RecoveryRun
    journal: ConfigMapJournal
    task: asyncio.Task[None]
    undoing_since: datetime | None = None


class Recoveries:
    """All open recoveries of this operator. `soon(key, after)`: have a key reconciled."""

    def __init__(
        self,
        api: Api,
        clusters: Clusters,
        events: Events,
        metrics: Metrics,
        house: Callable[[], Awaitable[House]],
        soon: Callable[[Key, timedelta], None],
    ) -> None:
        self._api = api
        self._house = house
        self._admission = Admission(api)
        self._objects = Objects(api)
        self._clusters = clusters
        self._events = events
        self._metrics = metrics
        self._soon = soon
        self._open: dict[Key, _Open] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        """Runs of recoveries that are gone: they restore what they altered, and end."""
        self._untaken: dict[Key, str] = {}
        """Recoveries that can't be worked on for now, and the cluster that each is for."""

    def wake(self, matching: Callable[[Key, str], bool]) -> None:
        """Have runs look again whose (key, cluster name) match: their cluster, policy or an approval changed."""
        for key, open_ in self._open.items():
            if matching(key, open_.cluster.spec.meta.name):
                if self._is_current(open_):
                    open_.run.wake()
                else:
                    self._soon(key, timedelta(0))
        for key, name in self._untaken.items():
            if matching(key, name):
                self._soon(key, timedelta(0))

    def claims(self, cluster: Key) -> Mapping[TopicPartition, str]:
        """The partitions of a cluster that an open recovery has, and its name; the oldest one has them."""
        ours = [(open_.created_at, key, open_) for key, open_ in self._open.items() if open_.cluster.key == cluster]
        taken: dict[TopicPartition, str] = {}
        for _, key, open_ in sorted(ours, key=lambda each: each[:2], reverse=True):
            taken |= dict.fromkeys(open_.run.progress.open_partitions(open_.run.scope), key[1])
        known = self._clusters.get(cluster)
        return taken if isinstance(known, Reason) else {**known.orphans, **taken}

    async def reconcile(self, key: Key) -> timedelta | None:
        """Make one recovery's run and status what they should be; returns when to look again."""
        try:
            raw = await self._objects.raw_recovery(key)
        except NotFound:
            self._drop(key, deleted=True)
            return None
        if raw.get("status", {}).get("finished"):
            self._drop(key)
            return None
        try:
            recovery = read_recovery(raw)
        except InvalidDocument as wrong:
            self._drop(key)
            await self._write_untaken(raw, Reason("InvalidSpec", str(wrong)), stuck=True)
            return None
        await self._leave_what_is_past(key, recovery)
        if key not in self._open and (waits := await self._take_up(key, recovery)):
            self._untaken[key] = recovery.cluster_name
            if waits != _NOT_YET:  # that is over in a moment, and nothing to tell
                await self._write_untaken(raw, waits, stuck=waits.code in _STUCK)
            return timedelta(seconds=10)
        open_ = self._open[key]
        if recovery.meta.deleting_since or recovery.meta.generation != open_.generation:
            open_.generation = recovery.meta.generation
            open_.run.wake()
        await self._give_up_undoing(raw, recovery, open_)
        self._count(open_.cluster)
        if open_.run.taken_up:
            await self._write(raw, recovery, open_.run.progress.known())
            await self._tell(raw, open_.run.progress.news)
        else:
            progress = open_.run.progress
            await self._write_untaken(raw, progress.reason, stuck=progress.phase is Phase.STUCK)
        if open_.run.progress.end:
            self._drop(key)
            return None
        return RESYNC

    def _count(self, cluster: OpenCluster) -> None:
        """Tell metrics how many of a cluster's recoveries are open, and since when plans wait for a person."""
        progress = [each.run.progress for each in self._open.values() if each.cluster is cluster]
        self._metrics.recoveries_open(cluster.label, len(progress))
        since = [each.awaiting_since for each in progress if each.awaiting_since]
        self._metrics.awaiting_approval(cluster.label, since)

    async def stop(self) -> None:
        """The process ends: leave everything as it is, the next one goes on."""
        tasks = [*self._leaving, *(open_.task for open_ in self._open.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_current(self, open_: _Open) -> bool:
        """Whether its cluster is the one that is open now: a changed password, for one, makes another one of it."""
        return self._clusters.get(open_.cluster.key) is open_.cluster

    async def _leave_what_is_past(self, key: Key, recovery: PartitionRecovery) -> None:
        """End the run of an object that had this name before; leave one whose cluster was closed as a crash would."""
        open_ = self._open.get(key)
        if open_ and open_.uid != recovery.meta.uid:
            self._drop(key)
        elif open_ and not self._is_current(open_):
            del self._open[key]
            open_.task.cancel()
            await asyncio.gather(open_.task, return_exceptions=True)

    async def _take_up(self, key: Key, recovery: PartitionRecovery) -> Reason | None:
        """Start the run of a recovery; returns why that can't be, for now."""
        cluster = self._clusters.get((key[0], recovery.cluster_name))
        if isinstance(cluster, Reason):
            return await self._why_not_open((key[0], recovery.cluster_name), cluster)
        waits = await self._start(key, recovery, cluster)
        if waits is None or waits.code == "JournalDamaged":
            self._taken(cluster, key)
        if waits is None:
            self._untaken.pop(key, None)
        return waits

    def _taken(self, cluster: OpenCluster, key: Key) -> None:
        """Its partitions are known: who waited for that may begin, the oldest of those that are left."""
        first = cluster.taken(key[1])
        mine = {other for other, name in self._untaken.items() if (other[0], name) == cluster.key}
        self.wake(lambda other, name: other in mine and first in (None, other[1]))

    async def _why_not_open(self, cluster: Key, told: Reason) -> Reason:
        """A process that has just started has not opened it yet: that is no reason to call it missing."""
        if told.code != "WatchedClusterMissing":
            return told
        try:
            await self._objects.cluster(cluster)
        except (NotFound, InvalidDocument):
            return told
        return _NOT_YET

    async def _start(self, key: Key, recovery: PartitionRecovery, cluster: OpenCluster) -> Reason | None:
        if recovery.cluster_id != cluster.spec.cluster_id:
            message = f"spec.clusterId is {recovery.cluster_id}, WatchedCluster {recovery.cluster_name} is"
            return Reason("OtherCluster", f"{message} {cluster.spec.cluster_id}; delete this recovery")
        age = recovery.meta.created_at, key[1]  # as in `claims`
        if any((made, name) < age for name, made in cluster.untaken.items() if name != key[1]):
            return _NOT_YET
        journal = ConfigMapJournal(self._api, key[0], key[1], recovery.meta.uid, recovery.cluster_id)
        try:
            scope = await self._freeze(recovery, cluster, journal)
        except ClusterFault as fault:
            return fault.reason
        except InvalidDocument as damaged:
            return Reason("JournalDamaged", str(damaged))
        if isinstance(scope, Reason):
            return scope
        run = self._run(key, recovery, cluster, journal, scope)
        with about(cluster=cluster.label, recovery="/".join(key)):
            task = asyncio.create_task(run.go(), name=f"recovery {key[0]}/{key[1]}")
        meta = recovery.meta
        self._open[key] = _Open(meta.uid, meta.generation, meta.created_at, cluster, run, journal, task)
        return None

    async def _freeze(
        self, recovery: PartitionRecovery, cluster: OpenCluster, journal: ConfigMapJournal
    ) -> Sequence[TopicPartition] | Reason:
        """The partitions of a recovery: those named, else those of its plans, else what is offline under its rules."""
        if recovery.scope.partitions is not None:
            return recovery.scope.partitions
        planned = {decision.id for plan in await journal.plans() for decision in plan.decisions}
        if planned:
            return sorted(planned)
        return cluster.policy if isinstance(cluster.policy, Reason) else await cluster.offline_by_rules()

    def _run(
        self,
        key: Key,
        recovery: PartitionRecovery,
        cluster: OpenCluster,
        journal: ConfigMapJournal,
        scope: Sequence[TopicPartition],
    ) -> RecoveryRun:
        uid = recovery.meta.uid

        def electing(approved: bool) -> None:
            if not approved:
                cluster.elected_automatically(uid)
                self._clusters.soon(cluster.key)

        pause = SHOWN_EVERY + SHOWN_EACH * len(scope)
        progress = Progress(lambda: self._soon(key, pause), electing, self._metrics, cluster.label)
        supervision = KubeSupervision(
            self._objects,
            key,
            uid,
            recovery.cluster_name,
            self._house,
            cluster,
            begun=lambda: journal.begun,
            failed=progress.any_failed,
            designated=bool(recovery.designated),
        )
        approvals = KubeApprovals(
            self._objects,
            key,
            uid,
            cluster.measured,
            supervision,
            progress,
            self._admission,
            answered=self._answered,
            designated=dict(recovery.designated),
        )

        def held_elsewhere() -> Mapping[TopicPartition, str]:
            others = {id: name for id, name in self.claims(cluster.key).items() if name != key[1]}
            return {**others, **cluster.orphans}  # also what is claimed here: its order is not the original one

        approval = recovery.status.get("approval")
        return RecoveryRun(
            engine=lambda: cluster.engine(journal, approvals, supervision, progress),
            journal=journal,
            approvals=approvals,
            supervision=supervision,
            progress=progress,
            scope=scope,
            held_elsewhere=held_elsewhere,
            designated=recovery.designated,
            shown=recovery.status.get("plan", {}).get("digest"),
            approval=ApprovedBy(approval["name"], approval["uid"], approval["by"]) if approval else None,
            look_around=lambda: cluster.look_for_orphans(self._api),
        )

    async def _write(self, raw: Object, recovery: PartitionRecovery, known: Known) -> None:
        """The status of a recovery that has its run."""
        status = status_of(known, recovery.meta.generation, recovery.status, datetime.now(UTC))
        written = await self._apply(raw, status)
        if known.end and written:
            label = f"{recovery.meta.namespace}/{recovery.cluster_name}"
            self._metrics.recovery_ended(label, str(known.end), str(known.worst) if known.worst else None)

    async def _tell(self, raw: Object, news: list[Reason]) -> None:
        """Events of what came and went between two looks."""
        while news:
            why = news.pop(0)
            await self._events.say(raw, "Warning", why.code, "Approve", why.message)

    async def _write_untaken(self, raw: Object, why: Reason, *, stuck: bool) -> None:
        """The status of a recovery whose journal was not read yet: the plan that people see must not go from it."""
        meta, old = raw["metadata"], raw.get("status", {})
        await self._apply(raw, untaken(why, meta["generation"], old, datetime.now(UTC), stuck=stuck))

    async def _apply(self, raw: Object, status: dict[str, Any]) -> bool:
        """Write the status, and an event if it took a turn; False: the object is gone. Raises Requeue."""
        meta = raw["metadata"]
        try:
            await self._api.apply_status(RECOVERIES.path(meta["namespace"], meta["name"]), raw, status)
        except Conflict as lost:
            raise Requeue from lost
        except NotFound:
            return False
        turn = _turn(raw.get("status", {}), status)
        if turn:
            stalled = any(each["type"] == "Stalled" and each["status"] == "True" for each in status["conditions"])
            with about(recovery=f"{meta['namespace']}/{meta['name']}"):
                _LOG.log(logging.WARNING if stalled else logging.INFO, "%s", turn)
            await self._events.say(raw, "Warning" if stalled else "Normal", turn.code, "Recover", turn.message)
        return True

    async def _answered(self, approval: RecoveryApproval, against: Reason | None) -> bool:
        """Say to the author of an approval whether it counts; False: it could not be said."""
        path = APPROVALS.path(approval.meta.namespace, approval.meta.name)
        reason = against or Reason("Accepted", "it holds for the plan of this recovery")
        said = condition("Accepted", against is None, reason.code, reason.message, approval.meta.generation)
        try:
            seen = await self._api.get(path)
            old = seen.get("status", {}).get("conditions", [])
            await self._api.apply_status(path, seen, {"conditions": merged(old, [said], datetime.now(UTC))})
        except ApiError as error:
            _LOG.warning("approval %s can't be answered: %s", approval.meta.name, error)
            return False
        if against and against.code not in {each.get("reason") for each in old}:
            await self._events.say(seen, "Warning", against.code, "Approve", against.message)
        return True

    async def _give_up_undoing(self, raw: Object, recovery: PartitionRecovery, open_: _Open) -> None:
        """A deletion must not hang for ever: after ten minutes with a Kafka that answers, the finalizer comes off."""
        if not recovery.meta.deleting_since or FINALIZER not in recovery.meta.finalizers or open_.run.progress.end:
            return
        if not open_.cluster.reachable():
            open_.undoing_since = None
            return
        now = datetime.now(UTC)
        open_.undoing_since = open_.undoing_since or now
        if now - open_.undoing_since >= GIVE_UP_UNDOING:
            await open_.journal.let_go()
            message = (
                "its assignment orders could not be restored in ten minutes; the journal stays, and is tried again"
            )
            await self._events.say(raw, "Warning", "OrphanedJournal", "Undo", message)

    def _drop(self, key: Key, *, deleted: bool = False) -> None:
        for cluster in self._clusters.open():
            if cluster.key[0] == key[0]:
                self._taken(cluster, key)
                if deleted:
                    cluster.watcher.forget(key[1])
        self._untaken.pop(key, None)
        open_ = self._open.pop(key, None)
        if open_ is None:
            return
        self._count(open_.cluster)
        self.wake(lambda other, cluster: other[0] == key[0] and cluster == open_.cluster.spec.meta.name)
        if open_.run.progress.end is None:
            self._leaving.add(open_.task)
            open_.task.add_done_callback(self._leaving.discard)
            open_.run.wake()  # it sees that its object is gone, and restores what it altered


def _turn(old: Mapping[str, Any], new: Mapping[str, Any]) -> Reason | None:
    """What an event should say: Ready's reason, if it is another one than before."""
    before: Mapping[str, Any] = next((c for c in old.get("conditions", ()) if c.get("type") == "Ready"), {})
    after = next(each for each in new["conditions"] if each["type"] == "Ready")
    if before.get("reason") == after["reason"]:
        return None
    return Reason(after["reason"], after["message"])
