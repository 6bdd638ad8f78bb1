"""How a Spark operator's API is spoken: each adapter is one pure translation there and back."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.fleet import pods as told
from kafka_recovery.kube.fleet.ports import Job, Phase, Seen
from kafka_recovery.kube.machinery.api import Object

PLURAL = "sparkapplications"
"""In both APIs."""


class Adapter(StrEnum):
    """Whose SparkApplication it is."""

    APACHE = "Apache"
    KUBEFLOW = "Kubeflow"


class Dialect(Protocol):
    """`api`: group and version. `cancelling`: the merge patch that ends a job and leaves it readable; None: delete."""

    @property
    def adapter(self) -> Adapter: ...

    @property
    def api(self) -> str: ...

    @property
    def cancelling(self) -> Object | None: ...

    def written(self, job: Job) -> Object:
        """The object that has the job run."""

    def seen(self, application: Object, pods: Sequence[Object], warnings: Sequence[str]) -> Seen:
        """What object, Pods and warnings about the driver's Pod say together."""


def waiting_reason(phase: Phase, pods: Sequence[Object], warnings: Sequence[str]) -> Reason | None:
    """Why a job does not get on, by its Pods: neither API says it, and neither ends such a job."""
    if phase is Phase.WAITING:
        driver = told.driver_of(pods)
        return told.hindrance(driver, warnings) if driver else None
    executors = told.executors_of(pods)
    if any(pod.get("status", {}).get("phase") == "Running" for pod in executors):
        return None
    return next(filter(None, map(told.hindrance, executors)), None)
