"""Somebody opens more recoveries than there may be: the operator's own, and what was begun, are not held up."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.metrics import labelled
from kafka_recovery.kube.recoveries import recoveries, waiting
from kafka_recovery.kube.resources.kinds import FINALIZER, FROM_INCIDENT, RECOVERIES
from kafka_recovery.kube.watching.room import INCIDENTS, NO_ROOM, OTHERS, Room, Used
from unit.kube.journal.journals import NAME, begin, engine, journal_of
from unit.kube.office import Office, all_offline
from unit.kube.our_objects import PROD
from unit.recovery.world import ORDERS, PAYMENTS, World

SECOND = timedelta(seconds=1)
OURS = {FROM_INCIDENT: True}
FEW = Room(OTHERS.whose, 7, 300)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not take a hundred to show it."""
    for module in (recoveries, waiting):
        monkeypatch.setattr(module, "OTHERS", FEW)


def many(first: int, number: int) -> list[TopicPartition]:
    """Partitions that nobody else names."""
    return [TopicPartition("invented", first + each) for each in range(number)]


async def held(office: Office, number: int = FEW.recoveries) -> list[str]:
    """Somebody opens so many recoveries that do not end."""
    names = [f"flood-{each:03}" for each in range(number)]
    for each, name in enumerate(names):
        office.another(name, *many(each, 1), after=SECOND)
        office.api.change(RECOVERIES, name, suspend=True)
        office.see(name)
    for name in names:
        await office.until("Suspended" if name in names[: FEW.recoveries] else NO_ROOM, name)
    return names


def shown_open(office: Office) -> float | None:
    return office.metrics.registry.get_sample_value("kafka_recovery_open_recoveries", labelled("/".join(PROD)))


# What is refused


async def test_one_recovery_too_many_has_no_partition_and_says_what_to_do(office: Office) -> None:
    office.open()
    await held(office)
    office.another("late", ORDERS)
    office.see("late")
    status = await office.until(NO_ROOM, "late")

    assert ORDERS not in office.all.claims(PROD)
    assert office.condition("Stalled", "late")[0] == "False"
    assert "abort or delete those that nobody needs" in status["conditions"][0]["message"]
    assert office.world.changed() == []


async def test_what_waits_for_room_begins_at_once_when_there_is_some_the_oldest_first(office: Office) -> None:
    office.open()
    (first, *_) = await held(office)
    for name in ("late", "later"):
        office.another(name, ORDERS)
    for name in ("later", "late"):
        office.see(name)
        await office.until(NO_ROOM, name)
    office.api.change(RECOVERIES, first, abort=True)
    office.see(first)

    await office.until("Recovered", "late", within=2)
    await office.until("Recovered", "later", within=2)


async def test_what_waits_for_room_asks_next_to_nothing_meanwhile(office: Office) -> None:
    cluster = office.open()
    names = await held(office, FEW.recoveries + 20)
    office.looks.clear()
    for _ in range(5):
        await asyncio.sleep(10)
        office.all.stir(cluster.key)
        office.changed()

    assert [name for _, name in office.looks if name in names[-20:]] == []


async def test_those_that_do_not_fit_hold_up_none_that_does(office: Office) -> None:
    office.open()
    office.another("large", *many(0, FEW.partitions - 10), after=SECOND)
    office.api.change(RECOVERIES, "large", suspend=True)
    office.another("larger", *many(50_000, 11), after=SECOND)
    office.another("small", ORDERS, after=SECOND)
    for name in ("large", "larger", "small"):
        office.see(name)
    status = await office.until(NO_ROOM, "larger")

    assert "it has 11 partitions" in status["conditions"][0]["message"]
    await office.until("Recovered", "small")
    assert office.reason("larger") == NO_ROOM


async def test_partitions_that_have_their_end_make_room(office: Office) -> None:
    office.world.offline({3: 8, 4: 9}, PAYMENTS)
    office.open()
    office.another("large", *many(0, FEW.partitions - 1), after=SECOND)
    office.api.change(RECOVERIES, "large", suspend=True)
    office.another("waits", ORDERS, PAYMENTS, after=SECOND)
    for name in ("large", "waits"):
        office.see(name)
    await office.until(NO_ROOM, "waits")
    office.api.change(RECOVERIES, "large", suspend=False)
    office.see("large")

    await office.until("Recovered", "waits", within=5)


async def test_one_that_is_alone_has_room_however_much_is_offline(office: Office) -> None:
    all_offline(office)
    office.takes_up(found=[ORDERS, *many(0, FEW.partitions)])

    await office.until("Recovered")


async def test_what_waits_for_room_is_ended_by_its_abort(office: Office) -> None:
    office.open()
    await held(office)
    office.another("late", ORDERS)
    office.see("late")
    await office.until(NO_ROOM, "late")
    office.api.change(RECOVERIES, "late", abort=True)
    office.see("late")

    assert (await office.until("Aborted", "late"))["finished"]


async def test_what_waits_for_room_in_a_cluster_that_closes_waits_for_the_cluster_and_then_for_room(
    office: Office,
) -> None:
    office.open()
    names = [*await held(office), "late"]
    office.another("late", ORDERS)
    office.see("late")
    await office.until(NO_ROOM, "late")
    office.clusters.known[PROD] = Reason("InvalidReference", "Secret ca is not there")
    office.changed()
    await office.until("InvalidReference", "late")
    made = {name: office.api.recovery(name)["metadata"]["creationTimestamp"] for name in names}
    office.open(untaken={name: datetime.fromisoformat(at) for name, at in made.items()})

    await office.until(NO_ROOM, "late")
    assert office.all.used(PROD, FEW).recoveries == FEW.recoveries


async def test_what_is_deleted_while_it_waits_for_room_is_forgotten(office: Office) -> None:
    office.open()
    await held(office)
    office.another("late", ORDERS)
    office.see("late")
    await office.until(NO_ROOM, "late")
    before = shown_open(office)
    office.api.remove(RECOVERIES, "late")
    office.see("late")
    await asyncio.sleep(1)

    assert (before, shown_open(office)) == (FEW.recoveries + 1, FEW.recoveries)


async def test_a_flood_of_recoveries_for_all_that_is_offline_has_kafka_gone_through_so_often_and_no_more(
    office: Office,
) -> None:
    cluster = office.open(found=(ORDERS,), scanned_in=timedelta(seconds=50))
    names = [f"flood-{each:03}" for each in range(FEW.recoveries + 30)]
    for name in names:
        office.another(name, after=SECOND)
        office.api.change(RECOVERIES, name, scope={"allOffline": True}, suspend=True)
        office.see(name)
    await asyncio.sleep(10)
    scans = cluster.scans

    assert scans <= FEW.recoveries + office.WORKERS
    await office.until("Suspended", names[0])
    assert office.all.used(PROD, FEW).recoveries == FEW.recoveries


# What is not


async def test_the_operators_own_recoveries_have_room_however_many_others_open(office: Office) -> None:
    office.open()
    await held(office)
    office.api.put(RECOVERIES, NAME, office.api.recovery()["spec"], OURS)
    office.see()

    assert (await office.until("Recovered"))[FROM_INCIDENT] is True


async def test_no_label_or_name_makes_a_recovery_the_operators_own(office: Office) -> None:
    office.open()
    await held(office)
    office.api.put(
        RECOVERIES,
        NAME,
        office.api.recovery()["spec"],
        labels={"app.kubernetes.io/managed-by": "kafka-recovery-operator"},
    )
    office.see()

    await office.until(NO_ROOM)


async def test_a_recovery_turns_out_to_be_the_operators_own_when_its_status_says_so(office: Office) -> None:
    """The watch may tell of an object before its opener has written that it is ours."""
    office.open()
    await held(office)
    office.see()
    await office.until(NO_ROOM)
    office.api.put(RECOVERIES, NAME, office.api.recovery()["spec"], office.status() | OURS)
    office.see()

    await office.until("Recovered")
    assert office.all.used(PROD, INCIDENTS) == Used()


async def test_after_a_restart_what_was_begun_is_gone_on_with_though_there_is_no_room(
    world: World, office: Office
) -> None:
    plan = await engine(world, office.api).plan(Scope((ORDERS,)))
    await begin(journal_of(office.api), plan)
    office.open()
    await held(office)
    office.see()
    await office.until("Recovered")

    assert office.world.unrestored() == []


async def test_our_finalizer_alone_is_no_beginning(office: Office) -> None:
    """Whoever may create a recovery can write it."""
    office.open()
    await held(office)
    office.api.put(RECOVERIES, NAME, office.api.recovery()["spec"], finalizers=[FINALIZER])
    office.see()

    await office.until(NO_ROOM)


async def test_after_a_restart_what_is_refused_keeps_neither_younger_ones_nor_incidents_waiting(office: Office) -> None:
    made = {NAME: datetime.now(UTC) - timedelta(days=1)}
    cluster = office.open()
    await held(office)
    cluster.untaken = made
    office.see()
    await office.until(NO_ROOM)

    assert cluster.untaken == {}


@pytest.mark.parametrize(
    ("used", "partitions", "fits"),
    [
        (Used(), 10**6, True),
        (Used(499, 19_999), 1, True),
        (Used(499, 19_999), 2, False),
        (Used(500, 100), 0, False),
    ],
)
def test_room_is_for_so_many_recoveries_and_so_many_partitions(used: Used, partitions: int, fits: bool) -> None:
    assert (OTHERS.lacking(used, partitions) is None) is fits
