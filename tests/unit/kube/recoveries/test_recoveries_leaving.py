"""A deletion that nobody can carry out any more: the finalizer comes off in the end, and the journal stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.recoveries.deleted import GIVE_UP_UNDOING
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, RECOVERIES
from unit.kube.journal.journals import NAME, NAMESPACE
from unit.kube.office import Office, named_twice
from unit.kube.our_objects import KEY, PROD

SECRET = Reason("InvalidReference", "Secret ca is not there (spec.tls.caSecretRef)")
RIGHT = Reason("Forbidden", "the operator lacks a right here, see manifests/rbac: secrets")


async def begun(office: Office) -> None:
    """A process ended in the middle of a wave, whose end it could not write."""
    office.api.refusing = lambda what: "wave-0001-ended" in what
    office.takes_up()
    await office.until("JournalUnwritable")
    await office.queue.stop(timedelta(0))
    await office.all.stop()
    assert office.api.finalizers(NAMESPACE, NAME) == [FINALIZER]


def deleted(office: Office, ago: timedelta) -> None:
    """A person deleted the recovery, so long ago."""
    office.api.recovery()["metadata"]["deletionTimestamp"] = f"{datetime.now(UTC) - ago:%Y-%m-%dT%H:%M:%SZ}"


def gone(office: Office) -> bool:
    return RECOVERIES.path(*KEY) not in office.api.objects


def another_kafka(office: Office) -> None:
    office.api.change(CLUSTERS, "prod", clusterId="another")
    office.open()


def not_opened(why: Reason) -> Callable[[Office], None]:
    def happened(office: Office) -> None:
        office.clusters.known[PROD] = why

    return happened


def unreadable(office: Office) -> None:
    named_twice(office)
    office.open()


def cluster_deleted(office: Office) -> None:
    office.api.remove(CLUSTERS, "prod")


NOBODY = [
    pytest.param(another_kafka, "ClusterIdMismatch", id="ClusterIdMismatch"),
    pytest.param(not_opened(SECRET), "InvalidReference", id="no Secret"),
    pytest.param(not_opened(RIGHT), "Forbidden", id="Forbidden"),
    pytest.param(unreadable, "InvalidSpec", id="InvalidSpec"),
    pytest.param(cluster_deleted, "InvalidReference", id="no WatchedCluster"),
]


@pytest.mark.parametrize(("happened", "reason"), NOBODY)
async def test_a_deletion_ends_after_ten_minutes_whatever_keeps_its_orders_from_being_restored(
    office: Office, happened: Callable[[Office], None], reason: str
) -> None:
    await begun(office)
    deleted(office, GIVE_UP_UNDOING)
    again = Office(office.world, office.api)
    happened(again)
    again.see()
    await asyncio.sleep(5)

    assert gone(office)
    assert [said for _, said in again.events.said] == [reason, "OrphanedJournal"]
    assert any("begun" in name for name in office.api.records()), "the journal must stay"


@pytest.mark.parametrize(("happened", "reason"), NOBODY)
async def test_until_then_it_may_be_mended_and_a_process_that_waits_sees_the_time_come(
    office: Office, monkeypatch: pytest.MonkeyPatch, happened: Callable[[Office], None], reason: str
) -> None:
    await begun(office)
    deleted(office, GIVE_UP_UNDOING - timedelta(minutes=2))
    again = Office(office.world, office.api)
    happened(again)
    again.see()
    await asyncio.sleep(60)

    assert (again.reason(), office.api.finalizers(NAMESPACE, NAME)) == (reason, [FINALIZER])
    monkeypatch.setattr("kafka_recovery.kube.recoveries.deleted.GIVE_UP_UNDOING", timedelta(0))
    await asyncio.sleep(60)
    assert gone(office)


async def test_what_is_about_to_be_taken_up_is_not_let_go_however_long_it_waited(office: Office) -> None:
    """The operator was away for an hour, and its cluster is not open yet."""
    await begun(office)
    deleted(office, timedelta(hours=1))
    again = Office(office.world, office.api)
    again.see()
    await asyncio.sleep(60)

    assert again.events.said == []
    assert office.api.finalizers(NAMESPACE, NAME) == [FINALIZER]


async def test_the_event_says_why_nothing_could_be_restored(office: Office) -> None:
    notes: list[str] = []

    async def say(about: Object, type: str, reason: str, action: str, note: str) -> None:
        notes.append(note)

    await begun(office)
    deleted(office, GIVE_UP_UNDOING)
    again = Office(office.world, office.api)
    cast(Any, again.events).say = say
    another_kafka(again)
    again.see()
    await asyncio.sleep(5)

    assert "ClusterIdMismatch" in notes[-1]
    assert "delete this recovery" in notes[-1]
