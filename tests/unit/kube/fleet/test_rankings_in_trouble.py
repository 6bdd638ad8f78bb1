"""Stories of FleetRankings that meet trouble: it is named, and what can be mended is tried again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.fleet.dialect import Adapter
from kafka_recovery.kube.fleet.runs import State
from kafka_recovery.kube.fleet.steps import GRACE
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.resources.kinds import POLICIES
from unit.kube.fleet.asked import NIGHTLY, snapshot
from unit.kube.fleet.spark_world import SparkWorld, submitted
from unit.kube.journal.journals import NAMESPACE
from unit.kube.specs import POLICY

# What is missing is missed before anything is started


async def test_without_a_spark_operator_it_is_said_what_to_install() -> None:
    world = SparkWorld()
    world.api.installed.clear()
    assert await world.look() == timedelta(minutes=1)
    assert world.ready == ("False", "ApiMissing")
    assert "spark.apache.org/v1 (Apache) or sparkoperator.k8s.io/v1beta2 (Kubeflow)" in world.message

    world.api.installed.add(Adapter.APACHE)
    await world.look(2, minutes=1)
    assert (world.active.adapter, world.applications()) == (Adapter.APACHE, ["prod-29921040-1"])


async def test_of_two_spark_operators_the_wanted_one_is_asked() -> None:
    world = SparkWorld(adapter="Kubeflow")
    world.api.installed.add(Adapter.APACHE)
    await world.look()

    assert world.active.adapter is Adapter.KUBEFLOW


async def test_without_its_policy_nothing_begins() -> None:
    world = SparkWorld()
    world.api.remove(POLICIES, "prod")
    await world.look()
    assert (*world.ready, world.message) == ("False", "InvalidReference", "there is no RecoveryPolicy prod")

    world.api.put(POLICIES, "prod", {"rules": []})
    await world.look(minutes=1)
    assert world.ready == ("False", "InvalidSpec")
    assert world.message.startswith("RecoveryPolicy kafka/prod: spec.rules")

    world.api.put(POLICIES, "prod", POLICY)
    await world.look(2, minutes=1)
    assert world.applications() == ["prod-29921040-1"]


async def test_results_that_nobody_could_read_are_not_made() -> None:
    world = SparkWorld()
    world.results.silent = Reason("StorageUnavailable", "s3://fleet/results: can't be listed: ACCESS_DENIED")
    await world.look()

    assert world.ready == ("False", "StorageUnavailable")
    assert world.applications() == []


async def test_a_right_that_is_missing_is_told_in_status() -> None:
    world = await submitted()
    world.api.unread = "/pods"
    forbidden = ApiError(403, "Forbidden", 'User "op" cannot list resource "pods"')

    def refuse(path: str) -> None:
        if "/pods" in path:
            raise forbidden

    world.api._read = refuse  # type: ignore[method-assign]
    await world.look()

    assert world.ready == ("False", "Forbidden")
    assert "manifests/rbac/optional/fleet.yaml" in world.message
    assert world.active.application == "prod-29921040-1"


@pytest.mark.parametrize("fields", [{"task": "Dance"}, {"storage": {}}])
async def test_an_invalid_question_is_told_and_left_alone(fields: dict[str, object]) -> None:
    world = SparkWorld(**fields)

    assert await world.look() is None
    assert world.ready == ("False", "InvalidSpec")


async def test_a_schedule_that_never_comes_is_told() -> None:
    world = SparkWorld(schedule="0 0 30 2 *")

    assert await world.look() is None
    assert world.ready == ("False", "InvalidSpec")


async def test_a_schedule_that_is_spoilt_does_not_end_the_watch_over_what_runs() -> None:
    world = SparkWorld(schedule=NIGHTLY, timeout="10m")
    await world.look(2, hours=24)
    world.ask(schedule="0 0 30 2 *")
    await world.look(minutes=5)
    assert world.ready == ("False", "InvalidSpec")
    await world.look(minutes=5)

    assert world.application()["spec"]["suspend"], "the deadline holds"


async def test_an_answer_to_what_was_asked_before_an_edit_is_not_used() -> None:
    world = await submitted(retries=1)
    world.succeed()
    world.ask(task="Readiness")
    await world.look(seconds=5)
    assert (world.ready, world.active.attempt) == (("False", "Running"), 2)
    assert world.active.state is State.BACKING_OFF
    assert "QuestionChanged" in world.message

    await world.look(2, seconds=30)
    assert world.application()["spec"]["arguments"][0] == "readiness"
    world.succeed()
    await world.look(seconds=5)
    assert world.ready == ("True", "Succeeded")


async def test_a_question_that_is_mended_while_nothing_can_be_submitted_is_the_one_that_is_answered() -> None:
    world = SparkWorld(retries=0)
    await world.look()
    world.api.installed.clear()
    await world.look()
    assert world.ready == ("False", "ApiMissing")
    world.ask(task="Readiness")
    world.api.installed.add(Adapter.KUBEFLOW)
    await world.look(minutes=1)
    world.succeed()
    await world.look(seconds=5)

    assert world.ready == ("True", "Succeeded")


async def test_an_invalid_edit_does_not_make_it_forget_what_runs() -> None:
    world = await submitted()
    world.ask(task="Dance")
    await world.look()
    assert world.ready == ("False", "InvalidSpec")

    world.ask(task="Rank")
    await world.look()
    assert world.active.application == "prod-29921040-1"


async def test_a_status_that_somebody_wrote_is_not_guessed_at() -> None:
    world = await submitted()
    world.raw["status"]["active"] = {"name": "x"}

    assert await world.look() is None
    assert world.ready == ("False", "InvalidStatus")


# Failure


async def test_a_deleted_application_is_made_again_under_another_name() -> None:
    world = await submitted()
    world.delete_application()
    await world.look()
    await world.look(2, seconds=30)

    assert world.applications() == ["prod-29921040-2"]


async def test_apache_s_jobs_are_cancelled_by_deletion() -> None:
    world = SparkWorld(timeout="10m")
    world.api.installed = {Adapter.APACHE}
    await world.look(2)
    await world.look(minutes=10)

    assert world.applications() == []
    await world.look(2, seconds=5)
    assert world.ready == ("False", "DeadlineExceeded")


async def test_a_job_that_apache_s_operator_does_not_let_go_is_left_and_the_next_run_begins() -> None:
    world = SparkWorld(timeout="10m", schedule="0 * * * *")
    world.api.installed = {Adapter.APACHE}
    await world.look(2, hours=1)
    world.application()["metadata"]["finalizers"] = ["sparkapplications.spark.apache.org/finalizer"]
    left = world.active.application
    await world.look(minutes=10)
    await world.look(seconds=GRACE.total_seconds())
    assert world.active.ending
    await world.look(seconds=GRACE.total_seconds())
    assert world.ready == ("False", "DeadlineExceeded")
    assert f"SparkApplication {left} could not be deleted and is left" in world.message

    await world.look(3, hours=1)
    assert world.applications() == [left, world.active.application]


async def test_an_uninstalled_spark_operator_is_not_taken_for_a_deleted_job() -> None:
    world = await submitted()
    world.api.installed.clear()
    await world.look(minutes=1)
    assert world.ready == ("False", "ApiMissing")
    assert world.active.attempt == 1

    world.api.installed.add(Adapter.KUBEFLOW)
    await world.look(minutes=1)
    assert world.ready == ("False", "DriverPending")


async def test_a_name_that_somebody_else_has_is_left_to_them() -> None:
    world = SparkWorld()
    await world.look()
    path = f"/apis/sparkoperator.k8s.io/v1beta2/namespaces/{NAMESPACE}/sparkapplications"
    world.api.objects["/other"] = {"metadata": {"uid": "other"}}
    await world.api.create(path, {"metadata": {"name": "prod-29921040-1", "ownerReferences": [{"uid": "other"}]}})
    await world.look(2)

    assert world.ready == ("False", "ApplicationNotOurs")
    assert "not of this FleetRanking" in world.message
    assert world.applications() == ["prod-29921040-1"]


@pytest.mark.parametrize("left", ["configmaps", "sparkapplications"])
async def test_what_a_deleted_ranking_of_that_name_left_is_waited_for(left: str) -> None:
    """Made again within the minute, a ranking has the same names; the objects of the first one go a little later."""
    before = await submitted()
    (path,) = (each for each in before.api.objects if f"/{left}/prod-" in each)
    old = before.api.objects[path]
    owner = old["metadata"]["ownerReferences"][0]
    owner["uid"] = "earlier"
    world = SparkWorld()
    await world.look()
    world.api.objects["/earlier"] = {"metadata": {"uid": "earlier"}}
    world.api.objects[path] = old
    assert await world.look() == timedelta(minutes=1)
    assert world.ready == ("False", "PreviousObjectsTerminating")
    assert f"{old['kind']} prod-29921040-1 of an earlier FleetRanking is not gone yet" in world.message

    del world.api.objects["/earlier"], world.api.objects[path]
    await world.look(minutes=1)
    world.succeed()
    await world.look(seconds=5)
    assert world.ready == ("True", "Succeeded")


async def test_a_refused_application_is_a_failed_attempt() -> None:
    world = SparkWorld(retries=0)
    world.api.refusal = ApiError(403, "Forbidden", "exceeded quota: compute")
    await world.look(2)

    assert world.ready == ("False", "ApplicationFailed")
    assert "the API server did not take the SparkApplication: exceeded quota" in world.message


# Results that are none


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("run", "prod-29921039-1-0f4f8e2c", "run is prod-29921039-1-0f4f8e2c"),
        ("task", "readiness", "task is readiness, and rank was asked"),
        ("policy_digest", "00" * 32, "policyDigest is 0000"),
        ("evidence", (), "it names no evidence"),
        ("evidence", (snapshot("one"), snapshot("one")), "names evidence of a cluster twice: one"),
    ],
)
async def test_an_answer_to_another_question_is_not_used(field: str, value: object, says: str) -> None:
    world = await submitted()
    world.succeed(**{field: value})
    await world.look()

    assert world.ready == ("False", "ResultInvalid")
    assert says in world.message
    assert "summary" not in world.raw["status"]
