"""An abort where nobody can work on a recovery: it ends all the same, and nothing that was told of it is lost."""

from __future__ import annotations

import asyncio

from kafka_recovery.domain.election import Scope
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, RECOVERIES
from unit.kube.journal.journals import NAME, NAMESPACE, begin, engine, journal_of
from unit.kube.office import Office
from unit.kube.our_objects import PROD
from unit.recovery.world import ORDERS


async def test_an_aborted_recovery_ends_though_nobody_can_take_it_up(office: Office) -> None:
    """Its cluster was deleted, or it is for all that is offline where no policy says what that is."""
    office.api.objects.pop(CLUSTERS.path(*PROD))

    office.see()
    await office.until("InvalidReference")
    assert office.message().startswith("there is no WatchedCluster prod")
    office.abort()
    status = await office.until("Aborted", within=2)

    assert (status["finished"], status["outcome"]) == (True, "Aborted")
    assert office.api.finalizers(NAMESPACE, NAME) == []


async def test_what_was_told_and_said_of_it_is_not_lost(asking_office: Office) -> None:
    """Its plan had an approval that nobody could answer any more; what it leaves offline stays a person's affair."""
    before = await asking_office.asks()
    await asking_office.all.stop()
    asking_office.api.objects.pop(CLUSTERS.path(*PROD))
    asking_office.api.approve(before["plan"]["digest"])
    asking_office.api.change(RECOVERIES, NAME, abort=True)
    again = Office(asking_office.world, asking_office.api)
    again.see()
    after = await again.until("Aborted")
    (approval,) = [each for path, each in again.api.objects.items() if "/recoveryapprovals/" in path]

    assert (after["plan"], after["partitions"]) == (before["plan"], before["partitions"])
    assert [each["topic"] for each in after["leftOffline"]] == [ORDERS.topic]
    assert [each["reason"] for each in approval["status"]["conditions"]] == ["RecoveryFinished"]
    assert all(each["metadata"].get("ownerReferences") for each in asking_office.api.records().values())


async def test_an_abort_is_carried_out_by_its_run_where_that_is_only_not_there_yet(asking_office: Office) -> None:
    asking_office.api.change(RECOVERIES, NAME, abort=True)
    asking_office.see()  # the operator has just started
    await asyncio.sleep(1)
    told = str(asking_office.api.recovery().get("status", {}).get("outcome", ""))
    asking_office.open()
    await asking_office.until("Aborted")

    assert told == ""


async def test_one_that_has_begun_does_not_end_before_its_orders_are_restored(office: Office) -> None:
    plan = await engine(office.world, office.api).plan(Scope((ORDERS,)))
    await begin(journal_of(office.api), plan)
    office.api.objects.pop(CLUSTERS.path(*PROD))
    office.abort()
    await asyncio.sleep(60)

    assert office.reason() == "InvalidReference"
    assert office.message().startswith("there is no WatchedCluster prod")
    assert office.api.finalizers(NAMESPACE, NAME) == [FINALIZER]
