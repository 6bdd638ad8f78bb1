"""Many recoveries that wait, for whatever it is, ask the API server for nothing while nothing changes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import NotFound, Object
from kafka_recovery.kube.recoveries.pauses import GONE_WITHIN, LOOK, READ_A_SECOND, SHORTEST_BACKSTOP
from kafka_recovery.kube.recoveries.recoveries import NOTICED, RESYNC
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.recoveries.unchanged import Unchanged
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, POLICIES, RECOVERIES
from kafka_recovery.kube.resources.objects import Objects
from unit.kube.journal.journals import NAME, NAMESPACE
from unit.kube.office import Office
from unit.kube.our_objects import KEY, PROD

MANY = 20
NAMES = [f"waiting-{number}" for number in range(MANY)]
MISSING = Reason("InvalidReference", "Secret ca is not there")


def for_approval(office: Office) -> str:
    return "AwaitingApproval"


def suspended(office: Office) -> str:
    office.api.change(CLUSTERS, "prod", suspend=True)
    return "Suspended"


def not_open(office: Office) -> str:
    office.clusters.known[PROD] = MISSING
    return MISSING.code


def not_there(office: Office) -> str:
    office.clusters.known.clear()
    office.api.remove(CLUSTERS, "prod")
    return "InvalidReference"


def for_another_kafka(office: Office) -> str:
    office.open(spec=replace(office.open().spec, cluster_id="another"))
    return "ClusterIdMismatch"


def cooling_down(office: Office) -> str:
    office.clusters.open()[0].cool_down.elected("first")
    return "CoolingDown"


async def many_that_wait(office: Office, why: Callable[[Office], str]) -> None:
    """Each has a partition of its own, and is told why it waits."""
    ids = [TopicPartition("waiting", number) for number in range(MANY)]
    for name, id in zip(NAMES, ids, strict=True):
        office.world.offline({2: 27, 3: 15}, id)
        office.another(name, id, after=timedelta(seconds=1))
    office.api.remove(RECOVERIES, NAME)
    office.open()
    code = why(office)
    for name in NAMES:
        office.see(name)
    for name in NAMES:
        await office.until(code, name)
    await asyncio.sleep(5)


@pytest.mark.parametrize("why", [for_approval, suspended, not_open, for_another_kafka])
async def test_many_that_wait_ask_only_whether_they_are_still_there_while_nothing_changes(
    asking_office: Office, why: Callable[[Office], str]
) -> None:
    await many_that_wait(asking_office, why)
    asking_office.api.reads.clear()
    asking_office.api.writes.clear()
    await asyncio.sleep((SHORTEST_BACKSTOP - 2 * LOOK).total_seconds())

    assert asking_office.api.writes == []
    own = {RECOVERIES.path(NAMESPACE, name) for name in NAMES}
    assert [read for read in asking_office.api.reads if read not in own] == []
    assert max(Counter(asking_office.api.reads).values()) <= 10


@pytest.mark.parametrize("why", [not_open, not_there, for_another_kafka])
async def test_of_many_that_are_not_taken_up_only_the_version_is_read_while_nothing_changes(
    asking_office: Office, why: Callable[[Office], str]
) -> None:
    """Each may be a megabyte long, and take as long to be read as fifty others."""
    await many_that_wait(asking_office, why)
    await asyncio.sleep(GONE_WITHIN.total_seconds())
    asking_office.api.reads.clear()
    asking_office.api.versions_read.clear()
    await asyncio.sleep(GONE_WITHIN.total_seconds())

    assert asking_office.api.reads == []
    assert set(asking_office.api.versions_read) == {RECOVERIES.path(NAMESPACE, name) for name in NAMES}


async def test_a_status_that_another_wrote_over_one_that_is_not_taken_up_is_mended_within_minutes(
    asking_office: Office,
) -> None:
    await many_that_wait(asking_office, not_open)
    await asyncio.sleep(GONE_WITHIN.total_seconds())
    path = RECOVERIES.path(NAMESPACE, NAMES[0])
    seen = await asking_office.api.get(path)
    await asking_office.api.apply_status(path, seen, {"conditions": []})

    await asking_office.until(MISSING.code, NAMES[0], within=(GONE_WITHIN + LOOK).total_seconds())


async def test_what_is_told_while_the_version_is_read_is_looked_at(asking_office: Office) -> None:
    await many_that_wait(asking_office, not_open)
    await asyncio.sleep(GONE_WITHIN.total_seconds())
    asking_office.api.versions_read.clear()
    while not asking_office.api.versions_read:
        await asyncio.sleep(0.001)
    read = asking_office.api.versions_read[0].rpartition("/")[2]
    asking_office.api.reads.clear()
    asking_office.all.wake(lambda key, cluster: key == (NAMESPACE, read))
    await asyncio.sleep(1)

    assert RECOVERIES.path(NAMESPACE, read) in asking_office.api.reads


async def test_a_namespace_is_urgent_while_a_plan_is_carried_out_and_not_while_a_person_is_asked(
    asking_office: Office,
) -> None:
    """So other namespaces' thousands of objects wait for the one, and not for the other."""
    status = await asking_office.asks()
    assert asking_office.all.urgent() == frozenset()
    urgent = list[frozenset[str]]()
    asking_office.world.before("elect", lambda: urgent.append(asking_office.all.urgent()))
    asking_office.answer(status["plan"]["digest"])
    await asking_office.until("Recovered")

    assert urgent == [frozenset({NAMESPACE})]
    assert asking_office.all.urgent() == frozenset()


@pytest.mark.parametrize("changed", [False, True])
async def test_what_is_told_while_it_is_looked_at_wants_another_whole_look(office: Office, changed: bool) -> None:
    unchanged = Unchanged(Objects(cast(Any, office.api)), cast(Any, office.clusters))
    raw, known = office.api.recovery(), office.clusters.get(PROD)
    assert not await unchanged.holds(KEY)
    if changed:
        unchanged.forget(KEY)
    unchanged.remember(KEY, raw, PROD, known)

    assert await unchanged.holds(KEY) is not changed


async def test_of_thousands_in_one_namespace_a_few_a_second_are_asked_for_and_those_of_another_as_often_as_ever(
    office: Office,
) -> None:
    unchanged = Unchanged(Objects(cast(Any, office.api)), cast(Any, office.clusters))
    crowd = [("crowded", f"one-of-many-{number}") for number in range(10_000)]
    for key in (KEY, *crowd):
        await unchanged.holds(key)

    assert unchanged.pause(crowd[0]) >= timedelta(seconds=len(crowd) / READ_A_SECOND)
    assert unchanged.pause(KEY) <= GONE_WITHIN

    for key in crowd[1:]:
        unchanged.forget(key)
        unchanged.forget(key)
    assert unchanged.pause(crowd[0]) <= GONE_WITHIN


async def test_a_cluster_that_is_opened_while_it_is_looked_for_is_recovered_soon(
    asking_office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its first look nobody knows yet that it waits for that cluster."""
    get = asking_office.api.get

    async def opened_meanwhile(path: str, *, deadline: timedelta | None = None) -> Object:
        if path == CLUSTERS.path(*PROD) and not asking_office.clusters.known:
            asking_office.open()
            raise NotFound(404, "NotFound", "not there", path)
        return await get(path, deadline=deadline)

    monkeypatch.setattr(asking_office.api, "get", opened_meanwhile)
    asking_office.see()

    await asking_office.until("AwaitingApproval", within=20)


async def test_when_a_cool_down_is_over_one_of_many_goes_on_and_the_others_alter_no_order(
    asking_office: Office,
) -> None:
    rules = [{"name": "rule", "approval": "AutoApprove"}]
    asking_office.api.change(POLICIES, "rules", rules=rules, limits={"coolDown": "10m"})
    await many_that_wait(asking_office, cooling_down)
    asking_office.world.steps.calls.clear()
    cool_down = asking_office.clusters.open()[0].cool_down
    cool_down.last = None
    cool_down.elected_earlier(datetime.now(UTC) - timedelta(hours=2), "first")
    await asyncio.sleep(3 * LOOK.total_seconds())

    reasons = Counter(asking_office.reason(name) for name in NAMES)
    assert reasons == {"Recovered": 1, "CoolingDown": MANY - 1}
    assert asking_office.world.steps.calls.count("designate") == 1


async def test_what_a_recovery_waits_for_its_cluster_for_is_found_also_if_nobody_told(asking_office: Office) -> None:
    await many_that_wait(asking_office, not_open)
    await asyncio.sleep(GONE_WITHIN.total_seconds())
    asking_office.clusters.known[PROD] = Reason("SecretInvalid", "Secret ca has no key ca.crt")

    await asking_office.until("SecretInvalid", NAMES[0], within=(GONE_WITHIN + LOOK).total_seconds())


async def test_one_that_was_deleted_while_no_watch_was_open_is_let_go_of_within_minutes(
    asking_office: Office,
) -> None:
    """A watch that was broken off begins with a list, which does not tell what is gone."""
    await asking_office.asks()
    asking_office.api.remove(RECOVERIES, NAME)
    await asyncio.sleep((GONE_WITHIN + LOOK).total_seconds())

    assert list(asking_office.all.claims(PROD)) == []


async def test_one_that_is_aborted_without_its_cluster_ends_soon_also_if_its_journal_could_not_be_written(
    asking_office: Office,
) -> None:
    await asking_office.asks()
    await asking_office.all.stop()
    asking_office.api.objects.pop(CLUSTERS.path(*PROD))
    asking_office.api.change(RECOVERIES, NAME, abort=True)
    again = Office(asking_office.world, asking_office.api)
    refused: list[str] = []

    def refuses_twice(what: str) -> bool:
        refused.extend([what] if what.startswith(("patch", "delete")) and "recoveryrecords" in what else [])
        return what in refused[:2] and len(refused) <= 2

    again.api.refusing = refuses_twice
    again.see()
    await asyncio.sleep(30)

    assert again.status().get("outcome") == "Aborted"


async def test_a_spec_that_can_not_be_read_any_more_wakes_the_run_that_waits(asking_office: Office) -> None:
    await asking_office.asks()
    asking_office.api.change(RECOVERIES, NAME, suspend="yes")
    asking_office.see()
    await asyncio.sleep(60)

    assert asking_office.all._open[KEY].run.progress.phase is not Phase.AWAITING_APPROVAL


async def test_one_that_is_being_deleted_is_looked_at_every_minute(asking_office: Office) -> None:
    """Its deletion waits for ten minutes at most."""
    await asking_office.asks()
    recovery = asking_office.api.recovery()
    asking_office.api.put(
        RECOVERIES, NAME, recovery["spec"], deletionTimestamp="2026-11-21T12:00:00Z", finalizers=[FINALIZER]
    )

    assert await asking_office.all.reconcile(KEY) == RESYNC


async def test_of_one_that_needs_no_mending_nothing_is_looked_at_whatever_is_written_to_its_labels(
    asking_office: Office,
) -> None:
    asking_office.takes_up()
    await asking_office.until("AwaitingApproval")
    await asyncio.sleep(LOOK.total_seconds())
    asking_office.api.reads.clear()
    for _ in range(100):
        asking_office.sees_change()
    await asyncio.sleep(2 * NOTICED.total_seconds())

    assert asking_office.api.reads == []
