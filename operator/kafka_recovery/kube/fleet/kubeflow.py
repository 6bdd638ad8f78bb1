"""SparkApplications of Kubeflow's Spark operator (sparkoperator.k8s.io/v1beta2). Pure translation.

What its states mean was seen with release 2.5.2: SUBMITTED has no end of its own, COMPLETED says that the driver
exited with 0, and `suspend` ends a run so that it can still be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.fleet import pods as told
from kafka_recovery.kube.fleet import templates
from kafka_recovery.kube.fleet.dialect import Adapter, waiting_reason
from kafka_recovery.kube.fleet.ports import Job, Phase, Seen
from kafka_recovery.kube.machinery.api import Object

_PHASES = {
    "": Phase.WAITING,
    "SUBMITTED": Phase.WAITING,
    "PENDING_RERUN": Phase.WAITING,
    "INVALIDATING": Phase.WAITING,
    "RESUMING": Phase.WAITING,
    "RUNNING": Phase.RUNNING,
    "SUCCEEDING": Phase.RUNNING,
    "FAILING": Phase.RUNNING,
    "SUSPENDING": Phase.RUNNING,
    "COMPLETED": Phase.SUCCEEDED,
    "FAILED": Phase.FAILED,
    "SUBMISSION_FAILED": Phase.FAILED,
    "SUSPENDED": Phase.FAILED,
}
_CODES = {"SUBMISSION_FAILED": "ApplicationFailed", "SUSPENDED": "Suspended", "FAILED": "ApplicationFailed"}
_SAID_BY_KUBERNETES = re.compile(r"Message: (?P<said>.+?)(?: Received status: |$)", re.S)
_SAID_BY_JAVA = re.compile(r"(?:Exception in thread \"\w+\" |Caused by: )?(?P<said>[\w.$]+(?:Exception|Error): [^\n]+)")


class Kubeflow:
    """Its dialect."""

    adapter: ClassVar[Adapter] = Adapter.KUBEFLOW
    api: ClassVar[str] = "sparkoperator.k8s.io/v1beta2"
    cancelling: ClassVar[Object | None] = {"spec": {"suspend": True}}

    def written(self, job: Job) -> Object:
        """The object that has the job run."""
        return {
            "apiVersion": self.api,
            "kind": "SparkApplication",
            "metadata": templates.metadata(job),
            "spec": {
                "type": "Python",
                "pythonVersion": "3",
                "mode": "cluster",
                "sparkVersion": templates.SPARK_VERSION,
                "image": job.image,
                "mainApplicationFile": job.main_file,
                "arguments": list(job.arguments),
                "restartPolicy": {"type": "Never"},  # the operator counts tries itself
                **({"sparkConf": dict(job.settings)} if job.settings else {}),
                "driver": {
                    "cores": job.driver.cores,
                    "memory": job.driver.memory,
                    "serviceAccount": job.service_account,
                    "template": templates.driver(job),
                },
                "executor": {
                    "instances": job.executors,
                    "cores": job.executor.cores,
                    "memory": job.executor.memory,
                    "template": templates.executor(job),
                },
            },
        }

    def seen(self, application: Object, pods: Sequence[Object], warnings: Sequence[str]) -> Seen:
        """What object, Pods and warnings about the driver's Pod say together."""
        status = application.get("status") or {}
        state = status.get("applicationState") or {}
        word = str(state.get("state") or "")
        phase = _PHASES.get(word, Phase.RUNNING)
        driver = told.driver_of(pods)
        started, ended = told.ran(driver)
        if phase is Phase.FAILED and "sparkApplicationId" not in status:
            word = "SUBMISSION_FAILED"  # it stays in that state for a moment only
        return Seen(
            phase,
            reason=_reason(word, phase, str(state.get("errorMessage") or ""), pods, warnings),
            driver=(driver and driver["metadata"]["name"]) or (status.get("driverInfo") or {}).get("podName") or None,
            started=started,
            ended=ended,
        )


def _reason(word: str, phase: Phase, error: str, pods: Sequence[Object], warnings: Sequence[str]) -> Reason | None:
    if phase is Phase.SUCCEEDED:
        return None
    if phase is Phase.FAILED:
        driver = told.driver_of(pods)
        said = told.last_words(driver.get("status") or {}) if driver else None
        default = "it was suspended" if word == "SUSPENDED" else "Kubeflow's Spark operator did not say why"
        return Reason(_CODES[word], said or excerpt(error) or default)
    if word not in _PHASES:
        return Reason("ApiMissing", told.short(f"Kubeflow's Spark operator calls its state {word}"))
    return waiting_reason(phase, pods, warnings)


def excerpt(error: str) -> str:
    """What matters of an error message, which may be the whole output of spark-submit with its Java stack."""
    for pattern in (_SAID_BY_KUBERNETES, _SAID_BY_JAVA):
        if found := pattern.search(error):
            return told.short(found["said"])
    return told.short(next((line for line in error.splitlines() if line.strip()), ""))
