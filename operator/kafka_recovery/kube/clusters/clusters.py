"""Reconciling WatchedCluster objects: each is opened, watched, told about in its status, and closed when it goes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters import opening
from kafka_recovery.kube.clusters import status as cluster_status
from kafka_recovery.kube.clusters.broker_pods import broker_pods
from kafka_recovery.kube.clusters.cool_down import CoolDown
from kafka_recovery.kube.clusters.credentials import usable
from kafka_recovery.kube.clusters.desk import ClusterDesk
from kafka_recovery.kube.clusters.held import HeldClusters
from kafka_recovery.kube.clusters.kept_histories import KeptHistories
from kafka_recovery.kube.clusters.open_cluster import OpenCluster, no_such_cluster
from kafka_recovery.kube.clusters.same_kafka import SameKafka
from kafka_recovery.kube.clusters.status_writer import ClusterStatusWriter, is_of
from kafka_recovery.kube.clusters.strimzi import StrimziPending, follower, others, way_in
from kafka_recovery.kube.machinery.api import Api, ApiError, NotFound, Object
from kafka_recovery.kube.machinery.conditions import condition_of
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.machinery.logs import about
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.resources.admission import Admission
from kafka_recovery.kube.resources.kinds import CLUSTERS, WatchedCluster, read_cluster
from kafka_recovery.kube.resources.objects import Key, Objects
from kafka_recovery.kube.resources.unknown import ASKED, NONE, UnknownFields, told
from kafka_recovery.kube.resources.watched_by import Places, WatchedElsewhere
from kafka_recovery.kube.watching.last_seen import LastSeen
from kafka_recovery.kube.watching.room import NOTHING, Used
from kafka_recovery.kube.watching.watcher import Pace, Watcher, WatchView
from kafka_recovery.recovery.clock import SystemClock
from kafka_recovery.recovery.timing import Timing

_LOG = logging.getLogger(__name__)

RESYNC = timedelta(seconds=30)
"""How often Secrets are read again and the status says when the last look was."""

AGAIN = timedelta(seconds=5)
"""The same while the cluster can't be seen: a Secret may be what is mended."""


class Clusters:
    """All watched clusters of this operator. `claims`: the partitions that open recoveries of a cluster have; `used`:
    the room that those of its incidents take up.

    `changed`: told that what is wanted of a cluster changed, or whether it is open; `stirred`: that what is known of
    its Kafka did. `opened`: told of each recovery that was just created here; a watch would tell some time later.
    `last_seen`: what earlier snapshots tell of a cluster, by its id. `timing`: of the waves of its recoveries.
    `places`: which operator watches which.
    """

    def __init__(
        self,
        api: Api,
        events: Events,
        metrics: Metrics,
        pace: Pace,
        fence: Callable[[], None],
        *,
        soon: Callable[[Key, timedelta], None],
        changed: Callable[[Key], None],
        stirred: Callable[[Key], None],
        opened: Callable[[Key], None],
        claims: Callable[[Key], Mapping[TopicPartition, str]],
        used: Callable[[Key], Used] = lambda cluster: NOTHING,
        at_work: Callable[[Key], bool] = lambda cluster: False,
        is_restored: Callable[[Key], bool] = lambda recovery: False,
        last_seen: Callable[[str], LastSeen] = lambda cluster_id: LastSeen(),
        timing: Timing | None = None,
        places: Places | None = None,
    ) -> None:
        self.api = api
        self._objects = Objects(api)
        self._told = ClusterStatusWriter(api, events)
        self._metrics = metrics
        self._pace = pace
        self._fence = fence
        self._soon = soon
        self._changed = changed
        self._stirred = stirred
        self.opened = opened
        self.claims = claims
        self.used = used
        self._at_work = at_work
        self._admission = Admission(api)
        self._held = HeldClusters(api, is_restored)
        self._last_seen = last_seen
        self._timing = timing or Timing()
        self.places = places or Places()
        self._open: dict[Key, OpenCluster] = {}
        self._problems: dict[Key, Reason] = {}
        self._same = SameKafka()
        self._met: set[str] = set()
        self._cool_downs: dict[str, CoolDown] = {}
        """By Kafka's cluster id."""

    def get(self, key: Key) -> OpenCluster | Reason:
        """The open cluster, or why there is none."""
        return self._open.get(key) or self._problems.get(key) or no_such_cluster(key)

    def open(self) -> Sequence[OpenCluster]:
        """Every open one."""
        return tuple(self._open.values())

    def beat(self) -> None:
        """Tell metrics when each cluster answered last; called several times a second."""
        now = SystemClock().monotonic()
        for cluster in self._open.values():
            view = cluster.watcher.view
            if view.pulsed_at is not None:
                self._metrics.probed(cluster.label, now - view.pulsed_at)

    def tell(self, key: Key) -> None:
        """Have a cluster's recoveries look again."""
        self._changed(key)

    def soon(self, key: Key) -> None:
        """Have a cluster's status written."""
        self._soon(key, timedelta(0))

    def policy_changed(self, policy: Key) -> None:
        """Look again at the clusters that name it, and have their recoveries look again."""
        for key, cluster in self._open.items():
            if (key[0], cluster.spec.policy_name) == policy:
                self._soon(key, timedelta(0))
                self._changed(key)

    async def reconcile(self, key: Key) -> timedelta | None:
        """Make one cluster's connection, watcher and status what they should be; returns when to look again."""
        try:
            raw = await self.api.get(CLUSTERS.path(*key))
        except NotFound:
            self._has_problem(key, None)
            self._soon_all(self._same.forget(key))
            if self._is_needed(key):
                return AGAIN
            await self._close(key)
            return None
        unknown = NONE
        try:
            self.places.let_watch(key, raw)  # first: what fails after it is told in a status that has to be ours
            await self._meet(key[0])
            spec = self._read(key, raw)
            unknown = spec.unknown
            raw = raw if self.places.is_ours(raw) else await self._claimed(raw)
            cluster = await self._opened(key, spec, raw)
        except WatchedElsewhere as other:
            return await self._leave(key, raw, other.reason)
        except (*opening.NOT_OPEN, ApiError) as problem:
            reason = opening.why_not_open(problem)
            self._has_problem(key, reason)
            if not self._is_needed(key):
                await self._close(key)
                self._metrics.not_watched("/".join(key))
            altered = await self._altered(key, raw)
            old, generation = raw.get("status", {}), raw["metadata"]["generation"]
            status = cluster_status.unopened(reason, generation, old, datetime.now(UTC), altered)
            await self._write(raw, status, unknown)
            return AGAIN
        self._has_problem(key, None)
        await self._read_policy(cluster)
        altered = await self._altered(key, raw)
        old = raw.get("status", {}) if is_of(raw, spec.cluster_id) else {}
        view = cluster.watcher.view
        was_well = condition_of(old, "Ready").get("status") == "True"
        if was_well and view.scanned_at is None and view.scan_fault is None and view.isolated is None:
            await self._claimed(raw)
            return AGAIN  # the first look has not ended yet, which is no reason to take back what was told
        status = cluster_status.watched(
            view,
            cluster.policy,
            cluster.cool_down.last,
            len(set(self.claims(key).values())),
            spec.meta.generation,
            old,
            datetime.now(UTC),
            self._same.doubled(key) or cluster.damaged,
            cluster.incarnations,
            cluster.history.problem,
            altered,
            cluster.restarts,
            cluster.history.unkept,
        )
        await self._write(raw, status, unknown)
        return min(RESYNC, self.places.times.renew) if cluster.reachable() and not cluster.only_restores else AGAIN

    async def _claimed(self, raw: Object) -> Object:
        """The object, in whose status it stands that it is ours; all else stays as it was told."""
        old = raw.get("status", {})
        return await self._told.claim(raw, self.places.claiming(old, old, datetime.now(UTC)))

    async def _write(self, raw: Object, status: dict[str, Any], unknown: UnknownFields) -> None:
        now = datetime.now(UTC)
        claimed = self.places.claiming(status, raw.get("status", {}), now)
        await self._told.write(raw, told(claimed, unknown, ASKED, raw, now))

    async def _leave(self, key: Key, raw: Object, other: Reason) -> timedelta:
        """Another operator watches it: what it has begun here is left as by a crash, for that one to go on with."""
        with suppress(InvalidDocument):
            self._soon_all(self._same.met(read_cluster(raw)))
        if self._problems.get(key) != other:
            await self._told.left(raw, other)
        self._has_problem(key, other)
        await self._close(key)
        self._metrics.not_watched("/".join(key))
        return self.places.times.look

    def elsewhere(self, key: Key) -> Reason | None:
        """Why everything about a cluster is another operator's to do and to tell, if so."""
        problem = self._problems.get(key)
        return problem if problem and problem.code == Decisive.WATCHED_ELSEWHERE else None

    def _has_problem(self, key: Key, problem: Reason | None) -> None:
        """Why it can't be opened; recoveries that wait for that are told what they wait for."""
        if self._problems.get(key) == problem:
            return
        if problem is None:
            del self._problems[key]
        else:
            self._problems[key] = problem
        if key not in self._open:
            self._changed(key)

    async def _altered(self, key: Key, raw: Object) -> Reason:
        return await self._held.altered(key, raw, at_work=self._at_work(key))

    def _is_needed(self, key: Key) -> bool:
        """Whether a cluster stays open that can't be opened again: a recovery of it may have altered orders.

        They are restored by the connection that is there. Meanwhile no incident is opened, and nobody is elected.
        """
        cluster = self._open.get(key)
        if cluster is None or not self._at_work(key):
            return False
        gone = self._problems.get(key) or Reason("InvalidReference", f"WatchedCluster {key[1]} is gone")
        message = f"orders that were altered are restored, and no more is done: {gone.message}"
        cluster.policy = cluster.only_restores = Reason(gone.code, message)
        self._changed(key)
        return True

    async def stop(self) -> None:
        """The process ends."""
        for key in list(self._open):
            await self._close(key)

    def _read(self, key: Key, raw: Object) -> WatchedCluster:
        """What is wanted of a cluster. Raises InvalidDocument, CantOpen."""
        try:
            spec = read_cluster(raw)
        except InvalidDocument:
            self._soon_all(self._same.forget(key))
            raise
        self._soon_all(self._same.met(spec))
        self._same.let_act(key)
        return spec

    async def _meet(self, namespace: str) -> None:
        """Know all of a namespace before the first one is opened: which one is the oldest decides who acts."""
        if namespace in self._met:
            return
        for raw in await self.api.list_all(CLUSTERS.path(namespace)):
            with suppress(InvalidDocument):
                self._same.met(read_cluster(raw))
        self._met.add(namespace)

    def _soon_all(self, keys: Collection[Key]) -> None:
        for key in keys:
            self.soon(key)

    def _kept(self, cluster: OpenCluster, spec: WatchedCluster, raw: Object) -> OpenCluster:
        """The same connection; recoveries hear at once that something else is wanted of it, such as to go on."""
        changed = cluster.spec.meta.generation != spec.meta.generation
        cluster.spec, cluster.raw, cluster.only_restores = spec, raw, opening.why_only_restores(spec, self._same)
        if changed:
            self._changed(cluster.key)
        return cluster

    async def _opened(self, key: Key, spec: WatchedCluster, raw: Object) -> OpenCluster:
        """The cluster, open with what its spec and Secrets say now."""
        cluster = self._open.get(key)
        same = cluster is not None and cluster.spec.meta.uid == spec.meta.uid
        try:
            found = await way_in(self.api, spec)
        except StrimziPending:
            if cluster is None or not same or cluster.spec.strimzi != spec.strimzi:
                raise
            return self._kept(cluster, spec, raw)  # Strimzi forgets the addresses of a Kafka in trouble
        if cluster and same and cluster.fingerprint == found.fingerprint:
            return self._kept(cluster, spec, raw)
        await asyncio.to_thread(found.security.tls_context)  # the system's certificates take long to read: only now
        if cluster:
            _LOG.info("the spec or the credentials of %s changed: it is opened again", cluster.label)
        await self._close(key)
        namespaces = self._same.namespaces(spec.cluster_id)
        earlier = await opening.earlier_recoveries(self.api, spec, namespaces)
        untaken = opening.untaken_of(key, earlier)
        controllers = await usable(found.controllers)
        kafka = KafkaCluster(
            found.servers, found.security, spec.cluster_id, kip_1275=spec.kip_1275, controllers=controllers
        )
        desk = ClusterDesk(self, key, spec.cluster_id)
        watcher = Watcher(key[1], kafka, desk, SystemClock(), self._pace, others(self.api, spec))
        unread = Reason("NoPolicy", "not read yet")
        kept = KeptHistories(self.api, spec.meta, spec.cluster_id, self._admission.of_histories)
        history = follower(spec, kafka, kept, lambda: self._history_changed(key))
        cluster = OpenCluster(spec, raw, found.fingerprint, kafka, watcher, history, self._fence, self._metrics, unread)
        cluster.timing, cluster.last_seen = self._timing, self._last_seen(spec.cluster_id)
        cluster.pods = broker_pods(self.api, spec)
        cluster.untaken, cluster.begun = untaken, opening.begun_of(key, earlier)
        cluster.only_restores = opening.why_only_restores(spec, self._same)
        cluster.cool_down = self._cool_downs.setdefault(spec.cluster_id, CoolDown())
        if is_of(raw, spec.cluster_id):
            cluster.cool_down.remember(raw["status"])
            told = raw["status"].get("brokerStates", ())
            cluster.incarnations = {int(each["id"]): int(each["incarnation"]) for each in told}
        for each in earlier:
            watcher.leave_alone(each.left, each.name_in(key[0]))
        await asyncio.gather(cluster.look_for_orphans(self.api), self._read_policy(cluster))
        self._open[key] = cluster
        with about(cluster=cluster.label):
            cluster.task = asyncio.create_task(watcher.run(), name=f"watcher {key[0]}/{key[1]}")
            if controllers is not None:
                cluster.follow(lambda: self.soon(key))
        cluster.task.add_done_callback(lambda task: self._watcher_ended(cluster, task))
        self._changed(key)
        return cluster

    def _history_changed(self, key: Key) -> None:
        """Its recoveries look again once there is more to prove."""
        if cluster := self._open.get(key):
            self._metrics.history("/".join(key), cluster.history.problem is None)
            self._soon(key, timedelta(0))
            if cluster.history.problem is None:
                self._stirred(key)

    def _watcher_ended(self, cluster: OpenCluster, task: asyncio.Task[None]) -> None:
        """A defect of ours ended it: say so, and open the cluster anew."""
        if not task.cancelled() and task.exception():
            _LOG.error("the watcher of %s ended; it is started again", cluster.label, exc_info=task.exception())
            cluster.fingerprint = ""
            self._soon(cluster.key, timedelta(seconds=1))

    async def _close(self, key: Key) -> None:
        if cluster := self._open.pop(key, None):
            await cluster.aclose()
            self._changed(key)
        self._metrics.forget("/".join(key))

    async def _read_policy(self, cluster: OpenCluster) -> None:
        before = cluster.policy
        name = cluster.spec.policy_name
        if cluster.only_restores:
            cluster.policy = cluster.only_restores
        elif name is None:
            cluster.policy = Reason("NoPolicy", "spec.policyRef is not set: the cluster is observed only")
        else:
            try:
                cluster.policy = (await self._objects.policy((cluster.key[0], name))).policy
            except NotFound:
                cluster.policy = Reason("InvalidReference", f"there is no RecoveryPolicy {name}: observed only")
            except InvalidDocument as invalid:
                cluster.policy = Reason("InvalidSpec", f"{invalid}: observed only")
        if before != cluster.policy:
            cluster.watcher.look_again()
            self._changed(cluster.key)

    def policy(self, key: Key) -> Policy | None:
        """The rules of an open cluster, if it has good ones, and if all of its open recoveries are known."""
        cluster = self._open.get(key)
        if cluster is None or cluster.untaken or isinstance(cluster.policy, Reason):
            return None
        return cluster.policy

    def seen(self, key: Key, view: WatchView) -> None:
        """The watcher saw something else than before."""
        offline = None if view.scanned_at is None else len(view.offline)
        unclean = None if view.unclean is None else len(view.unclean.topics)
        self._metrics.watched("/".join(key), offline, view.isolated is not None, unclean)
        self._soon(key, timedelta(milliseconds=200))
        self._stirred(key)
