"""What changes while a recovery is open: its cluster, its spec, its object; and how a process lets go of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from kafka_recovery.kube.journal.facts import FACT_LABEL
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.recoveries import deleted
from kafka_recovery.kube.resources.kinds import APPROVALS, FINALIZER, RECOVERIES
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, label_value
from unit.kube.journal.journals import NAME, NAMESPACE, PLACE
from unit.kube.office import CUT, Office
from unit.kube.our_objects import KEY, PROD
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import PAYMENTS

# Changes


async def test_a_cluster_that_is_opened_anew_takes_its_recoveries_along(office: Office) -> None:
    """After a password was mended: the old connection will never see anything again."""
    old = office.open()
    cast(Any, old.watcher).view = replace(old.watcher.view, isolated=CUT)
    office.see()
    await office.until("ViewUnavailable")
    made = datetime.now(UTC)
    new = office.open(untaken={NAME: made})
    await office.until("Recovered", within=5)

    assert new.untaken == {}

    assert office.world.unrestored() == []


async def test_an_object_that_took_the_name_of_another_one_is_a_recovery_of_its_own(asking_office: Office) -> None:
    await asking_office.asks()
    asking_office.api.put(RECOVERIES, NAME, asking_office.api.recovery()["spec"], {}, uid="another")
    asking_office.see()
    await asking_office.until("AwaitingApproval")

    assert asking_office.all._open[KEY].uid == "another"


async def test_a_deleted_recovery_is_forgotten_and_its_run_ends(asking_office: Office) -> None:
    cluster = asking_office.takes_up()
    await asking_office.until("AwaitingApproval")
    asking_office.remove()
    await asyncio.sleep(5)
    forgotten, left = cast(Any, cluster.watcher).forgotten, len(asking_office.all._leaving)

    assert (set(forgotten), left) == ({NAME}, 0)
    assert asking_office.all.claims(PROD) == {}


async def test_a_process_that_ends_leaves_no_run_behind_not_even_of_a_deleted_recovery(asking_office: Office) -> None:
    asking_office.world.offline({3: 8, 4: 9}, PAYMENTS)
    asking_office.another("later", PAYMENTS)

    asking_office.open()
    for name in (NAME, "later"):
        asking_office.see(name)
        await asking_office.until("AwaitingApproval", name)
    asking_office.api.unread = f"/{NAME}"
    asking_office.all._drop(KEY)
    await asking_office.all.stop()

    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("recovery ")] == []


async def test_a_deletion_does_not_hang_for_ever_on_orders_that_cannot_be_restored(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleted, "GIVE_UP_UNDOING", timedelta(0))
    office.api.refusing = lambda what: "wave-0001-ended" in what

    office.takes_up()
    await office.until("JournalUnwritable")
    assert office.api.finalizers(NAMESPACE, NAME) == [FINALIZER]
    await office.api.delete(RECOVERIES.path(*KEY))
    office.see()
    await asyncio.sleep(5)

    assert RECOVERIES.path(*KEY) not in office.api.objects
    assert ("Warning", "OrphanedJournal") in office.events.said
    assert any("begun" in name for name in office.api.records()), "the journal must stay"


async def test_nobody_is_elected_while_a_lost_recovery_may_have_altered_any_order(office: Office) -> None:
    labels = {CLUSTER_LABEL: label_value(CLUSTER), FACT_LABEL: "begun"}
    await office.api.create(PLACE, {"metadata": {"name": "a-copy", "labels": labels}})
    cluster = office.takes_up()
    await office.until("JournalDamaged")
    assert office.message().startswith("a deleted recovery may have altered any order here")
    await asyncio.sleep(600)
    meanwhile = office.world.changed()
    await office.api.delete(f"{PLACE}/a-copy")
    await cluster.look_for_orphans(cast(Any, office.api))
    office.changed()
    await office.until("Recovered", within=5)

    assert meanwhile == []


# Answers


@pytest.mark.parametrize(
    ("fields", "accepted"),
    [({}, ("True", "AsExpected")), ({"maxLossClass": "Lossless"}, ("False", "LossClassExceeded"))],
)
async def test_the_author_of_an_approval_reads_whether_it_counts(
    asking_office: Office, fields: dict[str, Any], accepted: tuple[str, str]
) -> None:
    status = await asking_office.asks()
    asking_office.api.approve(status["plan"]["digest"], **fields)
    asking_office.changed()
    await asyncio.sleep(1)
    answered: Object = asking_office.api.objects[APPROVALS.path(NAMESPACE, "yes")]["status"]
    (said,) = answered["conditions"]

    assert (said["type"], said["status"], said["reason"]) == ("Accepted", *accepted)
    assert (("Warning", "LossClassExceeded") in asking_office.events.said) == (accepted[0] == "False")
