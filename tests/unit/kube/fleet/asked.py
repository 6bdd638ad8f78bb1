"""Questions to a fleet, the job of one, what was seen of it, and the answer: the smallest that make sense."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka_recovery.fleet.manifest import Loss, Manifest, Output, Snapshot, Summary, checksum, written
from kafka_recovery.kube.fleet import naming
from kafka_recovery.kube.fleet.dialect import Adapter
from kafka_recovery.kube.fleet.ports import Job
from kafka_recovery.kube.fleet.resource import FleetRanking, read_ranking
from kafka_recovery.kube.fleet.runs import Active
from kafka_recovery.kube.fleet.steps import Found
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.resources.kinds import RANKINGS
from unit.kube.specs import RANKING, stored

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
"""When every ranking here was created."""
POLICY_DIGEST = "ab" * 32
NIGHTLY = "0 2 * * *"
SUMMARY = Summary(clusters=2, partitions=10, lossless=4, bounded=3, unknown=2, none=1)
WORST = Loss("one", "brokers 3 and 7", offline=5, lossless=2, bounded=1, unknown=1, none=1)


def ranking(**fields: Any) -> FleetRanking:
    """The FleetRanking kafka/prod with these fields of its spec, by their names in it."""
    return read_ranking(stored(RANKINGS, RANKING | fields))


def active(asked: FleetRanking, number: int = 1, adapter: Adapter = Adapter.KUBEFLOW, **fields: Any) -> Active:
    """An attempt that began at noon."""
    run = naming.run_name(asked.meta, NOON)
    return replace(naming.attempt(asked, run, number, NOON, adapter, POLICY_DIGEST), **fields)


def job(**fields: Any) -> Job:
    """What the smallest question has Spark run."""
    asked = ranking()
    return replace(naming.job(asked, active(asked)), **fields)


def manifest(asked: FleetRanking, attempt: Active, **fields: Any) -> Manifest:
    """The answer to this attempt."""
    whole = Manifest(
        task=asked.spec.task.lower(),
        run=naming.folder(asked.meta, attempt.application),
        policy_digest=attempt.policy_digest,
        evidence=(snapshot("one"), snapshot("two")),
        outputs=(Output("ranking/part-0.parquet", 10, "00" * 32),),
        summary=SUMMARY,
    )
    return replace(whole, **fields)


def snapshot(cluster: str, digest: str = "cd" * 32) -> Snapshot:
    """A cluster's evidence, in a file named as `kafka-recovery snapshot` names it."""
    return Snapshot(cluster, f"cluster_id={cluster}/day=2026-11-21/20261121T120000Z-{digest[:16]}.parquet", digest)


def found(asked: FleetRanking, attempt: Active) -> Found:
    """The same, read back."""
    answer = manifest(asked, attempt)
    return Found(answer, checksum(written(answer)))


def pod(role: str = "driver", phase: str = "Pending", *, created: datetime = NOON, **status: Any) -> Object:
    """A Pod of a job."""
    meta = {"name": f"prod-{role}", "uid": f"uid-{role}", "labels": {"spark-role": role}}
    return {
        "metadata": meta | {"creationTimestamp": f"{created:%Y-%m-%dT%H:%M:%SZ}"},
        "status": {"phase": phase, **status},
    }


def waiting(reason: str, message: str = "") -> Object:
    """The status of a Pod whose container does not start."""
    return {"containerStatuses": [{"state": {"waiting": {"reason": reason, "message": message}}}]}


def unschedulable(message: str) -> Object:
    """The status of a Pod that fits on no node."""
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}


def ended(exit_code: int, message: str = "", reason: str = "Error") -> Object:
    """The status of a Pod whose container ran for a minute from noon."""
    told = {"startedAt": "2026-11-21T12:00:00Z", "finishedAt": "2026-11-21T12:01:00Z"}
    state = {"terminated": {"exitCode": exit_code, "reason": reason, "message": message, **told}}
    return {"containerStatuses": [{"state": state}]}


def after(**duration: float) -> datetime:
    """So long after noon."""
    return NOON + timedelta(**duration)


def run_of(url: str, of_manifest: str | None, name: str = "nightly-1", **fields: Any) -> dict[str, Any]:
    """A finished run as status has it."""
    return {
        "name": name,
        "application": f"{name}-1",
        "adapter": "Kubeflow",
        "attempts": 1,
        "startedAt": "2026-11-21T12:00:00Z",
        "endedAt": "2026-11-21T12:01:00Z",
        "outcome": "Succeeded",
        "reason": "Succeeded",
        "message": "",
        "policyDigest": POLICY_DIGEST,
        "result": url,
        **({"checksum": of_manifest} if of_manifest else {}),
        **fields,
    }
