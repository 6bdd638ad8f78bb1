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
from kafka_recovery.kube.recovery_status import Known, status_of, untaken
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


@dataclass
class _Open:
    """A recovery that this process works on."""

    uid: str
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

    def wake(self, matching: Callable[[Key, str], bool]) -> None:
        """Have runs look again whose (key, cluster name) match: their cluster, policy or an approval changed."""
        for key, open_ in self._open.items():
            if matching(key, open_.cluster.spec.meta.name):
                open_.run.wake()

    def claims(self, cluster: Key) -> Mapping[TopicPartition, str]:
        """The partitions of a cluster that an open recovery has, and its name; the oldest one has them."""
        ours = [(open_.created_at, key, open_) for key, open_ in self._open.items() if open_.cluster.key == cluster]
        taken: dict[TopicPartition, str] = {}
        for _, key, open_ in sorted(ours, key=lambda each: each[:2], reverse=True):
            taken |= dict.fromkeys(open_.run.progress.open_partitions(open_.run.scope), key[1])
        return taken

    async def reconcile(self, key: Key) -> timedelta | None:
        """Make one recovery's run and status what they should be; returns when to look again."""
        try:
            raw = await self._objects.raw_recovery(key)
        except NotFound:
            self._drop(key, deleted=True)
            return None
        recovery = read_recovery(raw)
        open_ = self._open.get(key)
        if open_ and open_.uid != recovery.meta.uid:
            self._drop(key)
            open_ = None
        if raw.get("status", {}).get("finished"):
            return None
        if open_ is None:
            waits = await self._take_up(key, recovery)
            cluster = self._clusters.get((key[0], recovery.cluster_name))
            if isinstance(cluster, OpenCluster) and (waits is None or waits.code == "JournalDamaged"):
                cluster.taken(key[1])
            if waits:
                now = datetime.now(UTC)
                await self._apply(raw, recovery, untaken(waits, recovery.meta.generation, recovery.status, now))
                return timedelta(seconds=10)
            open_ = self._open[key]
        elif recovery.meta.deleting_since or recovery.abort:
            open_.run.wake()
        await self._give_up_undoing(raw, recovery, open_)
        await self._write(raw, recovery, open_.run.progress.known())
        if open_.run.progress.end:
            self._drop(key)
            return None
        return RESYNC

    async def stop(self) -> None:
        """The process ends: leave everything as it is, the next one goes on."""
        tasks = [open_.task for open_ in self._open.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _take_up(self, key: Key, recovery: PartitionRecovery) -> Reason | None:
        """Start the run of a recovery; returns why that can't be, for now."""
        cluster = self._clusters.get((key[0], recovery.cluster_name))
        if isinstance(cluster, Reason):
            return cluster
        if recovery.cluster_id != cluster.spec.cluster_id:
            message = f"spec.clusterId is {recovery.cluster_id}, WatchedCluster {recovery.cluster_name} is"
            return Reason("OtherCluster", f"{message} {cluster.spec.cluster_id}; delete this recovery")
        journal = ConfigMapJournal(self._api, key[0], key[1], recovery.meta.uid, recovery.cluster_id)
        try:
            scope = await self._freeze(recovery, cluster, journal)
        except ClusterFault as fault:
            return fault.reason
        except InvalidDocument as damaged:
            return Reason("JournalDamaged", str(damaged))
        run = self._run(key, recovery, cluster, journal, scope)
        with about(cluster=cluster.label, recovery="/".join(key)):
            task = asyncio.create_task(run.go(), name=f"recovery {key[0]}/{key[1]}")
        self._open[key] = _Open(recovery.meta.uid, recovery.meta.created_at, cluster, run, journal, task)
        return None

    async def _freeze(
        self, recovery: PartitionRecovery, cluster: OpenCluster, journal: ConfigMapJournal
    ) -> Sequence[TopicPartition]:
        """The partitions of a recovery: those named, else those of its plans, else all that is offline."""
        if recovery.scope.partitions is not None:
            return recovery.scope.partitions
        planned = {decision.id for plan in await journal.plans() for decision in plan.decisions}
        return sorted(planned) if planned else await cluster.offline_by_rules()

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
        progress = Progress(changed=lambda: self._soon(key, pause), electing=electing)
        supervision = KubeSupervision(
            self._objects,
            key,
            uid,
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
            cluster.kafka,
            supervision,
            progress,
            self._admission,
            answered=self._answered,
            designated=dict(recovery.designated),
        )

        def held_elsewhere() -> Mapping[TopicPartition, str]:
            return {id: name for id, name in self.claims(cluster.key).items() if name != key[1]}

        shown = recovery.status.get("plan", {}).get("digest")
        return RecoveryRun(
            engine=lambda: cluster.engine(journal, approvals, supervision, progress),
            journal=journal,
            approvals=approvals,
            supervision=supervision,
            progress=progress,
            scope=scope,
            held_elsewhere=held_elsewhere,
            designated=recovery.designated,
            shown=shown,
        )

    async def _write(self, raw: Object, recovery: PartitionRecovery, known: Known) -> None:
        """The status of a recovery that has its run."""
        status = status_of(known, recovery.meta.generation, recovery.status, datetime.now(UTC))
        written = await self._apply(raw, recovery, status)
        if known.end and written:
            self._metrics.recovery_ended(
                f"{recovery.meta.namespace}/{recovery.cluster_name}", str(known.end), _loss_class(known)
            )

    async def _apply(self, raw: Object, recovery: PartitionRecovery, status: dict[str, Any]) -> bool:
        """Write the status, and an event if it took a turn; False: the object is gone. Raises Requeue."""
        path = RECOVERIES.path(recovery.meta.namespace, recovery.meta.name)
        try:
            await self._api.apply_status(path, raw, status)
        except Conflict as lost:
            raise Requeue from lost
        except NotFound:
            return False
        turn = _turn(recovery.status, status)
        if turn:
            stalled = any(each["type"] == "Stalled" and each["status"] == "True" for each in status["conditions"])
            await self._events.say(raw, "Warning" if stalled else "Normal", turn.code, "Recover", turn.message)
        return True

    async def _answered(self, approval: RecoveryApproval, against: Reason | None) -> None:
        """Say to the author of an approval whether it counts, once."""
        path = APPROVALS.path(approval.meta.namespace, approval.meta.name)
        reason = against or Reason("Accepted", "it holds for the plan of this recovery")
        said = condition("Accepted", against is None, reason.code, reason.message, approval.meta.generation)
        try:
            seen = await self._api.get(path)
            old = seen.get("status", {}).get("conditions", [])
            await self._api.apply_status(path, seen, {"conditions": merged(old, [said], datetime.now(UTC))})
        except ApiError as error:
            _LOG.warning("approval %s can't be answered: %s", approval.meta.name, error)
            return
        if against and against.code not in {each.get("reason") for each in old}:
            await self._events.say(seen, "Warning", against.code, "Approve", against.message)

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
                cluster.taken(key[1])
                if deleted:
                    cluster.watcher.forget(key[1])
        open_ = self._open.pop(key, None)
        if open_ is None:
            return
        self.wake(lambda other, cluster: other[0] == key[0] and cluster == open_.cluster.spec.meta.name)
        if open_.run.progress.end is None:
            open_.run.wake()  # it sees that its object is gone, and restores what it altered


def _turn(old: Mapping[str, Any], new: Mapping[str, Any]) -> Reason | None:
    """What an event should say: Ready's reason, if it is another one than before."""
    before: Mapping[str, Any] = next((c for c in old.get("conditions", ()) if c.get("type") == "Ready"), {})
    after = next(each for each in new["conditions"] if each["type"] == "Ready")
    if before.get("reason") == after["reason"]:
        return None
    return Reason(after["reason"], after["message"])


def _loss_class(known: Known) -> str:
    return str(known.plan.worst) if known.plan else "None"
