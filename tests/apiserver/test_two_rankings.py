"""Two FleetRankings of one namespace at the same time, two fleet operators, and one that comes back from a backup.

A backup brings an object back under another uid, and with the status that the first one had.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apiserver.conftest import shown
from apiserver.fleet import CHOSEN, Fleet
from apiserver.forked import fleet_launched
from kafka_recovery.kube.fleet.leaders import unpacked
from kafka_recovery.kube.fleet.naming import RANKING_LABEL
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.objects import Object
from testbed.operator_process import OperatorProcess
from testbed.spark_operator import apache
from testbed.waiting import wait_until

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300), pytest.mark.xdist_group("fleet")]

APPLICATIONS = f"{apache.PLURAL}.{apache.GROUP}"
LOST, KEPT = "nightly", "weekly"
OTHER = CHOSEN._replace(equals=[2])
"""What the second one is answered."""
UNDER_WAY = apache.SUCCEEDS[:3]
OF_THE_FIRST = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
"""Of its metadata, what no backup can bring back."""


def ask_both(fleet: Fleet, **spec: Any) -> None:
    for name in (LOST, KEPT):
        fleet.ask(name, adapter="Apache", **spec)


def applications(fleet: Fleet, name: str) -> list[Object]:
    """Those of a ranking of this name, whichever it was."""
    return fleet.kubectl.api.listed(APPLICATIONS, f"{RANKING_LABEL}={name}")


def owners(objects: list[Object]) -> set[str]:
    return {each["uid"] for one in objects for each in one["metadata"]["ownerReferences"]}


def left_alone(fleet: Fleet, name: str) -> tuple[Any, ...]:
    """What changes if somebody touches a ranking that is over, or what it made."""
    found = fleet.kubectl.api.get("frank", name)
    made = sorted((each["metadata"]["uid"], each["metadata"]["generation"]) for each in applications(fleet, name))
    folder = Path(found["status"]["runs"][0]["result"].removeprefix("file://"))
    files = sorted((str(file), file.stat().st_mtime_ns) for file in folder.rglob("*"))
    return found["metadata"]["uid"], found["status"], made, files


def leader(status: dict[str, Any], name: str) -> int:
    """Whom its last run chose for the one partition there is."""
    ((chosen,),) = [each.values() for each in unpacked(status["runs"][0]["leaders"], name).values() if each]
    return int(chosen.leader)


def restored(fleet: Fleet, backup: Object) -> str:
    """Delete it, and bring it back as a backup does while no operator is there; returns its new uid.

    Without conditions: whoever sees one again knows that the operator has looked.
    """
    name = backup["metadata"]["name"]
    fleet.process.stop()
    fleet.kubectl.api.delete("frank", name)
    fleet.until_gone("frank", name)
    kept = {key: value for key, value in backup["metadata"].items() if key not in OF_THE_FIRST}
    made = fleet.kubectl.api.create({**backup, "metadata": kept})
    status = {key: value for key, value in backup["status"].items() if key != "conditions"}
    fleet.kubectl.api.patch("frank", name, {"status": status}, part="status")
    fleet.process.start()
    return str(made["metadata"]["uid"])


def kept(fleet: Fleet, application: str, *finalizers: str) -> None:
    """As long as it has one, it is there, whoever deletes it."""
    fleet.kubectl.api.patch(APPLICATIONS, application, {"metadata": {"finalizers": list(finalizers)}})


def test_two_are_answered_at_once_and_one_that_comes_back_with_its_answer_asks_nothing_again(
    apache_definition: None, control_plane: ControlPlane, fleet: Fleet
) -> None:
    ask_both(fleet)
    fleet.write_result(LOST)
    fleet.write_result(KEPT, OTHER)
    with apache.ApacheOperator(control_plane.client(), fleet.namespace):
        answers = {name: fleet.until(name, "Succeeded") for name in (LOST, KEPT)}
    assert [leader(answers[name], name) for name in (LOST, KEPT)] == [3, 2]
    assert not owners(applications(fleet, LOST)) & owners(applications(fleet, KEPT))
    before = left_alone(fleet, KEPT)

    backup = fleet.kubectl.api.get("frank", LOST)
    uid = restored(fleet, backup)

    assert fleet.until(LOST, "Succeeded")["runs"] == backup["status"]["runs"]
    assert uid not in owners(applications(fleet, LOST)), "it was answered, and is not asked again"
    assert left_alone(fleet, KEPT) == before


def test_of_two_fleet_operators_the_second_leaves_to_the_first_what_it_runs(
    apache_definition: None, control_plane: ControlPlane, fleet: Fleet, tmp_path: Path
) -> None:
    """Each has a Lease of its own, in its own namespace."""
    fleet.ask(KEPT, adapter="Apache")
    fleet.active(KEPT)
    elsewhere, folder = control_plane.create_namespace("other-fleet"), tmp_path / "second"
    folder.mkdir()
    options = f"--fleet-results=file://{fleet.results}/results", "--lease-duration=6", f"--namespace={fleet.namespace}"
    who = control_plane.administrator(elsewhere)
    with shown(OperatorProcess(who, elsewhere, folder, *options, launch=fleet_launched)) as second:
        second.says(f"WatchedElsewhere: the operator whose Lease is {fleet.namespace}/kafka-recovery-operator-fleet")
        fleet.write_result(KEPT)
        with apache.ApacheOperator(control_plane.client(), fleet.namespace):
            ended = fleet.until(KEPT, "Succeeded")

    assert ended["watchedBy"]["namespace"] == fleet.namespace
    assert len(applications(fleet, KEPT)) == 1


@pytest.mark.full  # it waits half a minute before its second attempt
def test_one_that_comes_back_in_the_middle_of_its_run_asks_under_its_own_uid_and_the_other_goes_on(
    apache_definition: None, control_plane: ControlPlane, fleet: Fleet
) -> None:
    ask_both(fleet, retries=1)
    with apache.ApacheOperator(control_plane.client(), fleet.namespace, UNDER_WAY):
        for name in (LOST, KEPT):
            fleet.until(name, "DriverPending")
        others = owners(applications(fleet, KEPT))
        fleet.write_result(LOST, OTHER)  # what the first one's job writes, after all, is the answer to nobody
        first = fleet.active(LOST)
        kept(fleet, first.application, "tests.kafka-recovery.dev/stays")
        uid = restored(fleet, fleet.kubectl.api.get("frank", LOST))
        fleet.until(LOST, "Running", "was deleted by somebody else")
        again = wait_until("it asks again", lambda: applications(fleet, LOST), lambda made: uid in owners(made), 60)
    fleet.write_result(LOST)
    fleet.write_result(KEPT, OTHER)
    with apache.ApacheOperator(control_plane.client(), fleet.namespace):
        answers = {name: fleet.until(name, "Succeeded") for name in (LOST, KEPT)}
    kept(fleet, first.application)

    wait_until("its run is over", lambda: fleet.status(LOST), lambda status: "active" not in status)
    fleet.until(LOST, "Succeeded")
    assert [leader(answers[name], name) for name in (LOST, KEPT)] == [3, 2]
    assert [answers[name]["runs"][0]["attempts"] for name in (LOST, KEPT)] == [2, 1]
    assert answers[LOST]["runs"][0]["result"] != first.result
    assert uid.replace("-", "")[:8] in answers[LOST]["runs"][0]["result"]
    assert {each["metadata"]["name"] for each in again} == {first.application, answers[LOST]["runs"][0]["application"]}
    assert owners(applications(fleet, KEPT)) == others
