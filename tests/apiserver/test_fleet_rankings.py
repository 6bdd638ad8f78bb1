"""FleetRankings on a real API server, with Kubeflow's real controller, and a stand-in for Apache's.

There is no node: a test says what a kubelet would say of the driver's Pod, and writes what the job would write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import CoreV1Api

from apiserver.incidents import Start, policy
from kafka_recovery.fleet.manifest import NAME, written
from kafka_recovery.kube.fleet.pods import DRIVER_CONTAINER
from kafka_recovery.kube.fleet.resource import read_ranking
from kafka_recovery.kube.fleet.runs import Active, remembered
from kafka_recovery.kube.resources import API_VERSION
from kafka_recovery.spark.session import check_java
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.spark_operator import apache, distribution, kubeflow
from testbed.waiting import wait_until
from unit.kube.fleet.asked import manifest

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300)]

RIGHTS = Path(__file__).parents[2] / "manifests" / "rbac" / "optional" / "fleet.yaml"
FAILED = {"exitCode": 1, "reason": "Error", "message": "no evidence of cluster one\n"}
KUBEFLOW, APACHE = "sparkapplications.sparkoperator.k8s.io", "sparkapplications.spark.apache.org"


@dataclass(frozen=True, slots=True)
class Fleet:
    """A namespace with an operator, a policy, and a folder for results that both see."""

    kubectl: Kubectl
    namespace: str
    results: Path
    core: CoreV1Api

    def ask(self, name: str, **spec: Any) -> None:
        """Somebody creates a FleetRanking."""
        places = {"evidence": f"file://{self.results}/evidence", "results": f"file://{self.results}/results"}
        given = {"task": "Rank", "policyRef": {"name": "prod"}, "storage": places, "image": "localhost/none:1"}
        meta = {"name": name, "namespace": self.namespace}
        self.kubectl.apply({"apiVersion": API_VERSION, "kind": "FleetRanking", "metadata": meta, "spec": given | spec})

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.kubectl.json("get", "frank", name)["status"]
        return status

    def until(self, name: str, reason: str, message: str = "") -> dict[str, Any]:
        """Waits until Ready has this reason, and these words in its message; returns the status."""

        def look() -> tuple[str, str, dict[str, Any]]:
            status = self.status(name)
            ready: dict[str, str] = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), {})
            return ready.get("reason", ""), ready.get("message", ""), status

        return wait_until(f"{name} is {reason}", look, lambda seen: seen[0] == reason and message in seen[1], 120)[2]

    def active(self, name: str) -> Active:
        found = wait_until(f"{name} runs", lambda: remembered(self.status(name)).active, lambda seen: seen is not None)
        assert found
        return found

    def kubelet_says(self, name: str, phase: str, **state: Any) -> None:
        """Of the driver of the attempt under way, once spark-submit has made its Pod."""
        pod = f"{self.active(name).application}-driver"
        self.until_there("pod", pod)
        started = {"startedAt": "2026-11-21T12:00:00Z"}
        told = {kind: {**(started if kind != "waiting" else {}), **fields} for kind, fields in state.items()}
        container = {
            "name": DRIVER_CONTAINER,
            "image": "x",
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": told,
        }
        body = {"status": {"phase": phase, "containerStatuses": [container]}}
        self.core.patch_namespaced_pod_status(pod, self.namespace, body)

    def until_there(self, kind: str, name: str) -> None:
        """A submission takes a while."""
        wait_until(f"{name} is there", lambda: self._has(kind, name), bool, 120)

    def until_gone(self, kind: str, name: str) -> None:
        """A garbage collector takes half a minute until it knows a new kind."""
        wait_until(f"{name} is gone", lambda: not self._has(kind, name), bool, 120)

    def _has(self, kind: str, name: str) -> bool:
        return self.kubectl.attempt("get", kind, name).returncode == 0

    def write_result(self, name: str) -> None:
        """What the job would write last."""
        asked, attempt = read_ranking(self.kubectl.json("get", "frank", name)), self.active(name)
        folder = Path(attempt.result.removeprefix("file://"))
        folder.mkdir(parents=True)
        (folder / NAME).write_bytes(written(manifest(asked, attempt)))


@pytest.fixture
def fleet(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, account: Path, start: Start, tmp_path: Path
) -> Fleet:
    """The operator has the rights that we ship, and no other."""
    kubectl(
        "apply",
        "--server-side",
        "-f",
        "-",
        given=re.sub(r"\bnamespace: kafka-recovery\b", f"namespace: {namespace}", RIGHTS.read_text()),
    )
    kubectl.apply(policy())
    for folder in ("evidence", "results"):
        (tmp_path / folder).mkdir()
    start()
    return Fleet(kubectl, namespace, tmp_path, CoreV1Api(control_plane.client()))


@pytest.fixture(scope="module")
def kubeflow_definition(control_plane: ControlPlane) -> Iterator[None]:
    """Kubeflow's own, which are too large for what `kubectl apply` writes down beside them."""
    kubectl = control_plane.kubectl()
    definitions = str(distribution.fetch().definitions)
    kubectl("create", "-f", definitions)
    wait_until("it is served", lambda: kubectl.attempt("get", KUBEFLOW).returncode, lambda code: code == 0)
    yield
    kubectl("delete", "-f", definitions)


@pytest.fixture
def kubeflow_operator(
    kubeflow_definition: None, control_plane: ControlPlane, namespace: str, kubectl: Kubectl, tmp_path: Path
) -> Iterator[None]:
    """Kubeflow's real controller; it runs the real spark-submit."""
    check_java()
    kubectl("apply", "--server-side", "-f", str(kubeflow.RIGHTS))
    folder = tmp_path / "kubeflow"
    folder.mkdir()
    who = control_plane.service_account(namespace, kubeflow.ACCOUNT)
    with kubeflow.KubeflowOperator(who, namespace, folder):
        yield
    print((folder / "console.log").read_text()[-4000:])  # for whoever reads a failed test


@pytest.fixture(scope="module")
def apache_definition(control_plane: ControlPlane) -> Iterator[None]:
    """With the fields that our adapter uses, and no other."""
    kubectl = control_plane.kubectl()
    kubectl("apply", "--server-side", "-f", str(apache.DEFINITION))
    wait_until("it is served", lambda: kubectl.attempt("get", APACHE).returncode, lambda code: code == 0)
    yield
    kubectl("delete", "crd", APACHE)


def test_without_a_spark_operator_it_says_what_to_install(fleet: Fleet) -> None:
    fleet.ask("once")
    status = fleet.until("once", "NoSparkOperator", "install a Spark operator that watches this namespace")

    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "Ready": "False",
        "Reconciling": "False",
        "Stalled": "True",
    }


# Kubeflow's real controller


@pytest.mark.full
def test_a_question_is_answered_through_kubeflow(kubeflow_operator: None, fleet: Fleet) -> None:
    fleet.ask("nightly", adapter="Kubeflow")
    fleet.kubelet_says("nightly", "Running", running={})
    fleet.until("nightly", "Running")
    fleet.write_result("nightly")
    fleet.kubelet_says("nightly", "Succeeded", terminated={"exitCode": 0, "reason": "Completed"})
    status = fleet.until("nightly", "Succeeded", "10 partitions of 2 clusters")

    assert status["runs"][0]["outcome"] == "Succeeded"
    assert "active" not in status
    table = fleet.kubectl("get", "frank", "nightly").splitlines()
    assert table[0].split()[:8] == ["NAME", "READY", "REASON", "TASK", "PARTITIONS", "LOSSLESS", "BOUNDED", "UNKNOWN"]
    assert table[1].split()[:9] == ["nightly", "True", "Succeeded", "Rank", "10", "4", "3", "2", "1"]


@pytest.mark.full
def test_a_driver_that_fails_is_quoted_and_tried_again(kubeflow_operator: None, fleet: Fleet) -> None:
    fleet.ask("nightly", adapter="Kubeflow", retries=1)
    first = fleet.active("nightly").application
    fleet.kubelet_says("nightly", "Failed", terminated=FAILED)
    fleet.until("nightly", "Pausing", "no evidence of cluster one (Error, exit code 1)")

    assert fleet.active("nightly").attempt == 2
    assert fleet.active("nightly").application != first


@pytest.mark.full
def test_what_hangs_says_why_and_what_was_edited_is_cancelled(kubeflow_operator: None, fleet: Fleet) -> None:
    fleet.ask("nightly", adapter="Kubeflow")
    fleet.kubelet_says("nightly", "Pending", waiting={"reason": "ErrImagePull", "message": "no such image"})
    fleet.until("nightly", "Waiting", "ErrImagePull: no such image")

    application = fleet.active("nightly").application
    change = '{"spec": {"driver": {"cores": 2}}}'
    fleet.kubectl("patch", KUBEFLOW, application, "--type=merge", "-p", change)
    fleet.until("nightly", "ApplicationChanged", "changed by kubectl-patch")
    assert fleet.kubectl.json("get", KUBEFLOW, application)["spec"]["suspend"]


@pytest.mark.full
def test_a_refused_submission_is_told_in_a_sentence(kubeflow_operator: None, fleet: Fleet) -> None:
    fleet.ask("nightly", adapter="Kubeflow", serviceAccount="nobody", retries=0)
    status = fleet.until("nightly", "ApplicationFailed", "SubmissionFailed")

    assert "nobody" in status["runs"][0]["message"]
    assert "\tat " not in status["runs"][0]["message"]


@pytest.mark.full
def test_with_a_ranking_all_of_it_goes(kubeflow_operator: None, fleet: Fleet) -> None:
    fleet.ask("nightly", adapter="Kubeflow")
    application = fleet.active("nightly").application
    fleet.until_there(KUBEFLOW, application)
    fleet.kubectl("delete", "frank", "nightly")

    fleet.until_gone(KUBEFLOW, application)
    fleet.until_gone("configmap", application)


# A stand-in for Apache's operator


def test_a_question_is_answered_through_apache(
    apache_definition: None, control_plane: ControlPlane, fleet: Fleet
) -> None:
    fleet.ask("nightly", adapter="Apache")
    fleet.write_result("nightly")
    with apache.ApacheOperator(control_plane.client(), fleet.namespace):
        fleet.until("nightly", "Succeeded", "10 partitions of 2 clusters")


def test_released_after_a_failure_is_a_failure(
    apache_definition: None, control_plane: ControlPlane, fleet: Fleet
) -> None:
    words = {"containerStatuses": [{"state": {"terminated": FAILED}}]}
    failed = {"currentStateSummary": "Failed", "message": "a container failed", "lastObservedDriverStatus": words}
    fleet.ask("nightly", adapter="Apache", retries=0)
    with apache.ApacheOperator(control_plane.client(), fleet.namespace, ("Submitted", "DriverRequested", failed)):
        fleet.until("nightly", "ApplicationFailed", "no evidence of cluster one (Error, exit code 1)")


def test_an_application_that_somebody_deletes_is_made_again(
    apache_definition: None, control_plane: ControlPlane, fleet: Fleet
) -> None:
    fleet.ask("nightly", adapter="Apache")
    first = fleet.active("nightly").application
    fleet.until("nightly", "Waiting")
    fleet.kubectl("delete", APACHE, first)

    fleet.until("nightly", "Pausing", "was deleted by somebody else")
