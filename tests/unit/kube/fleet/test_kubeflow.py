"""Kubeflow's SparkApplications: what is written, and what is made of each state that its controller was seen in."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.fleet.fields import Share, Volume
from kafka_recovery.kube.fleet.kubeflow import Kubeflow, excerpt
from kafka_recovery.kube.fleet.ports import Phase, Seen
from kafka_recovery.kube.machinery.api import Object
from unit.kube.fleet.asked import ended, job, pod, unschedulable, waiting

REFUSED = """failed to submit spark application: failed to run spark-submit: WARNING: Using incubator modules
26/11/21 14:26:29 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...
Exception in thread "main" io.fabric8.kubernetes.client.KubernetesClientException: Failure executing: PATCH at: \
https://10.0.0.1/apis/networking.k8s.io/v1/namespaces/fleet/networkpolicies/x. Message: networkpolicies "x" is \
forbidden: User "spark" cannot patch resource. Received status: Status(apiVersion=v1, code=403, details=null).
\tat io.fabric8.kubernetes.client.KubernetesClientException.copyAsCause(KubernetesClientException.java:205)
"""


def seen(state: str, *pods: Object, error: str = "", warnings: tuple[str, ...] = (), **status: Any) -> Seen:
    said = {"applicationState": {"state": state, "errorMessage": error}, "sparkApplicationId": "spark-1", **status}
    return Kubeflow().seen({"metadata": {}, "status": said}, pods, warnings)


def test_a_job_is_written_whole() -> None:
    asked = job(
        driver=Share(cores=2, memory="4g"),
        executors=7,
        settings={"spark.ui.enabled": "false"},
        credentials="s3",
        volume=Volume(name="fleet", mountPath="/fleet"),
    )
    written = Kubeflow().written(asked)

    spec = written["spec"]
    driver, executor = (spec[role]["template"]["spec"] for role in ("driver", "executor"))
    assert (written["apiVersion"], written["kind"]) == ("sparkoperator.k8s.io/v1beta2", "SparkApplication")
    assert spec["restartPolicy"] == {"type": "Never"}
    assert spec["sparkConf"] == {"spark.ui.enabled": "false"}
    assert (spec["driver"]["cores"], spec["driver"]["memory"], spec["executor"]["instances"]) == (2, "4g", 7)
    assert spec["driver"]["serviceAccount"] == "kafka-recovery-fleet"
    assert [each["name"] for each in driver["volumes"]] == ["config", "storage"]
    assert [each["name"] for each in executor["volumes"]] == ["storage"]
    for role, pod_spec in (("driver", driver), ("executor", executor)):
        (container,) = pod_spec["containers"]
        assert container["name"] == f"spark-kubernetes-{role}"
        assert container["envFrom"] == [{"secretRef": {"name": "s3"}}]
        assert pod_spec["securityContext"]["runAsNonRoot"]


def test_it_belongs_to_the_ranking_and_is_found_by_labels() -> None:
    meta = Kubeflow().written(job())["metadata"]

    (owner,) = meta["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("FleetRanking", "prod", True)
    assert meta["labels"] == {
        "app.kubernetes.io/managed-by": "kafka-recovery-operator",
        "kafka-recovery.dev/fleet-ranking": "prod",
        "kafka-recovery.dev/fleet-run": "prod-29921040",
        "kafka-recovery.dev/spark-application": "prod-29921040-1",
    }


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("", Phase.WAITING),
        ("SUBMITTED", Phase.WAITING),
        ("PENDING_RERUN", Phase.WAITING),
        ("INVALIDATING", Phase.WAITING),
        ("RESUMING", Phase.WAITING),
        ("RUNNING", Phase.RUNNING),
        ("SUCCEEDING", Phase.RUNNING),
        ("FAILING", Phase.RUNNING),
        ("SUSPENDING", Phase.RUNNING),
        ("UNKNOWN", Phase.RUNNING),
        ("COMPLETED", Phase.SUCCEEDED),
        ("FAILED", Phase.FAILED),
        ("SUBMISSION_FAILED", Phase.FAILED),
        ("SUSPENDED", Phase.FAILED),
    ],
)
def test_each_state_has_a_phase(state: str, phase: Phase) -> None:
    assert seen(state).phase is phase


def test_a_state_of_another_release_is_told_and_ends_nothing() -> None:
    assert seen("PAUSED").phase is Phase.RUNNING
    assert seen("PAUSED").reason == Reason("ApiMissing", "Kubeflow's Spark operator calls its state PAUSED")


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (waiting("ErrImagePull", "no such image"), Reason("ErrImagePull", "no such image")),
        (
            waiting("CreateContainerConfigError", 'secret "s3" not found'),
            Reason("CreateContainerConfigError", 'secret "s3" not found'),
        ),
        (unschedulable("0/3 nodes are available"), Reason("Unschedulable", "0/3 nodes are available")),
        (waiting("ContainerCreating"), None),
        ({}, None),
    ],
)
def test_what_stays_submitted_is_explained_by_its_driver_s_pod(status: Object, reason: Reason | None) -> None:
    assert seen("SUBMITTED", pod(**status)) == Seen(Phase.WAITING, reason, driver="prod-driver")


def test_a_volume_that_can_t_be_mounted_is_told_by_an_event_only() -> None:
    warning = 'FailedMount: configmap "prod-1" not found'

    assert seen("SUBMITTED", pod(**waiting("ContainerCreating")), warnings=("older", warning)).reason == Reason(
        "DriverPending", warning
    )


def test_a_job_without_executors_says_why() -> None:
    driver, stuck = pod(phase="Running"), pod("executor", **unschedulable("insufficient memory"))

    assert seen("RUNNING", driver, stuck).reason == Reason("Unschedulable", "insufficient memory")
    assert seen("RUNNING", driver, stuck, pod("executor", "Running")).reason is None


def test_without_its_pod_the_application_s_own_word_must_do() -> None:
    assert seen("FAILED", error="driver pod not found").reason == Reason("ApplicationFailed", "driver pod not found")
    assert seen("FAILED").reason == Reason("ApplicationFailed", "Kubeflow's Spark operator did not say why")


def test_a_driver_out_of_memory_says_so() -> None:
    killed = pod(phase="Failed", **ended(137, reason="OOMKilled"))

    assert seen("FAILED", killed).reason == Reason("ApplicationFailed", "OOMKilled, exit code 137")


def test_a_refused_submission_is_told_from_a_failed_driver() -> None:
    said = {"applicationState": {"state": "FAILED", "errorMessage": REFUSED}}

    assert Kubeflow().seen({"metadata": {}, "status": said}, (), ()).reason == Reason(
        "ApplicationFailed", 'networkpolicies "x" is forbidden: User "spark" cannot patch resource.'
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("", ""),
        (
            "driver container failed with ExitCode: 1, Reason: Error",
            "driver container failed with ExitCode: 1, Reason: Error",
        ),
        (
            'x\nException in thread "main" java.lang.IllegalArgumentException: no such class\n\tat a.b',
            "java.lang.IllegalArgumentException: no such class",
        ),
        ("\n\x1b[31mbad\x07", "\\x1b[31mbad\\x07"),
        ("e" * 600, "e" * 499 + "…"),
    ],
)
def test_of_a_long_error_what_matters_is_kept(error: str, said: str) -> None:
    assert excerpt(error) == said


def test_cancelling_leaves_the_object_readable() -> None:
    assert Kubeflow().cancelling == {"spec": {"suspend": True}}
    assert seen("SUSPENDED").reason == Reason("Suspended", "it was suspended")
