"""The recoveries of one operator's process, on a small Kafka and a small Kubernetes, with the real work queue."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

from kafka_recovery.cluster.scan import OfflinePartition
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.kube.clusters.open_cluster import OpenCluster, no_such_cluster
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.machinery.work_queue import WorkQueue
from kafka_recovery.kube.recoveries.recoveries import Recoveries
from kafka_recovery.kube.resources.admission import APPROVALS_POLICY
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES, read_cluster
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.resources.operator_switch import KnownSwitch, OperatorSwitch
from kafka_recovery.kube.resources.watched_by import Places
from kafka_recovery.kube.watching.incidents import Offline
from kafka_recovery.kube.watching.outages import Outage
from kafka_recovery.kube.watching.watcher import WatchView
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.execution import Stages
from kafka_recovery.recovery.ports import Approvals, Journal, Observer
from kafka_recovery.recovery.signs_of_life import SignsOfLife
from kafka_recovery.recovery.supervision import Authority, Supervision
from unit.kube.journal.journals import NAME, NAMESPACE
from unit.kube.our_objects import KEY, PROD, OurObjects, policy_in_force
from unit.recovery.world import COARSE, ORDERS, World
from unit.virtual import awaited

HOUR = timedelta(hours=1)
CUT = Reason("OperatorCutOff", "none of three brokers answers us")
RULES = Policy()


class Seen:
    """All of a watcher that is needed here."""

    def __init__(self) -> None:
        self.view = WatchView(timedelta(0))
        self.looks = 0
        self.forgotten: list[str] = []
        self.left_alone: dict[Outage, str] = {}

    def look_again(self) -> None:
        self.looks += 1

    def leave_alone(self, outages: Iterable[Outage], recovery: str) -> None:
        self.left_alone |= dict.fromkeys(outages, recovery)

    def sees_offline(self, *outages: Outage) -> None:
        seen = (OfflinePartition(each.id, each.topic_id, each.leader_epoch, (), (), ()) for each in outages)
        found = tuple(Offline(each, timedelta(0)) for each in seen)
        self.view = replace(self.view, offline=found, scanned_at=timedelta(0))

    def forget(self, recovery: str) -> None:
        self.forgotten.append(recovery)


@dataclass(eq=False)
class SmallCluster(OpenCluster):
    """An open cluster whose Kafka is the small one."""

    world: World | None = None
    found: Sequence[TopicPartition] | ClusterFault = ()
    scanned_in: timedelta = timedelta(0)
    scans: int = 0

    @property
    def measured(self) -> Any:
        return self.world.kafka if self.world else None

    async def offline_by(self, policy: Policy) -> Sequence[TopicPartition]:
        self.scans += 1
        await asyncio.sleep(self.scanned_in.total_seconds())
        if isinstance(self.found, ClusterFault):
            raise self.found
        return self.found

    def engine(
        self,
        journal: Journal,
        approvals: Approvals,
        supervision: Supervision,
        observer: Observer,
        stages: Stages,
        signs: SignsOfLife,
    ) -> Engine:
        assert self.world
        kafka, clock = self.world.kafka, self.world.clock
        return Engine(
            *(kafka, kafka, journal, approvals, supervision),
            clock=clock,
            observer=observer,
            timing=COARSE,
            stages=stages,
            signs=signs,
        )


class Clusters:
    """All of `clusters.Clusters` that is needed here."""

    def __init__(self) -> None:
        self.known: dict[Key, OpenCluster | Reason] = {}
        self.places = Places()

    def get(self, key: Key) -> OpenCluster | Reason:
        return self.known.get(key) or no_such_cluster(key)

    def open(self) -> list[OpenCluster]:
        return [each for each in self.known.values() if isinstance(each, OpenCluster)]

    def elsewhere(self, key: Key) -> Reason | None:
        found = self.known.get(key)
        return found if isinstance(found, Reason) and found.code == "WatchedElsewhere" else None

    def soon(self, key: Key) -> None:
        """Its status is not looked at here."""


class Told:
    """Events, as they are said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str]] = []
        self.notes: dict[str, str] = {}

    async def say(self, about: Mapping[str, Any], type: str, reason: str, action: str, note: str) -> None:
        self.said.append((type, reason))
        self.notes[reason] = note


class Office:
    """The recoveries of one operator's process, with its queue."""

    WORKERS = 4

    def __init__(self, world: World, api: OurObjects) -> None:
        self.world, self.api = world, api
        self.clusters, self.events, self.metrics = Clusters(), Told(), Metrics()
        self.switch = OperatorSwitch(Authority.AUTOMATIC)
        self.looks: list[Key] = []
        self.queue: WorkQueue[Key] = WorkQueue(self._look, owner=lambda key: key[0], workers=self.WORKERS)
        self.all = Recoveries(
            cast(Any, api),
            cast(Any, self.clusters),
            cast(Any, self.events),
            self.metrics,
            KnownSwitch(self._switch),
            self.queue.add,
        )
        self.task: asyncio.Task[None] | None = None
        policy_in_force(api, APPROVALS_POLICY)

    def open(self, **fields: Any) -> SmallCluster:
        """A WatchedCluster is opened, perhaps anew."""
        raw = self.api.objects[CLUSTERS.path(*PROD)]
        cluster = SmallCluster(
            spec=read_cluster(raw),
            raw=raw,
            fingerprint="",
            kafka=cast(Any, None),
            watcher=cast(Any, Seen()),
            history=cast(Any, None),
            fence=lambda: None,
            metrics=Metrics(),
            policy=RULES,
            world=self.world,
        )
        cluster = replace(cluster, **fields)
        self.clusters.known[PROD] = cluster
        self.changed()
        return cluster

    def changed(self) -> None:
        """As the operator is wired: a cluster that changed wakes its recoveries."""
        self.all.wake(lambda key, name: (key[0], name) == PROD)

    def see(self, name: str = NAME) -> None:
        """kopf saw the object, or that it is gone."""
        if self.task is None:
            self.task = asyncio.get_running_loop().create_task(self.queue.run())
        self.queue.add((NAMESPACE, name))

    def sees_change(self, name: str = NAME) -> None:
        """kopf saw that something of the object is another one, and not its spec."""
        self.all.seen((NAMESPACE, name))

    def takes_up(self, **fields: Any) -> SmallCluster:
        """The recovery's cluster is opened, and kopf saw the recovery."""
        cluster = self.open(**fields)
        self.see()
        return cluster

    async def asks(self) -> Object:
        """The recovery is taken up, and its plan awaits approval; returns the status that says so."""
        self.takes_up()
        return await self.until("AwaitingApproval")

    def answer(self, digest: str, **fields: Any) -> None:
        """A person answered about this plan, with a yes unless `fields` say another decision, and kopf saw it."""
        self.api.approve(digest, **fields)
        self.all.approval_seen(KEY)

    def abort(self) -> None:
        """A person aborted the recovery, and kopf saw it."""
        self.api.change(RECOVERIES, NAME, abort=True)
        self.see()

    def remove(self) -> None:
        """Somebody deleted the recovery by force, and kopf saw that it is gone."""
        self.api.remove(RECOVERIES, NAME)
        self.see()

    async def until(self, reason: str, name: str = NAME, within: float = 100) -> Object:
        """Wait until the status says so."""
        await awaited(lambda: self.reason(name) == reason, within)
        return self.status(name)

    async def another_plan(self, than: str) -> Object:
        """Wait until a person is asked about another plan than this digest's; returns the status that says so."""
        await awaited(lambda: self.status().get("plan", {}).get("digest") not in (None, than))
        return await self.until("AwaitingApproval")

    def status(self, name: str = NAME) -> Object:
        found: Object = self.api.recovery(name)["status"]
        return found

    def reason(self, name: str = NAME) -> str:
        return self.condition("Ready", name)[1]

    def message(self, name: str = NAME) -> str:
        """Of the condition Ready."""
        said = (each["message"] for each in self.status(name)["conditions"] if each["type"] == "Ready")
        return str(next(said))

    def condition(self, kind: str, name: str = NAME) -> tuple[str, str]:
        found = (each for each in self.status(name).get("conditions", ()) if each["type"] == kind)
        return next(((each["status"], each["reason"]) for each in found), ("", ""))

    def another(self, name: str, *partitions: TopicPartition, after: timedelta = HOUR, **meta: Any) -> None:
        """A later recovery in the same cluster."""
        scope = [{"topic": id.topic, "partition": id.partition} for id in partitions]
        self.api.pass_time(after)
        spec = self.api.recovery()["spec"] | {"scope": {"partitions": scope}}
        self.api.put(RECOVERIES, name, spec, **meta)

    async def _look(self, key: Key) -> timedelta | None:
        self.looks.append(key)
        return await self.all.reconcile(key)

    async def _switch(self) -> OperatorSwitch:
        return self.switch


def all_offline(office: Office) -> None:
    """The recovery is for whatever is offline."""
    office.api.change(RECOVERIES, NAME, scope={"allOffline": True})


def named_twice(office: Office) -> None:
    """The recovery names a partition twice: no schema can refuse that."""
    twice = [{"topic": ORDERS.topic, "partition": ORDERS.partition}] * 2
    office.api.change(RECOVERIES, NAME, scope={"partitions": twice})
