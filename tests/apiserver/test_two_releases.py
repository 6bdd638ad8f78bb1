"""Two releases of the operator, each with a Lease of its own, see one WatchedCluster on a real API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from apiserver.conftest import MANIFESTS, shown
from apiserver.forked import launched
from apiserver.incidents import (
    Object,
    Start,
    approval,
    awaiting,
    cluster,
    finished,
    only_recovery,
    policy,
    reason,
    told,
    watched_cluster,
)
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.objects import ApiRefused
from testbed.kubernetes.rights import bound, hold
from testbed.operator_process import OperatorProcess
from unit.simulator.play.playing import played_incident

pytestmark = pytest.mark.apiserver

STALE = 6.0
"""Seconds for which what the other watches is left to it."""


@pytest.fixture
def other(control_plane: ControlPlane) -> str:
    """The namespace of the second release."""
    return control_plane.create_namespace("other-release")


@pytest.fixture
def second(control_plane: ControlPlane, namespace: str, other: str, tmp_path: Path) -> Iterator[OperatorProcess]:
    """A release in another namespace that watches the first one's; it is not started yet."""
    folder = tmp_path / "second"
    folder.mkdir()
    options = "--authority=Automatic", "--lease-duration=6", f"--namespace={namespace}"
    who = control_plane.administrator(other)
    operator = OperatorProcess(who, other, folder, *options, launch=launched(stale=STALE))
    with shown(operator):
        operator.kill()
        yield operator


NOBODY_S = {
    "apiVersion": "kafka-recovery.dev/v1alpha1",
    "kind": "WatchedCluster",
    "metadata": {"name": "prod"},
    "spec": {"clusterId": "abc", "bootstrapServers": ["kafka:9092"]},
}


def holder(of: Object) -> str:
    return str(of.get("status", {}).get("watchedBy", {}).get("namespace"))


def versions(kubectl: Kubectl) -> list[str]:
    """Of all objects whose status two operators might write in turn."""
    found = [*kubectl.api.listed("partitionrecoveries"), *kubectl.api.listed("recoverypolicies")]
    return [each["metadata"]["resourceVersion"] for each in found]


def test_the_second_leaves_to_the_first_what_it_watches_and_goes_on_when_that_is_gone(
    kubectl: Kubectl, namespace: str, other: str, start: Start, second: OperatorProcess
) -> None:
    """Half a minute: it is waited for that one of both is stale, and that none of both is."""
    with played_incident("behind") as played:
        first = start(launch=launched(stale=STALE))
        kubectl.apply(policy(approval="ManualApprove"), watched_cluster(played))
        name = only_recovery(kubectl)["metadata"]["name"]
        waiting = awaiting(kubectl, name)
        assert holder(cluster(kubectl, lambda each: reason(each) == "AsExpected")) == namespace
        before = versions(kubectl)

        second.start()
        second.says(f"WatchedElsewhere: the operator whose Lease is {namespace}/kafka-recovery-operator watches it")
        until = time.monotonic() + 2 * STALE
        while time.monotonic() < until:
            assert holder(kubectl.api.get("watchedcluster", "prod")) == namespace
            time.sleep(0.2)
        assert versions(kubectl) == before, "neither writes a status that the other one writes back"
        assert "WatchedElsewhere" in {each["reason"] for each in kubectl.api.listed("events")}

        first.kill()
        cluster(kubectl, lambda each: holder(each) == other)
        assert awaiting(kubectl, name)["status"]["plan"]["digest"] == waiting["status"]["plan"]["digest"]
        first.start()
        first.says(f"WatchedElsewhere: the operator whose Lease is {other}/kafka-recovery-operator watches it")
        kubectl.apply(approval(waiting))

        ended = finished(kubectl, name)
    assert ended["status"]["outcome"] == "Recovered", told(ended)
    assert holder(kubectl.api.get("watchedcluster", "prod")) == other


def test_who_may_write_watched_clusters_can_not_write_who_watches_them(
    kubectl: Kubectl, control_plane: ControlPlane, namespace: str
) -> None:
    """Else whoever may write one, or restores it from a backup, could keep every operator away."""
    people = yaml.safe_load_all((MANIFESTS / "rbac" / "people.yaml").read_text())
    kubectl.apply(*people, bound("eve", "kafka-recovery-platform"))
    eve = control_plane.kubectl(control_plane.user("eve", namespace=namespace)).api
    hold(eve, ("create", "watchedclusters.kafka-recovery.dev"))
    place = {"watchedBy": {"namespace": "hers", "name": "operator", "renewed": "2026-11-21T12:00:00Z"}}

    eve.create({**NOBODY_S, "status": place})
    eve.patch("wkc", "prod", {"status": place})
    with pytest.raises(ApiRefused, match="forbidden"):
        eve.patch("wkc", "prod", {"status": place}, "status")

    assert "watchedBy" not in kubectl.api.get("watchedcluster", "prod")["status"]
