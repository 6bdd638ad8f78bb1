"""attest: what a person says of a broker's disk lies in the recovery, in that person's name, until it ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import Conflict
from kafka_recovery.kube.recoveries.status import Known, Phase
from kafka_recovery.kube.resources.kinds import RECOVERIES, read_recovery
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import Incidents, SmallKubernetes

PLANNING = Known(Phase.PLANNING, Reason("Planning", "every replica is being asked"))
LOST = ("--broker", "1", "--disk-lost", "--reason", "INC-7: volume vol-1 was deleted")
OF_THREE = {
    "broker": 3, "witness": "disk-lost", "by": "bob", "reason": "INC-6", "at": "2026-01-31T09:30:00Z",
    "expires": "2026-01-31T10:30:00Z",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _a_recovery(incidents: Incidents) -> None:
    incidents.opened("prod-1", PLANNING)


def held(kubernetes: SmallKubernetes) -> list[dict[str, Any]]:
    """What the recovery says now, which the operator can read."""
    found = kubernetes.memory.objects[RECOVERIES.path("kafka", "prod-1")]
    read_recovery(found)
    return list(found["spec"].get("attestations", ()))


def test_it_lies_in_the_recovery_in_the_name_of_who_typed_it(plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    done = plugin("attest", "prod-1", *LOST, "--expires", "4h", "--yes")

    assert done.exit_code == 0, done.stderr
    assert "ann attests for prod-1 that the disk of broker 1 is lost for good, until 20" in (
        " ".join(done.stdout.split())
    )
    assert "A person has to approve each election that nothing else makes possible." in " ".join(done.stdout.split())
    (said,) = held(kubernetes)
    told = {key: said[key] for key in ("broker", "witness", "by", "reason")}
    assert told == {"broker": 1, "witness": "disk-lost", "by": "ann", "reason": "INC-7: volume vol-1 was deleted"}
    at, expires = datetime.fromisoformat(said["at"]), datetime.fromisoformat(said["expires"])
    assert expires - at == timedelta(hours=4)
    assert abs(datetime.now(UTC) - at) < timedelta(minutes=1)


def test_without_a_terminal_and_without_yes_nothing_is_written(plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    assert "to do it without being asked, add --yes" in plugin.refuses("attest", "prod-1", *LOST, code=4)
    assert held(kubernetes) == []


def test_what_is_attested_of_other_brokers_stays_and_of_the_same_is_replaced(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    incidents.opened("prod-1", PLANNING, attestations=[OF_THREE, OF_THREE | {"broker": 1}])

    assert plugin("attest", "prod-1", *LOST, "--yes").exit_code == 0

    assert [(each["broker"], each["by"]) for each in held(kubernetes)] == [(3, "bob"), (1, "ann")]


def test_what_was_attested_is_taken_back(incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    """Nobody is asked: that can only have more waited for."""
    incidents.opened("prod-1", PLANNING, attestations=[OF_THREE])

    done = plugin.says("attest", "prod-1", "--broker", "3", "--withdraw")

    assert done.startswith("What was attested of broker 3 is taken back from prod-1.")
    assert held(kubernetes) == []
    again = plugin.refuses("attest", "prod-1", "--broker", "3", "--withdraw")

    assert again == "Error: nothing is attested of broker 3 in prod-1\n"


def test_what_somebody_else_writes_at_the_same_moment_does_not_get_lost(
    plugin: Plugin, kubernetes: SmallKubernetes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version that was looked at goes with the change, and the API server refuses it then."""
    asked: list[Any] = []

    def conflict(path: str, change: Any) -> Any:
        asked.append(change["metadata"])
        raise Conflict(409, "Conflict", "the object has been modified", path)

    monkeypatch.setattr(kubernetes, "patch", conflict)

    refused = plugin("attest", "prod-1", *LOST, "--yes")

    assert asked == [{"uid": "uid-of-prod-1", "resourceVersion": "1"}]
    assert "somebody changed it at the same moment" in refused.stderr


BAD: dict[str, tuple[tuple[str, ...], str]] = {
    "neither": (("--broker", "1"), "say what you attest: --disk-lost; or --withdraw what was attested"),
    "no reason": (LOST[:3], "--reason: say how you know it, such as --reason"),
    "two lines": ((*LOST[:4], "one\ntwo"), '--reason "one\\ntwo": must be one line of at most 500'),
    "too far": ((*LOST, "--expires", "25h"), '--expires "25h": must be at least 1m and at most 24h'),
    "a reason to withdraw": (("--broker", "1", "--withdraw", "--reason", "no"), "--reason 'no': goes with --disk-lost"),
}


@pytest.mark.parametrize(("words", "wrong"), BAD.values(), ids=list(BAD))
def test_what_is_wrong_with_it_is_said_before_anything_is_asked(
    words: tuple[str, ...], wrong: str, plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    assert wrong in plugin.refuses("attest", "prod-1", *words, "--yes")
    assert kubernetes.asked_for == []


def test_a_broker_without_a_replica_there_is_a_mistake(incidents: Incidents, plugin: Plugin) -> None:
    incidents.awaiting("prod-2")

    refused = plugin.refuses("attest", "prod-2", "--broker", "33", *LOST[2:], "--yes")

    assert "--broker 33: has no replica of the partitions in the plan of prod-2; those that have are 1, 2, 3" in (
        refused
    )


def test_of_a_recovery_that_has_ended_nothing_is_attested(incidents: Incidents, plugin: Plugin) -> None:
    over = Known(Phase.ENDED, Reason("Recovered", "all of it"), end=End.RECOVERED)
    incidents.opened("prod-1", over)

    refused = plugin.refuses("attest", "prod-1", *LOST, "--yes")

    assert "prod-1 has finished: Recovered; there is nothing to attest for" in refused
