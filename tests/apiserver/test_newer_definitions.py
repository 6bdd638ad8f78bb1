"""The definitions are newer than the operator, or older, on a real API server: in upgrades, and after a rollback.

Every object of every spec has a field more, with a default, which the API server fills into all that is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.conftest import DEFINITIONS, apply_all_of_ours
from apiserver.gate import Gate
from apiserver.incidents import (
    Object,
    Start,
    approval,
    awaiting,
    cluster,
    condition,
    finished,
    only_recovery,
    policy,
    reason,
    seen,
    told,
    watched_cluster,
)
from apiserver.test_proofs import watched
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until
from unit.simulator.play.playing import played_incident

pytestmark = pytest.mark.apiserver

NEW = {"type": "boolean", "default": False, "description": "What a newer release knows."}
KINDS = ("watchedcluster", "recoverypolicy", "partitionrecovery", "recoveryapproval")


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One that no other test sees the definitions of."""
    with ControlPlane() as started:
        apply_all_of_ours(started)
        yield started


class Definitions:
    """Those of this release, and newer ones."""

    def __init__(self, control_plane: ControlPlane, folder: Path) -> None:
        self._control_plane, self._newer = control_plane, folder
        for file in DEFINITIONS.glob("*.yaml"):
            document = yaml.safe_load(file.read_text())
            (version,) = document["spec"]["versions"]
            _extend(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
            (folder / file.name).write_text(yaml.safe_dump(document))

    def newer(self) -> None:
        """Install them, as an upgrade does first."""
        self._control_plane.apply_definitions(self._newer)

    def older(self) -> None:
        """Those of a release that did not say who watches what."""
        file = self._newer / "watchedclusters.yaml"
        document = yaml.safe_load((DEFINITIONS / file.name).read_text())
        (version,) = document["spec"]["versions"]
        del version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["watchedBy"]
        file.write_text(yaml.safe_dump(document))
        self._control_plane.apply_definitions(self._newer)

    def ours(self) -> None:
        """Go back."""
        self._control_plane.apply_definitions(DEFINITIONS)


def _extend(node: dict[str, Any]) -> None:
    """A field more in every mapping of known fields, however deep."""
    for child in [*node.get("properties", {}).values(), *([node["items"]] if "items" in node else [])]:
        _extend(child)
    if "properties" in node:
        node["properties"]["aNewField"] = NEW


@pytest.fixture
def definitions(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Definitions]:
    folder = tmp_path / "newer"
    folder.mkdir()
    made = Definitions(control_plane, folder)
    yield made
    made.ours()


def filled(kubectl: Kubectl, kind: str) -> list[Object]:
    """All objects of a kind, once the API server has filled the new field into each."""
    return wait_until(
        f"{kind} has the new field",
        lambda: kubectl.api.listed(kind),
        lambda all: bool(all) and all_filled(all),
    )


def asks_and_says_what_it_ignores(recovery: Object) -> bool:
    return reason(recovery) == "AwaitingApproval" and bool(condition(recovery, "UnknownFields"))


def all_filled(objects: list[Object]) -> bool:
    return all(each["spec"].get("aNewField") is False for each in objects)


def test_an_operator_goes_on_and_recovers_when_the_definitions_become_newer_and_when_it_is_rolled_back(
    kubectl: Kubectl, operator: OperatorProcess, definitions: Definitions
) -> None:
    with played_incident("lossless") as played:
        kubectl.apply(policy(approval="ManualApprove"), watched(played, played.server.controllers))
        name = only_recovery(kubectl)["metadata"]["name"]
        before = awaiting(kubectl, name)
        wait_until("its history is kept", lambda: kubectl.api.listed("clusterhistories"), bool)

        definitions.newer()
        for kind in ("watchedclusters", "recoverypolicies", "partitionrecoveries", "recoveryrecords"):
            filled(kubectl, kind)
        (history,) = filled(kubectl, "clusterhistories")
        operator.stop()
        operator.start()

        operator.says(f"histories are known up to offset {history['spec']['offset']} of the metadata log")
        watching = cluster(kubectl, lambda each: bool(condition(each, "UnknownFields")))
        waiting = seen(kubectl, name, asks_and_says_what_it_ignores)
        assert condition(watching, "Ready")["status"] == "True"
        assert "spec.aNewField" in condition(watching, "UnknownFields")["message"]
        assert waiting["status"]["plan"]["digest"] == before["status"]["plan"]["digest"]
        kubectl.apply(approval(waiting))

        ended = finished(kubectl, name)

        assert ended["status"]["outcome"] == "Recovered", told(ended)
        (yes,) = filled(kubectl, "recoveryapprovals")
        assert condition(yes, "Accepted")["status"] == "True"
        assert reason(kubectl.api.get("recoverypolicy", "prod"), "UnknownFields") == "UnknownFields"

        definitions.ours()

        operator.stop()
        operator.start()
        cluster(kubectl, lambda each: reason(each) == "AsExpected" and not condition(each, "UnknownFields"))


def test_a_journal_that_was_begun_before_the_definitions_became_newer_is_read_and_goes_on(
    kubectl: Kubectl, start: Start, namespace: str, definitions: Definitions, tmp_path: Path
) -> None:
    """The operator is killed between an election and the record that tells of it."""
    folder = tmp_path / "gate"
    folder.mkdir()
    with played_incident("behind") as played, Gate(kubectl, namespace, folder) as gate:
        gate.shut("wave-0001-ended")
        operator = start("--no-lease")
        kubectl.apply(policy(), watched_cluster(played))
        gate.holds("wave-0001-ended")
        operator.kill()
        gate.open()

        definitions.newer()
        filled(kubectl, "recoveryrecords")
        operator.start()

        ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"])
    assert ended["status"]["outcome"] == "Recovered", told(ended)
    assert "finalizers" not in ended["metadata"]


def test_what_a_newer_release_would_heed_asks_a_person_until_it_is_taken_out(
    kubectl: Kubectl, operator: OperatorProcess, definitions: Definitions
) -> None:
    definitions.newer()
    restricted = policy()
    restricted["spec"]["rules"][0]["aNewField"] = True
    with played_incident("behind") as played:
        kubectl.apply(restricted, watched_cluster(played))
        name = only_recovery(kubectl)["metadata"]["name"]
        waiting = seen(kubectl, name, lambda each: reason(each) == "UnknownFields")
        assert "spec.rules[].aNewField, which may forbid what it would do" in waiting["status"]["plan"]["askedBecause"]
        assert condition(kubectl.api.get("recoverypolicy", "prod"), "Ready")["status"] == "True"

        kubectl.apply(policy())

        ended = finished(kubectl, name)
    assert ended["status"]["outcome"] == "Recovered", told(ended)
    assert "approval" not in ended["status"]


def test_an_operator_that_is_newer_than_the_definitions_recovers_and_says_what_they_lack(
    kubectl: Kubectl, start: Start, definitions: Definitions
) -> None:
    definitions.older()
    operator = start()
    with played_incident("behind") as played:
        kubectl.apply(policy(), watched_cluster(played))

        ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"])
    assert ended["status"]["outcome"] == "Recovered", told(ended)
    operator.says(".status.watchedBy: field not declared in schema")
