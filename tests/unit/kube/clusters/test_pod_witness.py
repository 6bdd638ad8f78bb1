"""The operator looks where brokers run for as long as a cluster is open, and says what keeps it from seeing that."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, cast

import pytest

from kafka_recovery.cluster.errors import ClusterUnavailable
from kafka_recovery.cluster.metadata_log.unfenced import Alive
from kafka_recovery.domain.ids import BrokerEpoch, BrokerId, MetadataOffset
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters import status as cluster_status
from kafka_recovery.kube.clusters.broker_pods import BrokerPods
from kafka_recovery.kube.clusters.history import NO_CONTROLLERS
from kafka_recovery.kube.clusters.pod_witness import LOOKING, NO_PODS, PodWitness
from kafka_recovery.kube.clusters.residences import Home, Residence
from kafka_recovery.kube.machinery.api import Api
from kafka_recovery.kube.watching.watcher import WatchView
from unit.kube.clusters.strimzi import Object
from unit.kube.clusters.test_broker_pods import Kubernetes
from unit.kube.clusters.test_pod_homes import RUNNING, its_claim, lodged

B = BrokerId(1)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Clock:
    """Time passes by sleeping alone."""

    def __init__(self) -> None:
        self.at = timedelta(0)

    def now(self) -> datetime:
        return NOON + self.at

    def monotonic(self) -> timedelta:
        return self.at

    async def sleep(self, duration: timedelta) -> None:
        self.at += duration


@dataclass
class Kafka:
    """A controller that writes on; broker 1 is alive under this registration. `fails`: what it says instead.

    `controllers`: whether any are known.
    """

    epoch: int = 50
    offsets: Iterator[int] = field(default_factory=lambda: count(1000))
    fails: Reason | Exception | None = None
    controllers: bool = True

    async def unfenced(self, within: timedelta, deadline: timedelta) -> Alive | Reason | None:
        if isinstance(self.fails, Exception):
            raise self.fails
        if not self.controllers:
            return None
        alive = Alive(MetadataOffset(next(self.offsets)), 1, {B: BrokerEpoch(self.epoch)})
        return self.fails or alive


def node(clock: Clock) -> Object:
    """Its kubelet writes every minute."""
    written = f"{NOON + timedelta(minutes=clock.at // timedelta(minutes=1)):%Y-%m-%dT%H:%M:%SZ}"
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": written}
    return {
        "kind": "Node",
        "metadata": {"name": "n2", "labels": {}},
        "status": {"conditions": [ready], "nodeInfo": {"bootID": "monday"}},
    }


class Cluster:
    """One that is looked at."""

    def __init__(self, *refused: str) -> None:
        self.clock, self.kafka = Clock(), Kafka()
        self.kubernetes = Kubernetes(node(self.clock), lodged(), its_claim(), refuses=refused)
        pods = BrokerPods(cast(Api, self.kubernetes), "kafka", "prod")
        self.witness = PodWitness(self.kafka, pods, lambda: None, clock=self.clock)

    def looks(self, times: int) -> Reason | None:
        """So many, half a minute apart; what the last one said."""

        async def look() -> Reason | None:
            said: Reason | None = None
            for _ in range(times):
                self.kubernetes.objects["nodes/n2"] = node(self.clock)
                said = await self.witness.look()
                await self.clock.sleep(self.witness.pause)
            return said

        return asyncio.run(look())

    @property
    def known(self) -> Mapping[Any, Residence]:
        return self.witness.residences.known.get(B, {})


def test_a_restart_in_the_same_pod_is_seen() -> None:
    cluster = Cluster()
    assert cluster.looks(13) is None

    again = RUNNING | {"containerID": "containerd://c2", "restartCount": 1}
    cluster.kubernetes.objects["pods/prod-brokers-1"] = lodged(again)
    cluster.kafka.epoch = 90
    cluster.looks(13)

    assert cluster.known == dict.fromkeys((50, 90), Residence("pvc-1", "monday in Pod pod-1"))


def test_without_the_right_to_nodes_it_says_so_and_nothing_is_known() -> None:
    cluster = Cluster("/nodes/")

    why = cluster.looks(13)

    assert why
    assert (why.code, "manifests/rbac/optional/nodes.yaml" in why.message) == ("ObjectsUnreadable", True)
    assert cluster.known == {}


def test_without_the_right_to_claims_no_broker_is_at_home() -> None:
    cluster = Cluster("/persistentvolumeclaims")

    assert cluster.looks(13) is None
    assert cluster.known == {}


def test_what_took_long_to_be_read_was_read_when_the_look_began() -> None:
    cluster = Cluster()
    cluster.looks(10)

    class Slow:
        async def homes(self) -> Mapping[BrokerId, Home] | Reason:
            found = await pods.homes()
            await cluster.clock.sleep(timedelta(minutes=1))
            return found

    pods, cluster.witness.pods = cluster.witness.pods, Slow()
    cluster.looks(1)
    assert cluster.known == {}
    cluster.looks(1)
    assert list(cluster.known) == [50]


@pytest.mark.parametrize(
    ("fails", "code"),
    [
        (Reason("MetadataLogUnavailable", "nobody told it"), "MetadataLogUnavailable"),
        (ClusterUnavailable({}), ClusterUnavailable.code),
        (RuntimeError("a defect"), "InternalError"),
        (None, NO_CONTROLLERS.code),
    ],
)
def test_a_log_that_can_t_be_read_interrupts_what_is_seen(fails: Reason | Exception | None, code: str) -> None:
    cluster = Cluster()
    cluster.looks(8)
    cluster.kafka.fails, cluster.kafka.controllers = fails, fails is not None
    why = cluster.looks(1)
    cluster.kafka.fails, cluster.kafka.controllers = None, True
    cluster.looks(8)

    assert (why and why.code) == code
    assert cluster.known == {}


async def test_it_looks_until_it_is_stopped_and_tells_each_other_problem() -> None:
    cluster, told = Cluster("/nodes/"), asyncio.Event()
    witness = cluster.witness
    witness.changed = told.set
    assert witness.problem is LOOKING

    witness.start("kafka/prod")
    await asyncio.wait_for(told.wait(), 10)
    await witness.stop()

    assert (witness.problem.code, "nodes can't be read" in witness.problem.message) == ("ObjectsUnreadable", True)


async def test_it_tells_that_it_sees_again() -> None:
    cluster, told = Cluster(), asyncio.Event()
    witness = cluster.witness
    witness.problem, witness.changed = NO_PODS, told.set

    witness.start("kafka/prod")
    await asyncio.wait_for(told.wait(), 10)
    await witness.stop()

    assert witness.problem is None


def history_known(restarts: Reason | None) -> str:
    status = cluster_status.watched(
        WatchView(at=timedelta(0)), Policy(), None, 0, 1, {}, NOON, history=None, restarts=restarts
    )
    [said] = [each for each in status["conditions"] if each["type"] == "HistoryKnown"]
    assert said["status"] == "True"
    return str(said["message"])


def test_the_condition_of_the_history_says_whether_restarts_are_seen() -> None:
    assert "is intact if it was seen to start again in its Pod, on the same boot" in history_known(None)
    assert "(NotConfigured: nothing says which Pods its brokers run in)" in history_known(NO_PODS)


def test_a_home_is_compared_without_when_its_kubelet_wrote() -> None:
    one = Home("pod-1", "c1", "pvc-1", "monday", "12:00")
    assert one.residence == Residence("pvc-1", "monday in Pod pod-1")
