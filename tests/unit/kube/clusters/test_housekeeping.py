"""What nobody asks for: old recoveries go, orders of lost ones come back, and no trouble ends the process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.housekeeping import EVERY, FIRST, Housekeeping, to_prune
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.resources.admission import RECORDS_POLICY
from kafka_recovery.kube.resources.fields import History
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES, read_cluster
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.resources.operator_switch import OperatorSwitch as HouseRules
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.ports import Journal, JournalUnwritable, PlanForAnotherCluster
from kafka_recovery.recovery.supervision import Authority
from unit.kube.clusters.damage import copy_a_record_of_nobody
from unit.kube.journal.journals import NAME, NAMESPACE, engine
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.our_objects import KEY, POLICIES_OF_ADMISSION, PROD, inhabited, policy_in_force
from unit.recovery.world import COARSE, ORDERS, World, crash, dies_in
from unit.virtual import in_no_time, taking_no_time

DAY = timedelta(days=1)
HISTORY = History(limit=3)


def ended(name: str, ago: timedelta | None, loss: str | None = None, failed: int = 0) -> Object:
    """A finished recovery; `ago` None: its status says no time."""
    status: Object = {"finished": True, "partitions": {"failed": failed}}
    if ago is not None:
        status["finishedAt"] = f"{NOON - ago:%Y-%m-%dT%H:%M:%SZ}"
    if loss:
        status["plan"] = {"lossClass": loss}
    created = f"{NOON - 30 * DAY:%Y-%m-%dT%H:%M:%SZ}"
    return {"metadata": {"name": name, "uid": name, "creationTimestamp": created}, "status": status}


@pytest.mark.parametrize(
    ("finished", "pruned"),
    [
        ([], []),
        ([ended("young", DAY)], []),
        ([ended("just in time", 7 * DAY)], []),
        ([ended("old", 7 * DAY + timedelta(seconds=1))], ["old"]),
        ([ended("lossless", 8 * DAY, "Lossless")], ["lossless"]),
        ([ended("bounded", 8 * DAY, "Bounded")], []),
        ([ended("unknown", 8 * DAY, "Unknown")], []),
        ([ended("failed and never said its class", 8 * DAY, failed=1)], []),
        ([ended("unknown and old", 91 * DAY, "Unknown")], ["unknown and old"]),
        ([ended("never said when", None)], ["never said when"]),
        ([ended(f"n{n}", n * timedelta(hours=1)) for n in range(5)], ["n3", "n4"]),
        ([ended("lossy", 3 * DAY, "Unknown"), *(ended(f"n{n}", DAY) for n in range(3))], ["lossy"]),
    ],
)
def test_which_recoveries_go(finished: list[Object], pruned: list[str]) -> None:
    assert [each["metadata"]["name"] for each in to_prune(finished, HISTORY, NOON)] == pruned


# The rounds


class Small:
    """A watched cluster, as far as chores need it."""

    def __init__(self, world: World, raw: Object) -> None:
        self.world = world
        self.raw, self.spec, self.key, self.label = raw, read_cluster(raw), PROD, "/".join(PROD)
        self.looks = 0
        self.orphans: dict[TopicPartition, str] = {}
        self.damaged: Reason | None = None
        self.watcher = self
        self.forgotten: list[str] = []
        self.trouble: Exception | None = None

    def holding_back(self) -> frozenset[str]:
        return frozenset({NAME, "deleted", f"{NAMESPACE}/{NAME}", f"elsewhere/{NAME}"})

    def forget(self, recovery: str) -> None:
        self.forgotten.append(recovery)

    def holds_back(self, status: Object) -> bool:
        return "leftOffline" in status

    def undoer(self, journal: Journal) -> Engine:
        if self.trouble:
            raise self.trouble
        kafka, clock = self.world.kafka, self.world.clock
        return Engine(kafka, kafka, journal, cast(Any, None), Policy(), clock=clock, timing=COARSE)

    async def look_for_orphans(self, api: Any) -> None:
        self.looks += 1
        self.orphans = {}


class OperatorSwitch:
    """Housekeeping for one cluster; what it says and whom it tells."""

    def __init__(self, world: World) -> None:
        self.api = inhabited()
        self.cluster = Small(world, self.api.objects[CLUSTERS.path(*PROD)])
        self.said: list[str] = []
        self.told: list[Key] = []
        clusters = SimpleNamespace(open=lambda: [self.cluster], tell=self.told.append, soon=self.told.append)
        self.switch = HouseRules(Authority.AUTOMATIC)
        self.notes: list[str] = []
        self.chores = Housekeeping(cast(Any, self.api), cast(Any, clusters), cast(Any, self), self.rules)
        policy_in_force(self.api, RECORDS_POLICY)

    async def rules(self) -> HouseRules:
        return self.switch

    async def say(self, about: Object, type: str, reason: str, action: str, note: str) -> None:
        self.said.append(reason)
        self.notes.append(note)

    async def for_a_while(self, rounds: float) -> bool:
        """Whether it still goes on after so many rounds."""
        task = asyncio.get_running_loop().create_task(self.chores.run())
        await asyncio.wait([task], timeout=(FIRST + rounds * EVERY).total_seconds())
        return not task.done()

    async def orphan(self) -> None:
        """A recovery died with an altered order, and was removed by force."""
        self.cluster.world.after("designate", crash)
        await dies_in(engine(self.cluster.world, self.api).recover(Scope((ORDERS,))))
        self.cluster.world.steps.dead = False
        self.cluster.world.calm_down()
        self.api.remove(RECOVERIES, NAME)


@pytest.fixture
def switch(tmp_path: Path) -> OperatorSwitch:
    world = World(tmp_path)
    world.offline()
    return OperatorSwitch(world)


@taking_no_time
async def test_orders_of_a_recovery_that_was_removed_by_force_come_back(switch: OperatorSwitch) -> None:
    await switch.orphan()
    assert switch.cluster.world.unrestored() == [ORDERS]
    await switch.for_a_while(0.5)

    assert switch.cluster.world.unrestored() == []
    assert (switch.said, switch.cluster.world.leader(), switch.cluster.looks) == (["OrphanedJournal"], None, 1)


def suspended(switch: OperatorSwitch) -> None:
    switch.switch = HouseRules(Authority.AUTOMATIC, Reason("Suspended", "ConfigMap kafka/operator says suspend: true"))


def observing(switch: OperatorSwitch) -> None:
    switch.switch = HouseRules(Authority.OBSERVE)


def cluster_suspended(switch: OperatorSwitch) -> None:
    switch.cluster.spec = replace(switch.cluster.spec, suspend=True)


def cluster_observed(switch: OperatorSwitch) -> None:
    switch.cluster.spec = replace(switch.cluster.spec, authority=Authority.OBSERVE)


def without_the_policy(switch: OperatorSwitch) -> None:
    for plural in POLICIES_OF_ADMISSION:
        switch.api.objects.pop(f"/apis/admissionregistration.k8s.io/v1/{plural}/{RECORDS_POLICY}", None)


def with_a_policy_that_came_later(switch: OperatorSwitch) -> None:
    policy_in_force(switch.api, RECORDS_POLICY, "2026-11-21T12:00:01Z")


@pytest.mark.parametrize(
    ("hold", "why"),
    [
        (suspended, "Suspended"),
        (observing, "ObserveOnly"),
        (cluster_suspended, "Suspended"),
        (cluster_observed, "ObserveOnly"),
        (without_the_policy, "AdmissionPolicyMissing"),
        (with_a_policy_that_came_later, "PredatesAdmissionPolicy"),
    ],
)
@taking_no_time
async def test_an_orphan_that_the_operator_may_not_act_on_or_believe_is_left_to_a_person(
    switch: OperatorSwitch, hold: Callable[[OperatorSwitch], None], why: str
) -> None:
    hold(switch)

    await switch.orphan()
    await switch.for_a_while(3)

    assert switch.cluster.world.unrestored() == [ORDERS], "no order is touched"
    assert switch.said == ["OrphanedJournal"], "said once"
    assert f"({why}: " in switch.notes[0]
    assert "kafka-recovery undo --records" in switch.notes[0]


@taking_no_time
async def test_an_orphan_is_restored_once_the_operator_may(switch: OperatorSwitch) -> None:
    suspended(switch)

    await switch.orphan()
    going = asyncio.get_running_loop().create_task(switch.for_a_while(4))
    await asyncio.sleep(90)
    assert switch.cluster.world.unrestored() == [ORDERS]
    switch.switch = HouseRules(Authority.APPROVE)
    await going

    assert switch.cluster.world.unrestored() == []


@taking_no_time
async def test_a_run_whose_recovery_is_there_is_left_to_it(switch: OperatorSwitch) -> None:
    recovery = switch.api.recovery()
    await switch.orphan()
    switch.api.objects[RECOVERIES.path(*KEY)] = recovery
    await switch.for_a_while(3)

    assert (switch.cluster.world.unrestored(), switch.said) == ([ORDERS], [])


@taking_no_time
async def test_a_damaged_orphan_keeps_no_other_from_being_restored_and_is_told_of_once(switch: OperatorSwitch) -> None:
    await switch.orphan()
    copy_a_record_of_nobody(switch.api)
    await switch.for_a_while(5)

    assert switch.cluster.world.unrestored() == []
    assert switch.said == ["OrphanedJournal"] * 2, "one that it is restored, one of the damage"


def test_an_orphan_that_somebody_else_ended_holds_its_partitions_no_longer(switch: OperatorSwitch) -> None:
    """Its own run restored it after all, or a person deleted its records: nothing of it is found any more."""
    switch.cluster.orphans = {ORDERS: "a lost one"}

    in_no_time(switch.for_a_while(2.5))

    assert (switch.cluster.orphans, switch.told) == ({}, [PROD, PROD])
    assert switch.cluster.looks == 1, "nor is it looked for again"


@pytest.mark.parametrize(
    "trouble",
    [
        JournalUnwritable("exceeded quota"),
        PlanForAnotherCluster("abc", "def"),
        ClusterFault("nobody answers"),
        InvalidDocument("it was tampered with"),
        ApiError(500, "InternalError", "etcd"),
        ZeroDivisionError(),
    ],
    ids=lambda trouble: type(trouble).__name__,
)
@taking_no_time
async def test_no_trouble_ends_the_process_and_it_is_tried_again(switch: OperatorSwitch, trouble: Exception) -> None:
    await switch.orphan()
    switch.cluster.trouble = trouble
    going = asyncio.get_running_loop().create_task(switch.for_a_while(5))
    await asyncio.sleep(30)
    switch.cluster.trouble = None

    assert await going
    assert switch.cluster.world.unrestored() == []


def test_a_time_that_nobody_can_read_ends_nothing_either(switch: OperatorSwitch) -> None:
    switch.api.put(RECOVERIES, "odd", switch.api.recovery()["spec"], {"finished": True, "finishedAt": "yesterday"})

    assert in_no_time(switch.for_a_while(2))


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        (lambda recovery: None, False),
        (lambda recovery: recovery["status"].update(finished=False), True),
        (lambda recovery: recovery["status"].update(leftOffline=[{}]), True),
        (lambda recovery: recovery["spec"].update(clusterRef={"name": "another"}), True),
        (lambda recovery: recovery["status"].update(finishedAt=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"), True),
    ],
    ids=["finished long ago", "open", "what it left is offline still", "of another cluster", "finished just now"],
)
def test_only_what_finished_long_ago_in_this_cluster_is_deleted(
    switch: OperatorSwitch, change: Callable[[Object], object], kept: bool
) -> None:
    status = {"finished": True, "finishedAt": "2020-01-01T00:00:00Z"}
    change(switch.api.put(RECOVERIES, "old", switch.api.recovery()["spec"], status))

    in_no_time(switch.for_a_while(0.5))

    assert (RECOVERIES.path(NAMESPACE, "old") in switch.api.objects) == kept
    assert RECOVERIES.path(*KEY) in switch.api.objects


def test_a_finished_recovery_that_somebody_deleted_holds_nothing_back_any_more(switch: OperatorSwitch) -> None:
    just_now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    status = {"finished": True, "finishedAt": just_now, "outcome": "Aborted"}
    switch.api.put(RECOVERIES, NAME, switch.api.recovery()["spec"], status)

    in_no_time(switch.for_a_while(0.5))

    assert set(switch.cluster.forgotten) == {"deleted", f"elsewhere/{NAME}"}, "each is looked up where it is"


@taking_no_time
async def test_a_cluster_whose_orphans_take_long_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, quick = SimpleNamespace(label="kafka/slow"), SimpleNamespace(label="kafka/quick")
    cared_for: list[object] = []

    async def restore(keeper: Housekeeping, cluster: object) -> None:
        if cluster is slow:
            await asyncio.sleep(50)
        cared_for.append(cluster)

    monkeypatch.setattr(Housekeeping, "_restore_orphans", restore)
    monkeypatch.setattr(Housekeeping, "_prune", restore)
    clusters = cast(Any, SimpleNamespace(open=lambda: [slow, quick]))
    with suppress(TimeoutError):
        async with asyncio.timeout(FIRST.total_seconds() + 1):
            await Housekeeping(cast(Any, None), clusters, cast(Any, None), cast(Any, None)).run()

    assert set(map(id, cared_for)) == {id(quick)}
