"""FleetRankings on a real API server, with Kubeflow's real controller, and a stand-in for Apache's.

There is no node: a test says what a kubelet would say of the driver's Pod, and writes what the job would write.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver.conftest import discovered
from apiserver.fleet import CHOSEN, Fleet
from kafka_recovery.domain.election import Ranked as Chosen
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.kube.fleet.leaders import unpacked
from kafka_recovery_spark.session import check_java
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.spark_operator import apache, distribution, kubeflow
from testbed.waiting import wait_until

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(300), pytest.mark.xdist_group("fleet")]

FAILED = {"exitCode": 1, "reason": "Error", "message": "no evidence of cluster one\n"}
KUBEFLOW = "sparkapplications.sparkoperator.k8s.io"


@pytest.fixture(scope="module")
def kubeflow_definition(control_plane: ControlPlane) -> Iterator[None]:
    """Kubeflow's own, which are too large for what `kubectl apply` writes down beside them."""
    kubectl = control_plane.kubectl()
    definitions = str(distribution.fetch().definitions)
    kubectl("create", "-f", definitions)
    wait_until("it is served", lambda: discovered(kubectl, KUBEFLOW), bool)
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


def test_without_a_spark_operator_it_says_what_to_install(fleet: Fleet) -> None:
    fleet.ask("once")
    status = fleet.until("once", "ApiMissing", "install a Spark operator that watches this namespace")

    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "Ready": "False",
        "Reconciling": "False",
        "Stalled": "True",
    }


# Kubeflow's real controller: it takes four minutes of CPU to build and a JVM a submission, and rarely changes.
# `unit/kube/fleet/test_kubeflow.py` tells the same of its objects, the tests of Apache's below of the operator.


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
    fleet.until("nightly", "Running", "no evidence of cluster one (Error, exit code 1)")

    assert fleet.active("nightly").attempt == 2
    assert fleet.active("nightly").application != first


@pytest.mark.full
def test_what_hangs_says_why_and_what_was_edited_is_cancelled(kubeflow_operator: None, fleet: Fleet) -> None:
    fleet.ask("nightly", adapter="Kubeflow")
    fleet.kubelet_says("nightly", "Pending", waiting={"reason": "ErrImagePull", "message": "no such image"})
    fleet.until("nightly", "DriverPending", "ErrImagePull: no such image")

    application = fleet.active("nightly").application
    change = '{"spec": {"driver": {"cores": 2}}}'
    fleet.kubectl("patch", KUBEFLOW, application, "--type=merge", "-p", change)
    fleet.until("nightly", "ApplicationNotOurs", "changed by kubectl-patch")
    assert fleet.kubectl.api.get(KUBEFLOW, application)["spec"]["suspend"]


@pytest.mark.full
def test_a_refused_submission_is_told_in_a_sentence(kubeflow_operator: None, fleet: Fleet) -> None:
    fleet.ask("nightly", adapter="Kubeflow", serviceAccount="nobody", retries=0)
    status = fleet.until("nightly", "ApplicationFailed")

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
        status = fleet.until("nightly", "Succeeded", "10 partitions of 2 clusters")

    led = Chosen(BrokerId(3), LeaderEpoch(CHOSEN.leader_epoch), TopicId(CHOSEN.topic_id))
    leaders = {TopicPartition(CHOSEN.topic, CHOSEN.partition): led}
    assert unpacked(status["runs"][0]["leaders"], "nightly") == {"one": leaders, "two": {}}


def test_a_fleet_operator_is_ready_with_the_rights_that_we_ship_and_its_check_says_so(
    fleet: Fleet, control_plane: ControlPlane, namespace: str
) -> None:
    wait_until("its Pod would be ready", fleet.process.is_ready, bool)

    who = control_plane.service_account(namespace, "kafka-recovery-operator-fleet")
    done = subprocess.run(
        [sys.executable, "-m", "kafka_recovery.kube.fleet_main", f"--operator-namespace={namespace}", "--check"],
        env=os.environ | {"KUBECONFIG": str(who)},
        capture_output=True,
        text=True,
        timeout=90,
    )

    assert (done.returncode, done.stdout.strip()) == (0, "kinds can be listed, the Lease is renewed"), done.stderr


def test_a_fleet_operator_that_is_told_to_end_gives_its_lease_back(fleet: Fleet) -> None:
    """The next one goes on at once, from what stands in status."""
    fleet.process.says("FleetRankings are looked for in")
    assert fleet.process.stop() == 0

    lease = fleet.kubectl.api.get("lease", "kafka-recovery-operator-fleet")
    assert not lease["spec"].get("holderIdentity")


def test_released_after_a_failure_is_a_failure(
    apache_definition: None, control_plane: ControlPlane, fleet: Fleet
) -> None:
    words = {"containerStatuses": [{"state": {"terminated": FAILED}}]}
    failed = {"currentStateSummary": "Failed", "message": "a container failed", "lastObservedDriverStatus": words}
    fleet.ask("nightly", adapter="Apache", retries=0)
    plan = ("Submitted", "DriverRequested", failed)
    with apache.ApacheOperator(control_plane.client(), fleet.namespace, plan, last=apache.RELEASED):
        fleet.until("nightly", "ApplicationFailed", "no evidence of cluster one (Error, exit code 1)")


def test_an_application_that_somebody_deletes_is_made_again(
    apache_definition: None, control_plane: ControlPlane, fleet: Fleet
) -> None:
    fleet.ask("nightly", adapter="Apache")
    first = fleet.active("nightly").application
    fleet.until("nightly", "DriverPending")
    fleet.kubectl("delete", f"{apache.PLURAL}.{apache.GROUP}", first)

    fleet.until("nightly", "Running", "was deleted by somebody else")
