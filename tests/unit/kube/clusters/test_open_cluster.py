"""What is known of a watched cluster beside what its watcher sees: orphans, untaken recoveries, cooling down."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from kafka_recovery.cluster.sockets import Address
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import ALL_OFFLINE, Scope
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.kube.clusters import open_cluster
from kafka_recovery.kube.clusters.history import HistoryFollower
from kafka_recovery.kube.clusters.kept_histories import KeptHistories
from kafka_recovery.kube.clusters.open_cluster import OpenCluster
from kafka_recovery.kube.machinery.api import Api
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.process.lease import LeaseLost
from kafka_recovery.kube.resources.kinds import Meta, WatchedCluster
from kafka_recovery.kube.watching.watcher import WatchView
from kafka_recovery.recovery import engine as recovery_engine
from kafka_recovery.recovery.execution import Stages
from kafka_recovery.recovery.ports import Silent
from kafka_recovery.recovery.signs_of_life import SignsOfLife
from kafka_recovery.recovery.supervision import Unsupervised
from unit.cluster.play import Play, offline, request
from unit.kube.clusters.damage import copy_a_record_of_nobody
from unit.kube.journal.journals import NAMESPACE, RECOVERY, begin, engine, journal_of
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import AUTO, ORDERS, World

NOW = datetime.now(UTC)


class Watcher:
    """Counts how often it was told to look again."""

    looks = 0

    def look_again(self) -> None:
        self.looks += 1


@pytest.fixture
def cluster() -> OpenCluster:
    meta = Meta(NAMESPACE, "prod", "a-uid", 1, "1", NOW)
    spec = WatchedCluster(meta, CLUSTER, (Address("kafka", 9092),))
    kafka, watcher = Mock(), cast(Any, Watcher())
    history = HistoryFollower(kafka, KeptHistories(KubernetesInMemory(), meta, "abc", Mock()), lambda: None)
    return OpenCluster(spec, {}, "", kafka, watcher, history, lambda: None, Metrics(), Policy())


@pytest.fixture
async def plan(tmp_path: Path, api: KubernetesInMemory) -> Plan:
    world = World(tmp_path)
    world.offline()
    return await engine(world, api).plan(Scope((ORDERS,)))


async def test_partitions_of_a_recovery_that_was_removed_by_force_are_nobody_elses(
    cluster: OpenCluster, api: KubernetesInMemory, plan: Plan
) -> None:
    await begin(journal_of(api), plan)
    del api.objects[RECOVERY]

    await cluster.look_for_orphans(cast(Api, api))

    assert set(cluster.orphans) == {ORDERS}
    assert "deleted" in cluster.orphans[ORDERS]


async def test_one_look_for_orphans_serves_all_who_asked_before_it_began(
    cluster: OpenCluster, api: KubernetesInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    async def found(*_: object) -> list[Any]:
        looks.append("began")
        await asyncio.sleep(0.01)
        looks.append("ended")
        return []

    monkeypatch.setattr(open_cluster, "orphaned", found)
    await asyncio.gather(*[cluster.look_for_orphans(cast(Api, api)) for _ in range(50)])
    assert looks == ["began", "ended"]

    first = asyncio.create_task(cluster.look_for_orphans(cast(Api, api)))
    while looks[2:] != ["began"]:
        await asyncio.sleep(0)
    await cluster.look_for_orphans(cast(Api, api))
    assert looks[2:] == ["began", "ended", "began", "ended"], "what happened since that one began must not be missed"
    await first


async def test_while_a_lost_recovery_may_have_altered_any_order_nobody_is_elected(
    cluster: OpenCluster, api: KubernetesInMemory, plan: Plan
) -> None:
    cast(Any, cluster.watcher).view = WatchView(timedelta(0))
    await begin(journal_of(api), plan)
    del api.objects[RECOVERY]
    copy = copy_a_record_of_nobody(api)

    await cluster.look_for_orphans(cast(Api, api))

    why = cluster.isolated()
    assert why is not None
    assert (why.code, "deleted recovery" in why.message and "RecoveryRecord a-copy" in why.message) == (
        "JournalDamaged",
        True,
    )
    assert set(cluster.orphans) == {ORDERS}, "of what can be read it is known"

    del api.objects[copy]
    await cluster.look_for_orphans(cast(Api, api))
    assert cluster.isolated() is None


def test_when_the_last_recovery_of_an_earlier_process_is_known_the_watcher_looks_again(cluster: OpenCluster) -> None:
    cluster.untaken = {"one": NOW, "two": NOW}

    cluster.taken("one")
    cluster.taken("one")
    cluster.taken("another")

    assert cluster.untaken == {"two": NOW}
    assert cast(Any, cluster.watcher).looks == 1


def test_what_has_begun_is_taken_up_first_and_then_the_oldest(cluster: OpenCluster) -> None:
    later = NOW + timedelta(hours=1)
    cluster.untaken, cluster.begun = {"old": NOW, "young": later, "begun": later}, frozenset({"begun"})
    at_first = [name for name, made in cluster.untaken.items() if not cluster.comes_after(name, made)]
    another = cluster.comes_after("begun", later + timedelta(hours=1))
    cluster.taken("begun")
    then = [name for name, made in cluster.untaken.items() if not cluster.comes_after(name, made)]

    assert (at_first, then) == (["begun"], ["old"])
    assert another, "it has the name of one that has begun, and is made since"


@pytest.mark.parametrize("change", ["designate", "elect", "restore"])
async def test_nothing_is_sent_to_kafka_once_the_lease_may_be_another_s(change: str, cluster: OpenCluster) -> None:
    """Also if that is so only since the connection for the request is open."""

    def closed() -> None:
        raise LeaseLost("another one may hold it")

    play = Play()
    play.add(offline(replicas=(3, 1, 2)))
    async with play.staged(2), play.cluster() as kafka:
        cluster.kafka, cluster.fence = kafka, closed
        election = cluster.election()
        with pytest.raises(LeaseLost):
            await getattr(election, change)([request()])

    assert not play.asked("ElectLeaders") + play.asked("AlterPartitionReassignments")


async def test_while_leaders_of_very_many_partitions_are_chosen_the_loop_serves_probes_and_the_lease(
    cluster: OpenCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.offline()
    chosen_in: list[threading.Thread] = []

    def watched(*seen: Any, **how: Any) -> Plan:
        chosen_in.append(threading.current_thread())
        return decide(*seen, **how)

    monkeypatch.setattr(recovery_engine, "decide", watched)
    monkeypatch.setattr(OpenCluster, "measured", world.kafka)
    owners = Unsupervised(AUTO)

    made = await cluster.engine(Mock(), Mock(), owners, Silent(), Stages(), SignsOfLife()).plan(ALL_OFFLINE)

    assert made.elections.keys() == {ORDERS}
    assert chosen_in
    assert threading.main_thread() not in chosen_in
