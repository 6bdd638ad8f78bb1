"""SparkApplications of Apache's Spark operator (spark.apache.org/v1). Pure translation.

What its states mean is taken from the enum ApplicationStateSummary in its source and from its document on custom
resources: a failure or success is followed by ResourceReleased or TerminatedWithoutReleaseResources, which say nothing
themselves, so the history of states is read. Its `suspend` (since 1.1) does not end what runs: a job is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.fleet import pods as told
from kafka_recovery.kube.fleet import templates
from kafka_recovery.kube.fleet.dialect import Adapter, waiting_reason
from kafka_recovery.kube.fleet.ports import Job, Phase, Seen
from kafka_recovery.kube.machinery.api import Object

_PHASES = {
    "": Phase.WAITING,
    "Submitted": Phase.WAITING,
    "ScheduledToRestart": Phase.WAITING,
    "DriverRequested": Phase.WAITING,
    "DriverStarted": Phase.RUNNING,
    "DriverReady": Phase.RUNNING,
    "InitializedBelowThresholdExecutors": Phase.RUNNING,
    "RunningHealthy": Phase.RUNNING,
    "RunningWithPartialCapacity": Phase.RUNNING,
    "RunningWithBelowThresholdExecutors": Phase.RUNNING,
    "DriverStartTimedOut": Phase.FAILED,
    "DriverReadyTimedOut": Phase.FAILED,
    "ExecutorsStartTimedOut": Phase.FAILED,
    "SchedulingFailure": Phase.FAILED,
    "DriverEvicted": Phase.FAILED,
    "Failed": Phase.FAILED,
    "Succeeded": Phase.SUCCEEDED,
}
_OVER = frozenset({"ResourceReleased", "TerminatedWithoutReleaseResources"})
_CODES = dict.fromkeys(("Failed", "SchedulingFailure"), "ApplicationFailed")

_MILLISECOND = timedelta(milliseconds=1)


class Apache:
    """Its dialect."""

    adapter: ClassVar[Adapter] = Adapter.APACHE
    api: ClassVar[str] = "spark.apache.org/v1"
    cancelling: ClassVar[Object | None] = None

    def written(self, job: Job) -> Object:
        """The object that has the job run."""
        return {
            "apiVersion": self.api,
            "kind": "SparkApplication",
            "metadata": templates.metadata(job),
            "spec": {
                "mainClass": "org.apache.spark.deploy.PythonRunner",  # what spark-submit makes of a Python file
                "pyFiles": job.main_file,  # the main file, whatever the field's name
                "driverArgs": list(job.arguments),
                "deploymentMode": "ClusterMode",
                "runtimeVersions": {"sparkVersion": templates.SPARK_VERSION},
                "sparkConf": dict(job.settings) | _settings(job),
                "applicationTolerations": _tolerations(job),
                "driverSpec": {"podTemplateSpec": templates.driver(job)},
                "executorSpec": {"podTemplateSpec": templates.executor(job)},
            },
        }

    def seen(self, application: Object, pods: Sequence[Object], warnings: Sequence[str]) -> Seen:
        """What object, Pods and warnings about the driver's Pod say together."""
        state = _deciding(application.get("status") or {})
        word = str(state.get("currentStateSummary") or "")
        phase = Phase.FAILED if word in _OVER else _PHASES.get(word, Phase.RUNNING)
        driver = told.driver_of(pods)
        pod_status = driver.get("status") if driver else state.get("lastObservedDriverStatus")
        started, ended = told.ran({"status": pod_status or {}})
        return Seen(
            phase,
            reason=_reason(word, phase, state, pod_status or {}) or _waiting(word, phase, pods, warnings),
            driver=driver["metadata"]["name"] if driver else None,
            started=started,
            ended=ended,
        )


def _settings(job: Job) -> dict[str, str]:
    return {
        "spark.kubernetes.container.image": job.image,
        "spark.kubernetes.authenticate.driver.serviceAccountName": job.service_account,
        "spark.driver.cores": str(job.driver.cores),
        "spark.driver.memory": job.driver.memory,
        "spark.executor.instances": str(job.executors),
        "spark.executor.cores": str(job.executor.cores),
        "spark.executor.memory": job.executor.memory,
        "spark.kubernetes.driver.podTemplateContainerName": told.DRIVER_CONTAINER,
        "spark.kubernetes.executor.podTemplateContainerName": told.EXECUTOR_CONTAINER,
    }


def _tolerations(job: Job) -> Object:
    """Nothing is tried again there, nothing ended early, and the driver's Pod stays until its words were read."""
    longest = job.timeout // _MILLISECOND
    limits = ("driverStartTimeoutMillis", "driverReadyTimeoutMillis", "executorStartTimeoutMillis")
    return {
        "restartConfig": {"restartPolicy": "Never"},
        "resourceRetainPolicy": "Always",
        "applicationTimeoutConfig": dict.fromkeys(limits, longest),
    }


def _deciding(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state that says how it is: the current one, or, once all is over, the last that says how it ended."""
    current: Mapping[str, Any] = status.get("currentState") or {}
    if current.get("currentStateSummary") not in _OVER:
        return current
    history: Mapping[str, Mapping[str, Any]] = status.get("stateTransitionHistory") or {}
    numbered = sorted((int(number), number) for number in history if number.isdecimal())
    states = [history[number] for _, number in numbered]
    ends = [state for state in states if _PHASES.get(str(state.get("currentStateSummary")), Phase.RUNNING).ended]
    return ends[-1] if ends else current


def _reason(word: str, phase: Phase, state: Mapping[str, Any], pod_status: Mapping[str, Any]) -> Reason | None:
    if phase is not Phase.FAILED:
        return None
    said = told.last_words(pod_status)
    message = told.short(str(state.get("message") or ""))
    if word in _OVER:
        return Reason("ApplicationFailed", message or "Apache's Spark operator let it go before it had succeeded")
    return Reason(_CODES.get(word, word), said or message or "Apache's Spark operator did not say why")


def _waiting(word: str, phase: Phase, pods: Sequence[Object], warnings: Sequence[str]) -> Reason | None:
    if phase.ended:
        return None
    if word not in _PHASES:
        return Reason("ApiMissing", told.short(f"Apache's Spark operator calls its state {word}"))
    return waiting_reason(phase, pods, warnings)
