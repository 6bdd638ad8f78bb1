"""Definitions, rights and namespaces that are missing: the operator says so once, waits, and goes on when they come.

A control plane of its own: other tests need the definitions that are deleted here.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver import incidents
from apiserver.conftest import DEFINITIONS, MANIFESTS, shown
from apiserver.forked import launched
from apiserver.incidents import Start, reason
from kafka_recovery.kube.resources.fields import MOST_PARTITIONS
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.ports import HOST
from testbed.waiting import wait_until
from unit.simulator.play.playing import played_incident

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(240)]

KINDS = ("partitionrecoveries", "recoveryapprovals", "recoverypolicies", "watchedclusters")
GROUP = "kafka-recovery.dev"
LOOP = "loop_age_s"
UNANSWERED = "the API server answers no"
PROBES_KEPT = 10.0
"""Seconds for which kopf gives the same answer to a probe."""


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """One that knows nothing of ours at first."""
    with ControlPlane() as started:
        yield started


@pytest.fixture
def defined(control_plane: ControlPlane) -> None:
    """Our definitions are there."""
    control_plane.apply_definitions(DEFINITIONS)


def is_looked_at(kubectl: Kubectl, name: str = "prod", within: float = 60) -> None:
    """Wait until the operator has said something about a policy."""
    wait_until(
        f"RecoveryPolicy {name} is looked at",
        lambda: kubectl.api.get("recoverypolicy", name),
        lambda policy: reason(policy) == "AsExpected",
        within,
    )


def nowhere() -> dict[str, Any]:
    """A WatchedCluster that nobody is behind."""
    spec = {"clusterId": "nowhere-abcdefghijkl", "bootstrapServers": [f"{HOST}:9"], "policyRef": {"name": "prod"}}
    return {
        "apiVersion": incidents.API_VERSION,
        "kind": "WatchedCluster",
        "metadata": {"name": "prod"},
        "spec": spec,
    }


def by_hand(number: int) -> dict[str, Any]:
    """A PartitionRecovery that can't be worked on: its cluster does not answer."""
    scope = {"partitions": [{"topic": "orders", "partition": number}]}
    spec = {"clusterRef": {"name": "prod"}, "clusterId": "nowhere-abcdefghijkl", "scope": scope}
    name = f"by-hand-{number}"
    return {
        "apiVersion": incidents.API_VERSION,
        "kind": "PartitionRecovery",
        "metadata": {"name": name},
        "spec": spec,
    }


def has_no_traceback(log: Path) -> None:
    """What can be expected is one line."""
    said = log.read_text()
    assert "Traceback" not in said, said


def test_one_that_was_there_before_its_definitions_names_them_and_goes_on_when_they_come(
    control_plane: ControlPlane, kubectl: Kubectl, start: Start
) -> None:
    """Definitions come one by one: on a busy machine those that are left are named in between, each time others."""
    operator = start()
    operator.says(", ".join(f"{plural}.{GROUP}" for plural in KINDS), within=60)
    assert operator.is_alive()
    assert not operator.is_ready(), "a rollout without definitions must not end"

    control_plane.apply_definitions(DEFINITIONS)
    kubectl.apply(incidents.policy())

    is_looked_at(kubectl)
    wait_until("all it works on can be listed", operator.is_ready, bool)
    named = re.findall("waiting for CustomResourceDefinitions.*", operator.log.read_text())
    assert len(named) == len(set(named))
    assert operator.stop() == 0
    has_no_traceback(operator.log)


def test_one_operator_can_watch_every_namespace(
    kubectl: Kubectl, control_plane: ControlPlane, tmp_path: Path, defined: None
) -> None:
    elsewhere = control_plane.create_namespace("home-of-the-operator")
    options = "--all-namespaces", "--authority=Automatic", "--lease-duration=6"
    with played_incident("lossless") as kafka:
        kubectl.apply(incidents.policy(), incidents.watched_cluster(kafka))
        with shown(OperatorProcess(control_plane.administrator(), elsewhere, tmp_path, *options, launch=launched())):
            ended = incidents.finished(kubectl, incidents.only_recovery(kubectl)["metadata"]["name"])
            wait_until(
                "it lets the cluster go: the next test deletes its definition",
                lambda: kubectl.api.get("watchedcluster", "prod"),
                lambda cluster: not cluster["metadata"].get("finalizers"),
            )

    assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)


def test_a_namespace_without_the_role_is_named_in_a_line_and_the_others_are_looked_after(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, start: Start, defined: None
) -> None:
    other = control_plane.create_namespace("without-role")
    stranger = control_plane.kubectl(control_plane.administrator(other))
    operator = start(f"--namespace={namespace}", f"--namespace={other}")
    for each in (kubectl, stranger):
        each.apply(incidents.policy())

    operator.says(f"lacks the right to list {', '.join(KINDS)} ({GROUP}) in namespace {other}")
    is_looked_at(kubectl)
    assert not operator.is_ready(), "what it was told to watch it can't see"
    role = (
        (MANIFESTS / "rbac" / "operator.yaml")
        .read_text()
        .replace("namespace: kafka-recovery\n", f"namespace: {other}\n")
    )
    stranger("apply", "--server-side", "-f", "-", given=role)
    subject = f"--serviceaccount={namespace}:kafka-recovery-operator"
    stranger("create", "rolebinding", "operator-of-others", "--role=kafka-recovery-operator", subject)

    is_looked_at(stranger)
    wait_until("it sees both namespaces", operator.is_ready, bool)
    assert operator.log.read_text().count("lacks the right") == 1
    assert operator.stop() == 0
    has_no_traceback(operator.log)


def test_definitions_that_are_deleted_under_it_are_said_once_and_it_goes_on_when_they_return(
    control_plane: ControlPlane, kubectl: Kubectl, start: Start, defined: None
) -> None:
    operator = start()
    kubectl.apply(incidents.policy(), nowhere(), *(by_hand(number) for number in range(5)))
    is_looked_at(kubectl)

    kubectl("delete", "-f", str(DEFINITIONS))
    operator.says("waiting for CustomResourceDefinitions")
    control_plane.apply_definitions(DEFINITIONS)
    operator.says("serves all kinds")
    kubectl.apply(incidents.policy("afterwards"))

    is_looked_at(kubectl, "afterwards")
    assert operator.exit_code is None
    assert operator.stop() == 0
    has_no_traceback(operator.log)


@pytest.mark.parametrize("how", ["stopped", pytest.param("frozen", marks=pytest.mark.full)])
def test_an_api_server_that_is_away_is_told_once_and_what_comes_afterwards_is_seen(
    control_plane: ControlPlane, kubectl: Kubectl, start: Start, defined: None, how: str
) -> None:
    operator = start(lease=120)
    kubectl.apply(incidents.policy())
    is_looked_at(kubectl)

    if how == "stopped":
        with control_plane.apiserver_stopped():
            operator.says(UNANSWERED)
    else:
        with control_plane.apiserver_frozen():
            time.sleep(35)  # longer than an answer is waited for
    kubectl.apply(incidents.policy("afterwards"))

    is_looked_at(kubectl, "afterwards")
    assert operator.log.read_text().count(UNANSWERED) == (how == "stopped")
    assert operator.stop() == 0
    has_no_traceback(operator.log)


@pytest.mark.full
@pytest.mark.timeout(400)
def test_the_largest_recoveries_of_a_namespace_leave_the_operator_its_memory(
    kubectl: Kubectl, start: Start, defined: None
) -> None:
    """A minute, and gigabytes of the API server: objects of 0.7 MB are made, and read again and again."""
    kubectl.apply(incidents.policy(), nowhere())
    scope = {"partitions": [{"topic": "orders", "partition": number} for number in range(MOST_PARTITIONS)]}
    largest = [by_hand(number) for number in range(25)]
    for each in largest:
        kubectl.api.create({**each, "spec": {**each["spec"], "scope": scope}})

    operator = start()
    others = len(largest) - 1
    wait_until(
        "all but one are told that there is no room",
        lambda: operator.log.read_text().count("TooManyRecoveries"),
        lambda told: told >= others,
        300,
    )

    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{operator.pid}/status").read_text())
    assert peak
    assert int(peak[1]) < 320 * 1024, "the chart allows 1 GiB, and there may be many more of them"


def test_one_that_stands_by_answers_its_probes(start: Start, defined: None) -> None:
    start().says("this process holds the Lease")
    standby = start()
    standby.says("holds it")

    assert standby.is_alive()
    assert standby.is_ready(), "a rollout would never end"


def test_one_that_leads_answers_its_probes_unless_it_stands_still(start: Start, defined: None) -> None:
    leader = start(lease=120)
    leader.says("this process holds the Lease")
    first = wait_until("it tells of its event loop", lambda: leader.probed().get(LOOP), lambda age: age is not None)

    leader.freeze()
    assert not leader.is_alive()
    leader.thaw()

    wait_until("its event loop goes round again", leader.is_alive, bool)
    later = wait_until("it is asked anew", lambda: leader.probed()[LOOP], lambda age: age != first)
    assert later < PROBES_KEPT, "its heart has not beaten since the first answer"


@pytest.mark.parametrize("option", ["--namespace", "--operator-namespace"])
def test_a_namespace_that_does_not_exist_is_refused_before_anything_is_touched(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, tmp_path: Path, option: str
) -> None:
    who, wrong = control_plane.administrator(), f"{option}=kafka-recovry"
    with OperatorProcess(who, namespace, tmp_path, wrong, launch=launched()) as operator:
        assert operator.ends() == 2
        said = " ".join(operator.log.read_text().replace("│", " ").split())
        assert f"{option}: 'kafka-recovry' does not exist" in said

    assert kubectl.api.listed("leases") == []
