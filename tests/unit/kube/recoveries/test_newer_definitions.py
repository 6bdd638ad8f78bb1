"""Recoveries under definitions that are newer than the operator: every object may have fields more."""

from __future__ import annotations

from typing import Any

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.resources.kinds import CLUSTERS, POLICIES, RECOVERIES
from unit.kube.journal.journals import NAME, NAMESPACE, PLACE
from unit.kube.office import Office
from unit.kube.our_objects import PROD, OurObjects


def filled(api: OurObjects) -> None:
    """As the API server fills the default of a new field into all that is stored."""
    kinds = [kind.path(NAMESPACE) for kind in (CLUSTERS, POLICIES, RECOVERIES)]
    for path, found in api.objects.items():
        if path.startswith((*kinds, PLACE)):
            found["spec"]["aNewField"] = False


def condition(status: dict[str, Any]) -> str:
    return next((each["message"] for each in status["conditions"] if each["type"] == "UnknownFields"), "")


async def test_a_recovery_goes_on_from_its_journal_and_says_what_is_ignored(asking_office: Office) -> None:
    before = await asking_office.asks()
    await asking_office.all.stop()
    filled(asking_office.api)

    again = Office(asking_office.world, asking_office.api)
    again.takes_up()
    again.answer(before["plan"]["digest"], aNewField=False)
    status = await again.until("Recovered")

    assert "spec.aNewField says nothing" in condition(status)
    assert status["plan"]["digest"] == before["plan"]["digest"]


async def test_what_is_ignored_is_still_said_while_nobody_can_work_on_it(asking_office: Office) -> None:
    filled(asking_office.api)
    await asking_office.asks()
    await asking_office.all.stop()

    again = Office(asking_office.world, asking_office.api)
    again.clusters.known[PROD] = Reason("InvalidReference", "Secret ca is not there")
    again.see()
    status = await again.until("InvalidReference")

    assert condition(status)


async def test_without_a_person_nothing_is_elected_that_a_newer_release_may_forbid(office: Office) -> None:
    """The rules ask nobody."""
    office.api.change(RECOVERIES, NAME, notBefore="2026-11-21T18:00:00Z")
    office.takes_up()
    status = await office.until("UnknownFields")

    assert "spec.notBefore" in status["plan"]["askedBecause"]
    office.answer(status["plan"]["digest"])
    assert (await office.until("Recovered"))["approval"]["by"] == "ann"
