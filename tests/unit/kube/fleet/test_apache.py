"""Apache's SparkApplications: what is written, and what is made of each of its documented states."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.fleet.apache import Apache
from kafka_recovery.kube.fleet.fields import Share
from kafka_recovery.kube.fleet.ports import Phase, Seen
from kafka_recovery.kube.machinery.api import Object
from unit.kube.fleet.asked import job, pod, waiting

FAILED = {"currentStateSummary": "Failed", "message": "critical container failed"}
OVER = {"currentStateSummary": "ResourceReleased"}


def seen(current: str | Object, *pods: Object, history: tuple[Object, ...] = ()) -> Seen:
    state = {"currentStateSummary": current} if isinstance(current, str) else current
    numbered = {str(number): each for number, each in enumerate((*history, state))}
    return Apache().seen(
        {"metadata": {}, "status": {"currentState": state, "stateTransitionHistory": numbered}}, pods, ()
    )


def test_a_job_is_written_whole() -> None:
    asked = job(driver=Share(cores=2, memory="4g"), executors=7, settings={"spark.ui.enabled": "false"})
    spec = Apache().written(asked)["spec"]

    assert spec["pyFiles"] == asked.main_file
    assert spec["driverArgs"] == list(asked.arguments)
    assert spec["runtimeVersions"] == {"sparkVersion": "4.3.0"}
    assert spec["sparkConf"] == {
        "spark.ui.enabled": "false",
        "spark.kubernetes.container.image": asked.image,
        "spark.kubernetes.authenticate.driver.serviceAccountName": "kafka-recovery-fleet",
        "spark.kubernetes.driver.podTemplateContainerName": "spark-kubernetes-driver",
        "spark.kubernetes.executor.podTemplateContainerName": "spark-kubernetes-executor",
        "spark.driver.cores": "2",
        "spark.driver.memory": "4g",
        "spark.executor.instances": "7",
        "spark.executor.cores": "1",
        "spark.executor.memory": "2g",
    }


def test_it_is_ended_by_nobody_but_us_and_keeps_its_driver_s_last_words() -> None:
    tolerations = Apache().written(job())["spec"]["applicationTolerations"]

    assert tolerations["restartConfig"] == {"restartPolicy": "Never"}
    assert tolerations["resourceRetainPolicy"] == "Always"
    assert set(tolerations["applicationTimeoutConfig"].values()) == {3_600_000}


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("Submitted", Phase.WAITING),
        ("ScheduledToRestart", Phase.WAITING),
        ("DriverRequested", Phase.WAITING),
        ("DriverStarted", Phase.RUNNING),
        ("DriverReady", Phase.RUNNING),
        ("InitializedBelowThresholdExecutors", Phase.RUNNING),
        ("RunningHealthy", Phase.RUNNING),
        ("RunningWithPartialCapacity", Phase.RUNNING),
        ("RunningWithBelowThresholdExecutors", Phase.RUNNING),
        ("Succeeded", Phase.SUCCEEDED),
        ("Failed", Phase.FAILED),
        ("SchedulingFailure", Phase.FAILED),
        ("DriverEvicted", Phase.FAILED),
        ("DriverStartTimedOut", Phase.FAILED),
        ("DriverReadyTimedOut", Phase.FAILED),
        ("ExecutorsStartTimedOut", Phase.FAILED),
    ],
)
@pytest.mark.parametrize("over", [None, "ResourceReleased", "TerminatedWithoutReleaseResources"])
def test_each_state_has_a_phase_and_an_end_keeps_it_when_resources_are_released(
    state: str, phase: Phase, over: str | None
) -> None:
    if over is None:
        assert seen(state).phase is phase
    else:
        expected = phase if phase.ended else Phase.FAILED
        assert (
            seen(over, history=({"currentStateSummary": "Submitted"}, {"currentStateSummary": state})).phase is expected
        )


def test_released_after_a_failure_is_a_failure_and_says_why() -> None:
    assert seen(OVER, history=(FAILED,)).reason == Reason("ApplicationFailed", "critical container failed")


def test_released_without_an_end_was_let_go_by_somebody() -> None:
    history = ({"currentStateSummary": "RunningHealthy"},)

    assert seen(OVER, history=history).reason == Reason(
        "ApplicationFailed", "Apache's Spark operator let it go before it had succeeded"
    )


def test_state_10_comes_after_state_9() -> None:
    running = {"currentStateSummary": "RunningHealthy"}
    history = (*[running] * 9, {"currentStateSummary": "Failed"}, {"currentStateSummary": "Succeeded"})

    assert seen(OVER, history=history).phase is Phase.SUCCEEDED


def test_a_driver_that_does_not_start_is_explained_by_its_pod() -> None:
    assert seen("DriverRequested", pod(**waiting("ImagePullBackOff", "no such image"))) == Seen(
        Phase.WAITING, Reason("ImagePullBackOff", "no such image"), driver="prod-driver"
    )


def test_an_object_that_its_operator_has_not_looked_at_waits() -> None:
    assert Apache().seen({"metadata": {}}, (), ()) == Seen(Phase.WAITING)


def test_a_state_of_another_release_is_told_and_ends_nothing() -> None:
    assert seen("Suspended").phase is Phase.RUNNING
    assert seen("Suspended").reason == Reason("ApiMissing", "Apache's Spark operator calls its state Suspended")
