"""The Pods of a job as both Spark operators take them: a template for the driver, one for executors. Pure."""

from __future__ import annotations

from typing import Any

from kafka_recovery.kube.fleet.pods import DRIVER_CONTAINER, EXECUTOR_CONTAINER
from kafka_recovery.kube.fleet.ports import Job
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.machinery.applied import FIELD_MANAGER
from kafka_recovery.kube.resources.kinds import GROUP

APPLICATION_LABEL = f"{GROUP}/spark-application"
"""On every Pod of a job: its name. Neither operator's own label, so both are looked for alike."""

SPARK_VERSION = "4.3.0"
"""What both APIs want to be told; the image decides."""


def metadata(job: Job) -> Object:
    """Of the object that stands for the job."""
    owner = {
        "apiVersion": job.owner.api_version,
        "kind": job.owner.kind,
        "name": job.owner.name,
        "uid": job.owner.uid,
        "controller": True,
        "blockOwnerDeletion": False,  # true takes a right to the owner's finalizers that nobody needs
    }
    return {"name": job.name, "namespace": job.namespace, "labels": labels(job), "ownerReferences": [owner]}


def labels(job: Job) -> dict[str, str]:
    """On all that belongs to a job."""
    return {"app.kubernetes.io/managed-by": FIELD_MANAGER, **job.labels, APPLICATION_LABEL: job.name}


def driver(job: Job) -> Object:
    """Its Pod: alone it sees the ConfigMap, and its last words are kept."""
    return _template(job, DRIVER_CONTAINER, job.config)


def executor(job: Job) -> Object:
    """Each executor's Pod."""
    return _template(job, EXECUTOR_CONTAINER, None)


def _template(job: Job, container: str, config: str | None) -> Object:
    volumes: list[Any] = []
    mounts: list[Any] = []
    if config:
        volumes.append({"name": "config", "configMap": {"name": config}})
        mounts.append({"name": "config", "mountPath": job.config_path, "readOnly": True})
    if job.volume:
        volumes.append({"name": "storage", "persistentVolumeClaim": {"claimName": job.volume.claim}})
        mounts.append({"name": "storage", "mountPath": job.volume.mount_path})
    main: Object = {
        "name": container,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    if job.credentials:
        main["envFrom"] = [{"secretRef": {"name": job.credentials}}]
    if mounts:
        main["volumeMounts"] = mounts
    spec: Object = {
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [main],
    }
    if volumes:
        spec["volumes"] = volumes
    return {"metadata": {"labels": labels(job)}, "spec": spec}
