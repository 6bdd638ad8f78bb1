"""A watched cluster that is open: its connection, its watcher, and what a recovery in it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.cluster.designated import election_in
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.broker_pods import BrokerPods
from kafka_recovery.kube.clusters.cool_down import CoolDown
from kafka_recovery.kube.clusters.history import HistoryFollower
from kafka_recovery.kube.clusters.measured import MeasuredCluster, MeasuredElection
from kafka_recovery.kube.clusters.pod_witness import NO_PODS, PodWitness
from kafka_recovery.kube.journal.facts import RecordsApi
from kafka_recovery.kube.journal.finalizer import OrderFinalizer
from kafka_recovery.kube.journal.orphans import orphaned
from kafka_recovery.kube.machinery.api import Api, Object
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.resources.kinds import CLUSTERS, WatchedCluster
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.watching.incidents import unruled
from kafka_recovery.kube.watching.last_seen import LastSeen
from kafka_recovery.kube.watching.outages import Outage, outages_left, outages_seen
from kafka_recovery.kube.watching.watcher import Watcher
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.execution import Stages
from kafka_recovery.recovery.ports import Approvals, Cluster, Election, Journal, Observer
from kafka_recovery.recovery.signs_of_life import SignsOfLife
from kafka_recovery.recovery.supervision import Supervision, Unsupervised
from kafka_recovery.recovery.timing import Timing

SCAN_DEADLINE = timedelta(seconds=10)


def no_such_cluster(key: Key) -> Reason:
    """Why none is open of which this process knows nothing. Equal to no other reason: by it is decided."""
    return Reason("InvalidReference", f"there is no WatchedCluster {key[1]} in namespace {key[0]}")


@dataclass(eq=False)
class OpenCluster:
    """`raw` and `spec`: the WatchedCluster as it was read last. `fingerprint`: of what the connection was made with."""

    spec: WatchedCluster
    raw: Object
    fingerprint: str
    kafka: KafkaCluster
    watcher: Watcher
    history: HistoryFollower
    fence: Callable[[], None]
    metrics: Metrics
    policy: Policy | Reason
    task: asyncio.Task[None] | None = None
    cool_down: CoolDown = field(default_factory=CoolDown)
    incarnations: Mapping[int, int] = field(default_factory=dict)
    """How often each broker had come back when this was opened, by its id."""
    untaken: dict[str, datetime] = field(default_factory=dict)
    """Open recoveries that an earlier process knew and this one does not yet, by when they were made: until all are
    known no incident is opened, and no younger recovery is begun."""
    begun: frozenset[str] = frozenset()
    """Those of them that may have altered orders: until all of these are known no other recovery is begun."""
    last_seen: LastSeen = field(default_factory=LastSeen)
    pods: BrokerPods | None = None
    """Where its brokers run; None: nobody can know which Pods are theirs."""
    witness: PodWitness | None = None
    """Where the processes of its brokers lived; None: nobody can know it."""
    orphans: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions whose order a recovery altered that is gone, by its name: a plan would take that order for good."""
    damaged: Reason | None = None
    """Why these may be any, so that nobody is elected: what such a recovery left can't be read."""
    only_restores: Reason | None = None
    """Why nothing is begun with it, nor elected: it can't be opened again, and is kept for orders to be restored."""
    timing: Timing = field(default_factory=Timing)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _next_look: asyncio.Task[None] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.spec.meta.namespace, self.spec.meta.name

    @property
    def label(self) -> str:
        """The metrics' label."""
        return "/".join(self.key)

    @property
    def restarts(self) -> Reason | None:
        """Why it is not known in which Pods its brokers are killed and started again, if so."""
        return self.witness.problem if self.witness else NO_PODS

    @property
    def measured(self) -> Cluster:
        """The cluster as engines and approvals look at it."""
        return MeasuredCluster(
            self.kafka, self.metrics, self.label, self.last_seen, self.seen_since, self.pods, self.witness
        )

    def follow(self, changed: Callable[[], None]) -> None:
        """Read the metadata log from now on, and see where brokers run. `changed`: told when that can't be seen."""
        self.history.start(self.label)
        if self.pods:
            self.witness = PodWitness(self.kafka, self.pods, changed)
            self.witness.start(self.label)

    def finalizer(self, api: RecordsApi) -> OrderFinalizer:
        """Ours on the WatchedCluster, for a run that begins."""
        return OrderFinalizer(api, CLUSTERS, *self.key, self.spec.meta.uid)

    def isolated(self) -> Reason | None:
        """Why our own look at this cluster can't be trusted, if it can't, or its orders be taken for the original."""
        why = self.watcher.view.isolated
        return Reason("ViewUnavailable", f"{why.code}: {why.message}") if why else self.damaged

    def reachable(self) -> bool:
        """Whether the last look was good."""
        return self.watcher.view.isolated is None

    def cooling(self, recovery_uid: str, lasts: timedelta | None) -> Reason | None:
        """Why no automatic election of this recovery may follow the last one of another yet, if so."""
        return self.cool_down.why(lasts, recovery_uid)

    def goes_first(self, recovery_uid: str) -> None:
        """This recovery goes on after a cool-down; the others wait for it."""
        self.cool_down.goes_first(recovery_uid)

    def taken(self, recovery: str) -> str | None:
        """This recovery's partitions are known now, or it is none any more; returns the oldest that is left."""
        if recovery in self.untaken:
            del self.untaken[recovery]
            self.watcher.look_again()
        return min(self.untaken, key=lambda name: (self.untaken[name], name), default=None)

    def comes_after(self, recovery: str, made: datetime) -> bool:
        """Whether it has to wait until others are known: those that have begun, and then the older ones.

        One that has begun waits for nobody: its orders are restored, whatever keeps another one from being taken up.
        """
        if recovery in self.begun and self.untaken.get(recovery) == made:
            return False
        others = ((name in self.begun, (since, name)) for name, since in self.untaken.items() if name != recovery)
        return any(begun or age < (made, recovery) for begun, age in others)

    def outages(self, partitions: Collection[TopicPartition], plan: Plan | None) -> tuple[Outage, ...]:
        """Those of these partitions that are without a leader, as the watcher saw them last.

        As the plan did, if this process has seen nothing yet.
        """
        view = self.watcher.view
        seen: Iterable[Outage] = (Outage.of(each.partition) for each in view.offline)
        if view.scanned_at is None and plan is not None:
            seen = outages_seen(plan)
        return tuple(outage for outage in seen if outage.id in partitions)

    def offline_since(self, partitions: Collection[TopicPartition]) -> datetime:
        """Since when the first of these partitions is seen to be without a leader; now, if none is."""
        ids = frozenset(partitions)
        return min((at for outage, at in self.seen_since().items() if outage.id in ids), default=datetime.now(UTC))

    def seen_since(self) -> Mapping[Outage, datetime]:
        """When the watcher of this process saw each outage first: it may have begun before."""
        view, now = self.watcher.view, datetime.now(UTC)
        return {Outage.of(each.partition): now - (view.at - each.since) for each in view.offline}

    def holds_back(self, finished: Mapping[str, Any]) -> bool:
        """Whether a recovery with this status left what is offline still, or may be: it keeps others from it."""
        left = outages_left(finished)
        offline = {Outage.of(each.partition) for each in self.watcher.view.offline}
        return bool(left) and (self.watcher.view.scanned_at is None or not left.isdisjoint(offline))

    async def look_for_orphans(self, api: Api) -> None:
        """Know the partitions of runs that nobody ended, and whose recovery was removed by force.

        One look serves all who asked for it before it began: after a restart that is each recovery. Raises ApiError.
        """
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look_for_orphans(api))
        await asyncio.shield(self._next_look)

    async def _look_for_orphans(self, api: Api) -> None:
        async with self._looking:
            self._next_look = None  # who asks from now on wants a later one
            await self._find_orphans(api)

    async def _find_orphans(self, api: Api) -> None:
        namespace, _ = self.key
        found: dict[TopicPartition, str] = {}
        damaged: Reason | None = None
        for journal in await orphaned(api, namespace, self.spec.cluster_id, ()):
            try:
                altered = await journal.altered()
            except InvalidDocument as why:
                message = f"a deleted recovery may have altered any order here, so nobody is elected: {why}"
                damaged = Reason("JournalDamaged", message)
                continue
            found |= dict.fromkeys(altered, f"{journal.recovery.name} (deleted, its run has not ended yet)")
        self.orphans, self.damaged = found, damaged

    async def offline_by(self, policy: Policy) -> Sequence[TopicPartition]:
        """What is offline now and the policy wants something done about, as for an incident."""
        found = await self.kafka.scan(SCAN_DEADLINE)
        covered = (each.id for each in found.offline if unruled(each, policy, policy.rule_for(each.id.topic)) is None)
        return tuple(sorted(covered))

    def engine(
        self,
        journal: Journal,
        approvals: Approvals,
        supervision: Supervision,
        observer: Observer,
        stages: Stages,
        signs: SignsOfLife,
    ) -> Engine:
        """The engine for one recovery in this cluster."""
        return Engine(
            self.measured,
            self.election(),
            journal,
            approvals,
            supervision,
            observer=observer,
            timing=self.timing,
            stages=stages,
            apart=asyncio.to_thread,
            signs=signs,
        )

    def undoer(self, journal: Journal) -> Engine:
        """An engine that only puts back what a journal says is altered."""
        nobody, timing = _NobodyToAsk(), self.timing
        return Engine(self.kafka, self.election(), journal, nobody, Unsupervised(Policy()), timing=timing)

    async def aclose(self) -> None:
        """Stop watching and close every connection."""
        if self.task:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.history.stop()
        if self.witness:
            await self.witness.stop()
        await self.last_seen.stop()
        await self.kafka.__aexit__(None, None, None)

    def election(self) -> Election:
        """The driver of this cluster, which sends nothing once the Lease may be another's."""
        return MeasuredElection(election_in(self.kafka, permit=self._permitted), self.metrics)

    def _permitted(self) -> Reason | None:
        """Whether a change may be sent at this moment. Raises LeaseLost once the Lease may be another's."""
        self.fence()
        return None


class _NobodyToAsk:
    async def granted(self, plan: object, digest: str) -> str | None:
        return None

    async def standing(self, plan: object, digest: str) -> str | None:
        return None
