"""Where the brokers run that are away, of a cluster that Strimzi runs: by what the person who asks may read."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.resources.kinds import RECOVERIES
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import NAMESPACE, Incidents, SmallKubernetes
from unit.cli.kubectl.test_plans import one_line
from unit.kube.kubernetes_in_memory import NOON

CORE = f"/api/v1/namespaces/{NAMESPACE}"
EARLIER = NOON - timedelta(days=90)
LABELS = {"strimzi.io/cluster": "prod", "strimzi.io/broker-role": "true"}
CRASHING = {
    "name": "kafka",
    "restartCount": 7,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
}


class Node:
    """What Kubernetes has of broker 1."""

    def __init__(self, kubernetes: SmallKubernetes) -> None:
        self._kubernetes = kubernetes

    def pod(self, name: str = "prod-brokers-1", node: str = "n2", **parts: Any) -> None:
        spec = {"nodeName": node, "volumes": parts.pop("volumes", [])}
        self._put(f"{CORE}/pods", name, LABELS, spec=spec, status={"phase": "Running"} | parts)

    def claim(self, phase: str = "Bound", made: Any = EARLIER, name: str = "data-0-prod-brokers-1") -> None:
        self._put(f"{CORE}/persistentvolumeclaims", name, LABELS, made, status={"phase": phase})

    def node(self, ready: str = "True") -> None:
        self._put("/api/v1/nodes", "n2", {}, status={"conditions": [{"type": "Ready", "status": ready}]})

    def _put(self, where: str, name: str, labels: dict[str, str], made: Any = EARLIER, **parts: Any) -> None:
        meta = {"name": name, "labels": labels, "creationTimestamp": f"{made:%Y-%m-%dT%H:%M:%SZ}"}
        self._kubernetes.memory.objects[f"{where}/{name}"] = {"metadata": meta, **parts}


@pytest.fixture
def strimzi(kubernetes: SmallKubernetes, incidents: Incidents) -> Node:
    """A recovery that asks about a plan; broker 1, the last of the ISR, is away."""
    incidents.cluster(strimziRef={"name": "prod"})
    incidents.awaiting()
    return Node(kubernetes)


@pytest.mark.parametrize("command", ["status", "plan"])
def test_pod_node_and_claims_of_a_broker_that_is_away_stand_below_the_card(
    strimzi: Node, plugin: Plugin, command: str
) -> None:
    strimzi.pod(containerStatuses=[CRASHING])
    strimzi.claim()
    strimzi.node()
    strimzi.pod(name="prod-brokers-2")

    shown = plugin(command, "prod-1").stdout

    _, _, below = shown.partition("Where the brokers run that are away, at this moment:\n")
    told = one_line(below)
    assert "1 prod-brokers-1" in told
    assert "CrashLoopBackOff, last end OOMKilled (exit code 137), 7 restarts" in told
    assert "n2 (Ready)" in told
    assert "claim data-0-prod-brokers-1 is Bound, made 2026-08-23 (what is on it is not known)" in told
    assert "Broker 1: To have it run, once you know that its disk is its own: give its container more memory " in told
    assert "prod-brokers-2" not in told
    assert "DANGER" not in told


def test_a_node_that_is_gone_or_does_not_answer_is_called_so(strimzi: Node, plugin: Plugin) -> None:
    strimzi.pod()
    strimzi.claim()
    assert "n2 (GONE)" in one_line(plugin("status", "prod-1").stdout)
    strimzi.node(ready="Unknown")
    assert "n2 (NOT Ready)" in one_line(plugin("status", "prod-1").stdout)


def test_a_pod_that_waits_for_a_node_says_why(strimzi: Node, plugin: Plugin) -> None:
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
    strimzi.pod(node="", conditions=[why], phase="Pending")
    strimzi.claim()

    told = one_line(plugin("status", "prod-1").stdout)
    assert "Unschedulable (0/3 nodes are available)" in told
    assert "once you know that its disk is its own: make room on a node that can mount its volumes." in told


def test_a_claim_that_is_as_young_as_the_incident_is_a_danger(strimzi: Node, plugin: Plugin) -> None:
    """Somebody deleted the claim to make the broker start: its disk is empty, and Kafka would elect it."""
    strimzi.pod()
    strimzi.claim(made=NOON - timedelta(minutes=2))

    told = one_line(plugin("status", "prod-1").stdout)

    assert "DANGER: claim data-0-prod-brokers-1 of broker 1 was made only at 2026-11-21 11:58:00 UTC" in told
    assert (
        "its disk may be EMPTY, and a Pod that is Pending starts on it as soon as it can. Keep it off NOW, until"
        in told
    )


def test_nobody_is_told_to_keep_off_a_broker_that_the_operator_holds_back(
    strimzi: Node, plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    strimzi.claim(made=NOON - timedelta(minutes=2))
    status = kubernetes.memory.objects[RECOVERIES.path(NAMESPACE, "prod-1")]["status"]
    status["holdBack"] = {"pods": [{"name": "prod-brokers-1", "broker": 1}]}

    told = one_line(plugin("plan", "prod-1").stdout)

    assert "its disk may be EMPTY. The operator keeps it off meanwhile (holdBack: pods)." in told
    assert "Keep it off NOW" not in told


def test_a_volume_that_is_lost_is_said_to_be_lost(strimzi: Node, plugin: Plugin) -> None:
    strimzi.pod()
    strimzi.claim(phase="Lost")

    told = one_line(plugin("status", "prod-1").stdout)

    assert "claim data-0-prod-brokers-1 is LOST: its own disk does not come back by it" in told


def test_logs_in_an_empty_dir_end_with_their_pod(strimzi: Node, plugin: Plugin) -> None:
    strimzi.pod(volumes=[{"name": "data-0", "emptyDir": {}}])

    told = one_line(plugin("status", "prod-1").stdout)

    assert "DANGER: broker 1 keeps its logs in an emptyDir" in told
    assert "it has no volume claim" not in told


def test_neither_pod_nor_claim_is_no_proof_of_anything(strimzi: Node, plugin: Plugin) -> None:
    told = one_line(plugin("status", "prod-1").stdout)

    assert "it has no volume claim: its own disk may be gone, or kept as a released volume" in told


def test_a_scratch_directory_is_no_broker_log(strimzi: Node, plugin: Plugin) -> None:
    strimzi.pod(volumes=[{"name": "strimzi-tmp", "emptyDir": {}}])

    assert "emptyDir" not in plugin("status", "prod-1").stdout


def test_who_may_not_read_pods_is_told_so_and_sees_everything_else(
    strimzi: Node, kubernetes: SmallKubernetes, plugin: Plugin
) -> None:
    kubernetes.refuses["/pods"] = ApiError(403, "Forbidden", "pods is forbidden", f"{CORE}/pods")

    told = one_line(plugin("status", "prod-1").stdout)

    assert "Where the brokers run that are away (1) can't be told: pods is forbidden" in told
    assert "CAN BROKER 1 BE STARTED" in told


def test_who_may_not_read_nodes_sees_the_pods_all_the_same(
    strimzi: Node, kubernetes: SmallKubernetes, plugin: Plugin
) -> None:
    strimzi.pod()
    strimzi.claim()
    kubernetes.refuses["/nodes/"] = ApiError(403, "Forbidden", "nodes is forbidden", "/api/v1/nodes/n2")

    told = one_line(plugin("status", "prod-1").stdout)

    assert "prod-brokers-1" in told
    assert "n2 (its state is not known)" in told


def test_of_a_cluster_that_somebody_else_runs_no_pod_is_looked_for(incidents: Incidents, plugin: Plugin) -> None:
    incidents.cluster()
    incidents.awaiting()

    assert "Where the brokers run" not in plugin("status", "prod-1").stdout
    assert not [path for path in incidents.kubernetes.asked_for if path.endswith("/pods")]
