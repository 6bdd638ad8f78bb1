"""Taking recoveries up and letting them go: scope and claims, what holds incidents back, and what is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.kube.api import Conflict, Object
from kafka_recovery.kube.open_cluster import OpenCluster
from kafka_recovery.kube.resources import CLUSTERS, RECOVERIES
from unit.kube.journals import NAME, NAMESPACE, begin, engine, journal_of
from unit.kube.office import HOUR, RULES, Office
from unit.kube.our_objects import PROD, OurObjects, inhabited
from unit.kube.virtual import in_no_time
from unit.recovery.world import MANUAL, ORDERS, PAYMENTS, World


@pytest.fixture
def office(tmp_path: Path) -> Office:
    world = World(tmp_path)
    world.offline()
    return Office(world, inhabited())


@pytest.fixture
def by_hand(tmp_path: Path) -> Office:
    """A person approves each plan."""
    world = World(tmp_path)
    world.offline()
    return Office(world, inhabited(approval="ManualApprove"))


def all_offline(office: Office) -> None:
    office.api.change(RECOVERIES, NAME, scope={"allOffline": True})


# To the end


def test_a_recovery_is_taken_up_and_told_of_to_its_end(office: Office) -> None:
    async def tell() -> Object:
        office.open()
        office.see()
        return await office.until("Recovered")

    status = in_no_time(tell())
    assert (status["finished"], status["outcome"], status["partitions"]["recovered"]) == (True, "Recovered", 1)
    assert office.events.said[-1] == ("Normal", "Recovered")
    assert office.all.claims(PROD) == {}


def test_events_are_said_when_something_turns_and_not_again(by_hand: Office) -> None:
    async def tell() -> None:
        by_hand.open()
        by_hand.see()
        await by_hand.until("AwaitingApproval")
        for _ in range(20):
            by_hand.see()
            await asyncio.sleep(1)

    in_no_time(tell())
    assert by_hand.events.said.count(("Normal", "AwaitingApproval")) == 1


def test_a_finished_recovery_holds_nothing_though_the_answer_to_its_last_status_was_lost(by_hand: Office) -> None:
    """The write is tried again, meets its own first try, and the next look finds the object finished."""

    class Losing(OurObjects):
        async def apply_status(self, path: str, seen: Object, status: Object) -> Object:
            done = await OurObjects.apply_status(self, path, seen, status)
            if status.get("finished"):
                raise Conflict(409, "Conflict", "it has been modified", path)
            return done

    by_hand.api.__class__ = Losing

    async def tell() -> None:
        by_hand.open()
        by_hand.see()
        await by_hand.until("AwaitingApproval")
        by_hand.api.change(RECOVERIES, NAME, abort=True)
        by_hand.see()
        await by_hand.until("Aborted")
        await asyncio.sleep(1)

    in_no_time(tell())
    assert by_hand.all.claims(PROD) == {}


# What can't be taken up


def test_a_recovery_that_cannot_be_read_says_why_and_holds_nothing_back(office: Office) -> None:
    """A partition that is named twice: no schema can say that."""
    twice = [{"topic": "orders", "partition": 0}] * 2
    office.api.change(RECOVERIES, NAME, scope={"partitions": twice})

    async def tell() -> tuple[OpenCluster, int]:
        cluster = office.open(untaken={NAME: datetime.now(UTC)})
        office.see()
        await office.until("InvalidSpec")
        await asyncio.sleep(1000)
        return cluster, len(office.looks)

    cluster, looks = in_no_time(tell())
    assert (office.condition("Stalled"), cluster.untaken, looks) == (("True", "InvalidSpec"), {}, 1)
    assert "named twice" in next(each["message"] for each in office.status()["conditions"])


def test_a_missing_cluster_is_told_and_its_recovery_begins_when_it_comes(office: Office) -> None:
    raw = office.api.objects.pop(CLUSTERS.path(*PROD))

    async def tell() -> None:
        office.see()
        await office.until("WatchedClusterMissing")
        office.api.objects[CLUSTERS.path(*PROD)] = raw
        office.open()
        await office.until("Recovered", within=2)

    in_no_time(tell())


def test_a_cluster_that_is_not_open_yet_is_not_called_missing(office: Office) -> None:
    """After a restart recoveries may be looked at before their cluster is."""

    async def tell() -> int:
        office.see()
        await asyncio.sleep(1)
        told = len(office.api.statuses)
        office.open()
        await office.until("Recovered", within=2)
        return told

    assert in_no_time(tell()) == 0
    assert "WatchedClusterMissing" not in {reason for _, reason in office.events.said}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"clusterId": "another"}, "OtherCluster"), ({"clusterRef": {"name": "nowhere"}}, "WatchedClusterMissing")],
)
def test_a_recovery_for_another_cluster_is_left_alone(office: Office, fields: dict[str, Any], reason: str) -> None:
    office.api.change(RECOVERIES, NAME, **fields)

    async def tell() -> None:
        office.open()
        office.see()
        await office.until(reason)
        await asyncio.sleep(60)

    in_no_time(tell())
    assert office.world.changed() == []
    assert office.condition("Stalled")[0] == ("True" if reason == "OtherCluster" else "False")


def test_a_journal_that_was_tampered_with_stalls_it_and_holds_no_incident_back(office: Office) -> None:
    all_offline(office)

    async def tell() -> OpenCluster:
        plan = await engine(office.world, office.api).plan(Scope((ORDERS,)))
        await begin(journal_of(office.api), plan)
        for name, config_map in office.api.config_maps().items():
            if name.endswith("-plan"):
                config_map["data"]["sha256"] = "0" * 64
        cluster = office.open(untaken={NAME: datetime.now(UTC)})
        office.see()
        await office.until("JournalDamaged")
        return cluster

    cluster = in_no_time(tell())
    assert (office.condition("Stalled")[0], cluster.untaken, office.world.changed()) == ("True", {}, [])


# Scope


def test_all_offline_partitions_are_those_found_when_it_begins(by_hand: Office) -> None:
    by_hand.world.offline({3: 8, 4: 9}, PAYMENTS)
    all_offline(by_hand)

    async def tell() -> Object:
        cluster = by_hand.open(found=(ORDERS,))
        by_hand.see()
        status = await by_hand.until("AwaitingApproval")
        cluster.found = (ORDERS, PAYMENTS)
        by_hand.api.approve(status["plan"]["digest"])
        return await by_hand.until("Recovered")

    assert in_no_time(tell())["partitions"]["total"] == 1
    assert by_hand.world.leader(PAYMENTS) is None


def test_after_a_restart_they_are_those_of_the_plans(by_hand: Office) -> None:
    all_offline(by_hand)

    async def tell() -> list[TopicPartition]:
        plan = await engine(by_hand.world, by_hand.api, MANUAL).plan(Scope((ORDERS,)))
        await journal_of(by_hand.api).record(plan)
        by_hand.open(found=(PAYMENTS,))
        by_hand.see()
        await by_hand.until("AwaitingApproval")
        return list(by_hand.all.claims(PROD))

    assert in_no_time(tell()) == [ORDERS]


def test_without_a_policy_all_offline_waits_for_one_and_is_not_called_recovered(office: Office) -> None:
    all_offline(office)
    missing = Reason("RecoveryPolicyMissing", "there is no RecoveryPolicy rules")

    async def tell() -> Object:
        cluster = office.open(policy=missing, found=(ORDERS,))
        office.see()
        await office.until("RecoveryPolicyMissing")
        cluster.policy = RULES
        office.changed()
        return await office.until("Recovered", within=3)

    assert in_no_time(tell())["partitions"]["recovered"] == 1


def test_a_kafka_that_cannot_be_gone_through_is_tried_again(office: Office) -> None:
    all_offline(office)

    async def tell() -> Object:
        cluster = office.open(found=ClusterFault("nobody answers"))
        office.see()
        await office.until("ClusterFault")
        cluster.found = (ORDERS,)
        return await office.until("Recovered")

    assert in_no_time(tell())["partitions"]["recovered"] == 1


# Claims


def test_the_oldest_recovery_has_a_partition_and_the_next_one_gets_it_when_that_ended(by_hand: Office) -> None:
    by_hand.world.offline({3: 8, 4: 9}, PAYMENTS)
    by_hand.another("later", ORDERS, PAYMENTS)

    async def tell() -> Mapping[TopicPartition, str]:
        by_hand.open()
        by_hand.see("later")
        await by_hand.until("AwaitingApproval", "later")
        by_hand.see()
        await by_hand.until("AwaitingApproval")
        claims = by_hand.all.claims(PROD)
        by_hand.api.change(RECOVERIES, NAME, abort=True)
        by_hand.see()
        await by_hand.until("Aborted")
        await asyncio.sleep(1)
        assert by_hand.all.claims(PROD) == {ORDERS: "later", PAYMENTS: "later"}
        return claims

    assert in_no_time(tell()) == {ORDERS: NAME, PAYMENTS: "later"}


@pytest.mark.parametrize("after", [HOUR, timedelta(0)], ids=["an hour later", "in the same second"])
def test_a_younger_recovery_waits_until_all_older_ones_are_known(by_hand: Office, after: timedelta) -> None:
    """An older one may have altered the order of a partition that both have."""
    by_hand.another("x-later", ORDERS, after=after)
    made = datetime.fromisoformat(by_hand.api.recovery()["metadata"]["creationTimestamp"])

    async def tell() -> Mapping[TopicPartition, str]:
        by_hand.open(untaken={NAME: made, "x-later": made + after})
        by_hand.see("x-later")
        await asyncio.sleep(60)
        assert by_hand.all.claims(PROD) == {}
        by_hand.see()
        await by_hand.until("InAnotherRecovery", "x-later", within=5)
        return by_hand.all.claims(PROD)

    assert in_no_time(tell()) == {ORDERS: NAME}


def test_what_an_orphaned_journal_altered_is_not_planned_before_it_is_restored(office: Office) -> None:
    """Its present order would be taken for the original one, and kept for good."""

    async def tell() -> tuple[list[str], Object]:
        plan = await engine(office.world, office.api).plan(Scope((ORDERS,)))
        lost = journal_of(office.api, uid="of-a-lost-one")
        lost.recovery = lost._facts._recovery = lost.recovery._replace(name="a-lost-one")
        office.api.put_recovery(NAMESPACE, "a-lost-one", "of-a-lost-one")
        lost._finalizer = replace(lost._finalizer, recovery=lost.recovery)
        await begin(lost, plan)
        office.api.remove(RECOVERIES, "a-lost-one")
        cluster = office.open()
        office.see()
        await office.until("InAnotherRecovery")
        meanwhile = office.world.changed()
        for name in list(office.api.config_maps()):
            if name.startswith("a-lost-one"):
                del office.api.objects[f"/api/v1/namespaces/{NAMESPACE}/configmaps/{name}"]
        await cluster.look_for_orphans(cast(Any, office.api))
        office.changed()
        return meanwhile, await office.until("Recovered")

    meanwhile, _ = in_no_time(tell())
    assert meanwhile == []
