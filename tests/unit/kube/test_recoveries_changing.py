"""What changes while a recovery is open: its cluster, its spec, its object; and how a process lets go of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from kafka_recovery.kube import recoveries as recoveries_
from kafka_recovery.kube.api import Object
from kafka_recovery.kube.resources import APPROVALS, FINALIZER, RECOVERIES
from unit.kube.journals import NAME, NAMESPACE
from unit.kube.office import CUT, Office
from unit.kube.our_objects import KEY, PROD, inhabited
from unit.kube.virtual import in_no_time
from unit.recovery.world import PAYMENTS, World


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


# Changes


def test_a_cluster_that_is_opened_anew_takes_its_recoveries_along(office: Office) -> None:
    """After a password was mended: the old connection will never see anything again."""

    async def tell() -> None:
        old = office.open()
        cast(Any, old.watcher).view = replace(old.watcher.view, isolated=CUT)
        office.see()
        await office.until("Isolated")
        made = datetime.now(UTC)
        new = office.open(untaken={NAME: made})
        await office.until("Recovered", within=5)
        assert new.untaken == {}

    in_no_time(tell())
    assert office.world.unrestored() == []


def test_who_is_resumed_goes_on_at_once(office: Office) -> None:
    office.api.change(RECOVERIES, NAME, suspend=True)

    async def tell() -> None:
        office.open()
        office.see()
        await office.until("Suspended")
        await asyncio.sleep(1000)
        office.api.change(RECOVERIES, NAME, suspend=False)
        office.see()
        await office.until("Recovered", within=2)

    in_no_time(tell())


def test_an_object_that_took_the_name_of_another_one_is_a_recovery_of_its_own(by_hand: Office) -> None:
    async def tell() -> str:
        by_hand.open()
        by_hand.see()
        await by_hand.until("AwaitingApproval")
        by_hand.api.put(RECOVERIES, NAME, by_hand.api.recovery()["spec"], {}, uid="another")
        by_hand.see()
        await by_hand.until("AwaitingApproval")
        return by_hand.all._open[KEY].uid

    assert in_no_time(tell()) == "another"


def test_a_deleted_recovery_is_forgotten_and_its_run_ends(by_hand: Office) -> None:
    async def tell() -> tuple[list[str], int]:
        cluster = by_hand.open()
        by_hand.see()
        await by_hand.until("AwaitingApproval")
        by_hand.api.remove(RECOVERIES, NAME)
        by_hand.see()
        await asyncio.sleep(5)
        return cast(Any, cluster.watcher).forgotten, len(by_hand.all._leaving)

    forgotten, left = in_no_time(tell())
    assert (set(forgotten), left) == ({NAME}, 0)
    assert by_hand.all.claims(PROD) == {}


def test_a_process_that_ends_leaves_no_run_behind_not_even_of_a_deleted_recovery(by_hand: Office) -> None:
    by_hand.world.offline({3: 8, 4: 9}, PAYMENTS)
    by_hand.another("later", PAYMENTS)

    async def tell() -> list[str]:
        by_hand.open()
        for name in (NAME, "later"):
            by_hand.see(name)
            await by_hand.until("AwaitingApproval", name)
        by_hand.api.unread = f"/{NAME}"
        by_hand.all._drop(KEY)
        await by_hand.all.stop()
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("recovery ")]

    assert in_no_time(tell()) == []


def test_a_deletion_does_not_hang_for_ever_on_orders_that_cannot_be_restored(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recoveries_, "GIVE_UP_UNDOING", timedelta(0))
    office.api.refusing = lambda what: "wave-0001-ended" in what

    async def tell() -> None:
        office.open()
        office.see()
        await office.until("JournalUnwritable")
        assert office.api.finalizers(NAMESPACE, NAME) == [FINALIZER]
        await office.api.delete(RECOVERIES.path(*KEY))
        office.see()
        await asyncio.sleep(5)

    in_no_time(tell())
    assert RECOVERIES.path(*KEY) not in office.api.objects
    assert ("Warning", "OrphanedJournal") in office.events.said
    assert any("begun" in name for name in office.api.config_maps()), "the journal must stay"


# Answers


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [({}, ("True", "Accepted")), ({"maxLossClass": "Lossless"}, ("False", "LossClassExceeded"))],
)
def test_the_author_of_an_approval_reads_whether_it_counts(
    by_hand: Office, fields: dict[str, Any], accepted: tuple[str, str]
) -> None:
    async def tell() -> Object:
        by_hand.open()
        by_hand.see()
        status = await by_hand.until("AwaitingApproval")
        by_hand.api.approve(status["plan"]["digest"], **fields)
        by_hand.changed()
        await asyncio.sleep(1)
        answered: Object = by_hand.api.objects[APPROVALS.path(NAMESPACE, "yes")]["status"]
        return answered

    (said,) = in_no_time(tell())["conditions"]
    assert (said["type"], said["status"], said["reason"]) == ("Accepted", *accepted)
    assert (("Warning", "LossClassExceeded") in by_hand.events.said) == (accepted[0] == "False")
