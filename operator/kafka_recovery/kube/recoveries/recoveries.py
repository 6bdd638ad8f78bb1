"""Reconciling PartitionRecovery objects: each open one has its run, and its status says what the run knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.clusters import Clusters
from kafka_recovery.kube.clusters.open_cluster import OpenCluster
from kafka_recovery.kube.journal.finalizer import OrderFinalizer
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import Api, NotFound, Object
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.machinery.logs import about
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.recoveries.abort import ended_unworked
from kafka_recovery.kube.recoveries.assembly import Assembly
from kafka_recovery.kube.recoveries.claims import ClaimsByCluster
from kafka_recovery.kube.recoveries.deleted import AGAIN, Deleted
from kafka_recovery.kube.recoveries.open_recovery import (
    NOT_YET,
    SOON_OVER,
    MendedBy,
    OpenRecovery,
    Untaken,
    end_in_order,
    held_by,
    tell_of,
    why_not_open,
)
from kafka_recovery.kube.recoveries.pauses import backstop
from kafka_recovery.kube.recoveries.scopes import LOOKING, Scopes
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.recoveries.status_writer import StatusWriter
from kafka_recovery.kube.recoveries.supervision import suspended_itself
from kafka_recovery.kube.recoveries.unchanged import Unchanged
from kafka_recovery.kube.recoveries.waiting import Waiting, room_of
from kafka_recovery.kube.resources.kinds import FINALIZER, PartitionRecovery, read_recovery
from kafka_recovery.kube.resources.objects import Key, SharedObjects
from kafka_recovery.kube.resources.operator_switch import KnownSwitch
from kafka_recovery.kube.watching.room import INCIDENTS, OTHERS, Room, Used

RESYNC = timedelta(minutes=1)
"""How often one is looked at that is being deleted: its deletion does not wait for ever."""
NOTICED = timedelta(seconds=1)
"""So long after a change that may have mended something it is looked at: others may write labels all the time."""
_STUCK = frozenset({Decisive.JOURNAL_DAMAGED, Decisive.CLUSTER_ID_MISMATCH})
"""Why a recovery can't be taken up that a person has to mend."""
_URGENT = frozenset({Phase.PLANNING, Phase.ELECTING, Phase.RESTORING})
"""Partitions may be without a leader for as long as this takes; in all other phases somebody else is waited for."""


class Recoveries:
    """All open recoveries of this operator. `soon(key, after)`: have a key reconciled."""

    def __init__(
        self,
        api: Api,
        clusters: Clusters,
        events: Events,
        metrics: Metrics,
        switch: KnownSwitch,
        soon: Callable[[Key, timedelta], None],
    ) -> None:
        self._api = api
        self._switch = switch
        self._objects = SharedObjects(api)
        self._clusters = clusters
        self._told = StatusWriter(api, events)
        self._deleted = Deleted(self._told)
        self._metrics = metrics
        self._soon = soon
        self._open: dict[Key, OpenRecovery] = {}
        self._claims = ClaimsByCluster(self._open)
        self._leaving: dict[asyncio.Task[None], OpenRecovery] = {}
        """Runs of recoveries that are gone: they restore what they altered, and end."""
        self._stopping = False
        self._scopes = Scopes(soon)
        self._assembly = Assembly(api, clusters, metrics, switch, self._told, self._objects, self._claims.holders, soon)
        self._untaken: dict[Key, Untaken] = {}
        self._waiting = Waiting(soon)
        self._unchanged = Unchanged(self._objects, clusters)

    def wake(self, matching: Callable[[Key, str], bool]) -> None:
        """Have runs look again whose (key, cluster name) match: their cluster, policy or an approval changed."""
        for key, open_ in self._open.items():
            if matching(key, open_.cluster.spec.meta.name):
                if self._is_current(open_):
                    open_.run.wake()
                else:
                    self._soon(key, timedelta(0))
        self._wake_untaken(matching)
        self._waiting.reopened(lambda cluster: self._clusters.get(cluster.key) is cluster)

    def stir(self, cluster: Key) -> None:
        """Have runs of a cluster look again for which it matters: its Kafka changed, or what is known of it."""
        for open_ in self._open.values():
            if open_.cluster.key == cluster:
                open_.run.stir()
        self._wake_untaken(lambda key, name: (key[0], name) == cluster)

    def _wake_untaken(self, matching: Callable[[Key, str], bool]) -> None:
        for key, untaken in self._untaken.items():
            if matching(key, untaken.cluster):
                self._unchanged.forget(key)
                self._soon(key, timedelta(0))

    def approval_seen(self, key: Key) -> None:
        """Somebody said something about a plan of this recovery; a no is heard in the middle of a wave as well."""
        self.wake(lambda other, cluster: other == key)
        if key in self._open:
            self._open[key].run.listen()

    def seen(self, key: Key) -> None:
        """Something of an object changed that is not its spec: look again if that may be what a person mended."""
        open_ = self._open.get(key)
        if open_ and open_.run.waits_to_be_mended:
            self._soon(key, NOTICED)

    def claims(self, cluster: Key) -> Mapping[TopicPartition, str]:
        """The partitions of a cluster that an open recovery has, or a deleted one left altered, and its name."""
        taken = self._claims.holders(cluster)
        known = self._clusters.get(cluster)
        return dict(taken) if isinstance(known, Reason) else {**known.orphans, **taken}

    def used(self, cluster: Key, room: Room = INCIDENTS) -> Used:
        """How much of a cluster's room is taken up: of one whose scope is being looked for nobody knows more yet."""
        claimed = self._claims.counts(cluster, room)
        looking = (each for key, each in self._untaken.items() if (key[0], each.cluster) == cluster)
        more = sum(each.why is LOOKING for each in looking) if room is OTHERS else 0
        return Used(len(claimed) + more, sum(claimed))

    def at_work(self, cluster: Key) -> bool:
        """Whether orders of this cluster may be altered by a run that is here to restore them."""
        known = (*self._open.values(), *self._leaving.values())
        return any(open_.run.is_at_work for open_ in known if open_.cluster.key == cluster)

    def urgent(self) -> frozenset[str]:
        """The namespaces of the recoveries that plan, elect or restore at this moment."""
        return frozenset(key[0] for key, open_ in self._open.items() if open_.run.progress.phase in _URGENT)

    def is_restored(self, key: Key) -> bool:
        """Whether no order of a recovery that has begun is altered, as its run here has seen itself."""
        open_ = self._open.get(key)
        return bool(open_ and open_.run.taken_up and not open_.run.is_at_work and not open_.journal.never_shown)

    async def reconcile(self, key: Key) -> timedelta | None:
        """Make one recovery's run and status what they should be; returns when to look again."""
        try:
            if await self._unchanged.holds(key):
                return self._unchanged.pause(key)
            raw = await self._objects.raw_recovery(key)
        except NotFound:
            self._drop(key, deleted=True)
            return None
        if raw.get("status", {}).get("finished"):
            self._drop(key)
            return None
        if other := self._clusters.elsewhere((key[0], raw["spec"]["clusterRef"]["name"])):
            return await self._leave_to(other, key, raw)
        try:
            recovery = read_recovery(raw)
        except InvalidDocument as wrong:
            return await self._tell_invalid(key, raw, Reason("InvalidSpec", str(wrong)))
        await self._leave_what_is_past(key, recovery)
        known = self._clusters.get((key[0], recovery.cluster_name))
        if key not in self._open and (waits := await self._take_up(key, recovery)):
            return await self._tell_why_not(key, raw, recovery, waits, known)
        open_ = self._open[key]
        open_.room = room_of(recovery)
        mended = open_.run.waits_to_be_mended and open_.mended_by != MendedBy.of(recovery)
        if mended or recovery.meta.deleting_since or recovery.meta.generation != open_.generation:
            open_.generation = recovery.meta.generation
            open_.run.wake()
        open_.mended_by = MendedBy.of(recovery)
        if not open_.run.progress.end:
            open_.undoing_since = await self._deleted.undoing(raw, open_.journal, open_.cluster, open_.undoing_since)
        self._count(open_.cluster)
        end = open_.run.progress.end  # a run may end while its status is written: that is told the next time
        await self._tell(raw, key, recovery, open_)
        if end:
            self._drop(key)
            return None
        return RESYNC if recovery.meta.deleting_since else self._unchanged.pause(key)

    async def _tell_invalid(self, key: Key, raw: Object, invalid: Reason) -> timedelta | None:
        """What is told of one that can't be read; returns when to look again."""
        if open_ := self._open.get(key):  # its own run holds: it can't read it either
            if raw["metadata"]["generation"] != open_.generation:
                open_.generation = raw["metadata"]["generation"]
                open_.run.wake()
        else:
            if key not in self._untaken or self._untaken[key].why != invalid:
                self._drop(key)  # once: it wakes others, and those this one
            self._not_taken(key, Untaken(raw["spec"]["clusterRef"]["name"], invalid, True, held_by(raw)))
        await self._told.untaken(raw, invalid, stuck=True)
        journal = RecordJournal(self._api, *key, raw["metadata"]["uid"], "")  # letting go needs no cluster
        return await self._deleted.let_go_in_time(raw, journal, invalid)

    async def _tell_why_not(
        self, key: Key, raw: Object, recovery: PartitionRecovery, waits: Reason, known: OpenCluster | Reason
    ) -> timedelta | None:
        """What is told of one that is not taken up; returns when to look again. `known`: its cluster then."""
        cluster, stuck = (key[0], recovery.cluster_name), waits.code in _STUCK
        self._not_taken(key, Untaken(recovery.cluster_name, waits, stuck, held_by(raw)))
        if waits in SOON_OVER:  # nothing to tell
            return AGAIN
        if recovery.abort and await self._ended_without_run(raw, key, recovery):
            return None
        await self._told.untaken(raw, waits, stuck=stuck)
        await self._deleted.let_go_in_time(raw, self._journal(key, recovery), waits)
        if recovery.abort or recovery.meta.deleting_since:
            return AGAIN
        if waits.code == Decisive.TOO_MANY_RECOVERIES:
            return backstop()
        is_woken = isinstance(known, Reason) or recovery.cluster_id != known.spec.cluster_id  # when that changes
        if is_woken and self._clusters.get(cluster) == known:  # during its first look nobody could wake it
            self._unchanged.remember(key, raw, cluster, known)
        elif waits.code != Decisive.JOURNAL_DAMAGED:
            return AGAIN
        return self._unchanged.pause(key)

    async def _leave_to(self, other: Reason, key: Key, raw: Object) -> timedelta:
        """Another operator looks after it: no run of ours goes on, and nothing of ours stands in its status."""
        if open_ := self._open.pop(key, None):
            await open_.leave()
            self._claims.holders(open_.cluster.key)
        cluster: str = raw["spec"]["clusterRef"]["name"]
        self._not_taken(key, Untaken(cluster, other, False, held_by(raw)))
        self._unchanged.remember(key, raw, (key[0], cluster), other)
        return self._unchanged.pause(key)

    async def _tell(self, raw: Object, key: Key, recovery: PartitionRecovery, open_: OpenRecovery) -> None:
        """Write what the run knows; what an earlier process told holds until this one knows better."""
        progress = open_.run.progress
        if progress.fresh and recovery.status.get("observedGeneration") == recovery.meta.generation:
            return
        if not open_.run.taken_up:
            at_first = suspended_itself(recovery) if progress.phase is Phase.PLANNING else None  # later: what was met
            await self._told.untaken(raw, at_first or progress.reason, stuck=progress.phase is Phase.STUCK)
            return
        known = open_.known(key[1])
        if await self._told.known(raw, recovery, known) and known.end:
            worst = str(known.worst) if known.worst else None
            took = datetime.now(UTC) - open_.offline_at
            self._metrics.recovery_ended(open_.cluster.label, str(known.end), worst, took)
        await self._told.news(raw, progress.news)

    def _not_taken(self, key: Key, untaken: Untaken) -> None:
        if untaken.why.code == Decisive.TOO_MANY_RECOVERIES:
            self._untaken.pop(key, None)
        else:
            self._untaken[key] = untaken
            self._waiting.forget(key)
        cluster = self._clusters.get((key[0], untaken.cluster))
        if not isinstance(cluster, Reason):
            self._count(cluster)

    async def _ended_without_run(self, raw: Object, key: Key, recovery: PartitionRecovery) -> bool:
        """End an aborted recovery that nobody can work on; False: that can't be, for now."""
        left = await ended_unworked(raw, recovery, self._journal(key, recovery), self._objects, self._told)
        if left is None:
            return False
        cluster = self._clusters.get((key[0], recovery.cluster_name))
        if not isinstance(cluster, Reason):
            cluster.watcher.leave_alone(left, key[1])
            worst, took = recovery.status.get("plan", {}).get("lossClass"), datetime.now(UTC) - recovery.meta.created_at
            self._metrics.recovery_ended(cluster.label, str(End.ABORTED), worst, took)
        self._drop(key)
        return True

    def _count(self, cluster: OpenCluster) -> None:
        """Tell metrics how many recoveries of a cluster are open, and since when plans wait for an approval.

        What changes these numbers may have made room.
        """
        self._waiting.may_enter(cluster.key, lambda room: self.used(cluster.key, room))
        open_ = [each for each in self._open.values() if each.cluster is cluster]
        untaken = [each for key, each in self._untaken.items() if (key[0], each.cluster) == cluster.key]
        tell_of(self._metrics, cluster.label, open_, untaken, self._waiting.count(cluster.key))

    async def stop(self) -> None:
        """The process ends: waves under way come to their end, all else is left as it is, and the next one goes on."""
        self._stopping = True
        runs = {open_.task: open_.run for open_ in (*self._leaving.values(), *self._open.values())}
        await end_in_order(runs)
        await self._scopes.stop()

    def _is_current(self, open_: OpenRecovery) -> bool:
        """Whether its cluster is the one that is open now: a changed password, for one, makes another one of it."""
        return self._clusters.get(open_.cluster.key) is open_.cluster

    async def _leave_what_is_past(self, key: Key, recovery: PartitionRecovery) -> None:
        """End the run of an object that had this name before; leave one whose cluster was closed as a crash would."""
        open_ = self._open.get(key)
        if open_ and open_.uid != recovery.meta.uid:
            self._drop(key)
        elif open_ and not self._is_current(open_):
            del self._open[key]
            await open_.leave()

    async def _take_up(self, key: Key, recovery: PartitionRecovery) -> Reason | None:
        """Start the run of a recovery; returns why that can't be, for now."""
        if self._stopping:
            return NOT_YET
        cluster = self._clusters.get((key[0], recovery.cluster_name))
        if isinstance(cluster, Reason):
            return await why_not_open(self._objects, (key[0], recovery.cluster_name), cluster)
        if cluster.only_restores and FINALIZER not in recovery.meta.finalizers:
            return cluster.only_restores
        waits = await self._start(key, recovery, cluster)
        if waits is None or waits.code in (Decisive.JOURNAL_DAMAGED, Decisive.TOO_MANY_RECOVERIES):
            self._taken(cluster, key)
        if waits is None:
            before, waited = self._untaken.pop(key, None), self._waiting.forget(key)
            if waited or (before and before.why not in SOON_OVER):
                self._open[key].run.progress.fresh = False  # what was told meanwhile is over
        return waits

    def _taken(self, cluster: OpenCluster, key: Key) -> None:
        """Its partitions are known: who waited for that may begin, the oldest of those that are left."""
        first = cluster.taken(key[1])
        mine = {other for other, each in self._untaken.items() if (other[0], each.cluster) == cluster.key}
        self.wake(lambda other, name: other in mine and first in (None, other[1]))

    async def _start(self, key: Key, recovery: PartitionRecovery, cluster: OpenCluster) -> Reason | None:
        if recovery.cluster_id != cluster.spec.cluster_id:
            message = f"spec.clusterId is {recovery.cluster_id}, WatchedCluster {recovery.cluster_name} is"
            return Reason(Decisive.CLUSTER_ID_MISMATCH, f"{message} {cluster.spec.cluster_id}; delete this recovery")
        if cluster.comes_after(key[1], recovery.meta.created_at) and not cluster.only_restores:
            return NOT_YET
        journal = self._journal(key, recovery, cluster.finalizer(self._api))
        try:
            scope = await self._scope(key, recovery, cluster, journal)
        except ClusterFault as fault:
            return fault.reason
        except InvalidDocument as damaged:
            return Reason(Decisive.JOURNAL_DAMAGED, str(damaged))
        if isinstance(scope, Reason):
            return scope
        run = self._assembly.run(key, recovery, cluster, journal, scope)
        with about(cluster=cluster.label, recovery="/".join(key)):
            task = asyncio.create_task(run.go(), name=f"recovery {key[0]}/{key[1]}")
        self._open[key] = OpenRecovery.of(recovery, cluster, cluster.offline_since(scope), run, journal, task)
        return None

    async def _scope(
        self, key: Key, recovery: PartitionRecovery, cluster: OpenCluster, journal: RecordJournal
    ) -> Sequence[TopicPartition] | Reason:
        """Its partitions, if there is room for them; nothing is gone through for one that has none anyway."""
        looking = (known := self._untaken.get(key)) is not None and known.why is LOOKING
        used = partial(self.used, cluster.key)
        if not looking and (full := await self._waiting.full(key, recovery, cluster, journal, 0, used)):
            return full
        scope = await self._scopes.of(key, recovery, cluster, journal)
        if isinstance(scope, Reason):
            return scope
        if looking:
            self._untaken.pop(key, None)  # it is no other one that it has to make room for
        return await self._waiting.full(key, recovery, cluster, journal, len(scope), used) or scope

    def _journal(self, key: Key, recovery: PartitionRecovery, cluster: OrderFinalizer | None = None) -> RecordJournal:
        return RecordJournal(self._api, key[0], key[1], recovery.meta.uid, recovery.cluster_id, cluster)

    def _drop(self, key: Key, *, deleted: bool = False) -> None:
        for cluster in self._clusters.open():
            if cluster.key[0] == key[0]:
                self._taken(cluster, key)
                if deleted:
                    cluster.watcher.forget(key[1])
        untaken, waited = self._untaken.pop(key, None), self._waiting.forget(key)
        self._unchanged.forget(key)
        self._scopes.forget(key)
        open_ = self._open.pop(key, None)
        of = open_.cluster.key if open_ else (key[0], untaken.cluster) if untaken else waited
        if of:
            self._clusters.soon(of)  # it may have been held for this one alone
        if open_ is None:
            left = self._clusters.get(of) if of else None
            if isinstance(left, OpenCluster):
                self._count(left)
            return
        self._claims.holders(open_.cluster.key)  # nobody may ask again, and the index would keep the run
        self._count(open_.cluster)
        open_.cluster.watcher.look_again()  # an incident may have waited for room
        self.wake(lambda other, cluster: other[0] == key[0] and cluster == open_.cluster.spec.meta.name)
        if open_.run.progress.end is None:
            self._leaving[open_.task] = open_
            open_.task.add_done_callback(self._leaving.pop)
            open_.run.wake()  # it sees that its object is gone, and restores what it altered
