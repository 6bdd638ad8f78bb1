"""SparkApplications in the API: made once, looked at with their Pods, and never taken from somebody else."""

from __future__ import annotations

from typing import cast

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.fleet.apache import Apache
from kafka_recovery.kube.fleet.applications import Applications
from kafka_recovery.kube.fleet.dialect import Adapter
from kafka_recovery.kube.fleet.kubeflow import Kubeflow
from kafka_recovery.kube.fleet.ports import NotOurs, Owner, Phase, PreviousObjectsTerminating, Seen
from kafka_recovery.kube.machinery.api import Api
from unit.kube.fleet.asked import job, waiting
from unit.kube.fleet.spark_world import PODS, Cluster
from unit.kube.journal.journals import NAMESPACE

JOB = job()
PATH = f"/apis/sparkoperator.k8s.io/v1beta2/namespaces/{NAMESPACE}/sparkapplications/{JOB.name}"
STRANGER = job(owner=Owner("v1", "ConfigMap", "other", "other-uid"))


@pytest.fixture
def api() -> Cluster:
    api = Cluster()
    api.installed.add(Adapter.APACHE)
    for owner in (JOB.owner, STRANGER.owner):
        api.objects[f"/{owner.name}"] = {"metadata": {"uid": owner.uid}}
    return api


@pytest.fixture
def jobs(api: Cluster) -> Applications:
    return Applications(cast(Api, api), Kubeflow())


async def test_submitting_twice_is_submitting_once(jobs: Applications, api: Cluster) -> None:
    await jobs.submit(JOB)
    made = api.objects[PATH]
    await jobs.submit(JOB)

    assert api.objects[PATH] is made


async def test_a_name_that_belongs_to_somebody_else_is_refused(jobs: Applications) -> None:
    await jobs.submit(STRANGER)

    with pytest.raises(NotOurs, match=f"a SparkApplication {JOB.name} is there, and not of this FleetRanking"):
        await jobs.submit(JOB)


async def test_a_name_whose_object_is_being_deleted_is_not_free_yet(jobs: Applications, api: Cluster) -> None:
    await jobs.submit(STRANGER)
    api.objects[PATH]["metadata"]["deletionTimestamp"] = "2026-11-21T12:00:00Z"

    with pytest.raises(
        PreviousObjectsTerminating, match=f"SparkApplication {JOB.name} of somebody else is not gone yet"
    ):
        await jobs.submit(JOB)


async def test_what_belongs_to_somebody_else_is_neither_seen_nor_touched(jobs: Applications, api: Cluster) -> None:
    await jobs.submit(STRANGER)
    writes = len(api.writes)

    assert await jobs.observe(JOB) == Seen(Phase.GONE)
    await jobs.cancel(JOB)
    await jobs.remove(JOB)
    assert len(api.writes) == writes


async def test_what_is_not_there_is_gone_and_may_be_ended_again(jobs: Applications) -> None:
    assert await jobs.observe(JOB) == Seen(Phase.GONE)
    await jobs.cancel(JOB)
    await jobs.remove(JOB)


async def test_events_are_asked_only_where_a_pod_keeps_its_reason_to_itself(jobs: Applications, api: Cluster) -> None:
    await jobs.submit(JOB)
    labels = api.objects[PATH]["metadata"]["labels"] | {"spark-role": "driver"}
    driver = {"metadata": {"name": "d", "uid": "u", "labels": labels}, "status": {"phase": "Pending"}}
    api.objects[f"{PODS}/d"] = driver
    for number, message in enumerate(("newer", "older")):
        api.objects[f"/api/v1/namespaces/{NAMESPACE}/events/e{number}"] = {
            "metadata": {"uid": f"e{number}"},
            "reason": "FailedMount",
            "message": message,
            "involvedObject": {"uid": "u"},
            "lastTimestamp": f"2026-11-21T12:00:0{9 - number}Z",
        }
    assert (await jobs.observe(JOB)).reason == Reason("DriverPending", "FailedMount: newer")

    api.reads.clear()
    driver["status"] |= waiting("ErrImagePull", "no such image")
    assert (await jobs.observe(JOB)).reason == Reason("ErrImagePull", "no such image")
    assert not [path for path in api.reads if path.endswith("/events")]


async def test_a_spec_that_was_changed_is_told_with_who_did_it(jobs: Applications, api: Cluster) -> None:
    await jobs.submit(JOB)
    meta = api.objects[PATH]["metadata"]
    meta["managedFields"] = [
        {"manager": "kafka-recovery-operator", "fieldsV1": {"f:spec": {}}},
        {"manager": "spark-operator", "fieldsV1": {"f:status": {}}},
    ]
    assert (await jobs.observe(JOB)).changed is None

    meta["generation"] = 2
    assert (await jobs.observe(JOB)).changed == "somebody"
    meta["managedFields"].append({"manager": "kubectl-edit", "fieldsV1": {"f:spec": {}}})
    assert (await jobs.observe(JOB)).changed == "kubectl-edit"


async def test_what_waits_for_its_finalizer_was_deleted_and_not_changed(jobs: Applications, api: Cluster) -> None:
    """Kubernetes counts the deletion of such an object as another generation."""
    await jobs.submit(JOB)
    api.objects[PATH]["metadata"] |= {"generation": 2, "deletionTimestamp": "2026-11-21T12:00:00Z"}

    seen = await jobs.observe(JOB)

    assert (seen.changed, seen.deleted) == (None, True)


async def test_apache_s_job_is_cancelled_by_deletion(api: Cluster) -> None:
    jobs = Applications(cast(Api, api), Apache())
    await jobs.submit(JOB)
    await jobs.cancel(JOB)

    assert await jobs.observe(JOB) == Seen(Phase.GONE)
