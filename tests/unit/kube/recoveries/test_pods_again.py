"""Pods that are held back no more: Strimzi is woken, so that it makes them again at once."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_recovery.kube.clusters.pod_sets import not_woken
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.recoveries.pods_again import PodsAgain
from kafka_recovery.kube.resources.kinds import RECOVERIES
from unit.kube.journal.journals import NAME, NAMESPACE
from unit.kube.office import Office
from unit.kube.recoveries.holding import PODS_OF_STRIMZI, WAKING, PodSet, dies, held_back, wakings
from unit.recovery.brokers import Fate
from unit.recovery.world import World
from unit.virtual import awaited


@pytest.fixture
def kubernetes() -> PodSet:
    return held_back()


@pytest.fixture
def office(world: World, kubernetes: PodSet) -> Office:
    return Office(world, kubernetes)


async def test_strimzi_is_woken_once_by_the_status_of_its_pod_set_and_by_nothing_else_of_it(
    office: Office, kubernetes: PodSet
) -> None:
    office.takes_up()
    await office.until("Recovered")

    assert wakings(kubernetes) == [WAKING]
    (change,) = kubernetes.sets
    assert change.keys() == {"status"}
    assert change["status"].keys() == {"conditions"}, "how many Pods are ready only Strimzi says"
    (said,) = change["status"]["conditions"]
    assert said["message"] == f"PartitionRecovery {NAME} holds none of its Pods back"
    assert all(code != "StrimziNotWoken" for _, code in office.events.said)


async def test_it_is_woken_when_every_api_server_has_heard_that_the_pod_is_let_go(
    office: Office, kubernetes: PodSet
) -> None:
    """One that has not would refuse the Pod once more, and Strimzi would wait for five minutes."""
    kubernetes.hears_after = 0.5

    office.takes_up()
    await office.until("Recovered")

    assert kubernetes.pod()


async def test_it_is_woken_and_told_of_where_the_answer_was_lost_that_the_pod_is_let_go(
    office: Office, kubernetes: PodSet
) -> None:
    kubernetes.loses_an_answer = True

    office.takes_up()
    await office.until("Recovered")

    assert not kubernetes.loses_an_answer
    assert wakings(kubernetes) == [WAKING]
    assert [code for _, code in office.events.said if code.startswith("Pod")] == ["PodHeld", "PodLetGo"]


async def test_an_older_strimzi_is_woken_in_the_version_that_it_has(office: Office, kubernetes: PodSet) -> None:
    kubernetes.version = "v1beta2"

    office.takes_up()
    await office.until("Recovered")

    assert wakings(kubernetes) == [WAKING.replace("/v1/", "/v1beta2/")]


async def test_each_node_pool_whose_pods_are_let_go_is_woken_once(office: Office, kubernetes: PodSet) -> None:
    async def told(*_: object) -> None:
        return None

    pods = ["prod-brokers-1", "prod-brokers-2", "prod-others-3"]
    await PodsAgain(kubernetes, told).let_go((NAMESPACE, NAME), None, pods)

    assert wakings(kubernetes) == [WAKING, WAKING.replace("prod-brokers", "prod-others")]


async def test_strimzi_is_not_woken_where_no_pod_was_held(office: Office, kubernetes: PodSet) -> None:
    kubernetes.runs(ready=True, phase="Running")

    office.takes_up()
    await office.until("Recovered")

    assert wakings(kubernetes) == []


@pytest.mark.parametrize(
    "goes_wrong",
    [
        lambda api: setattr(api, "refusing", lambda what: what == WAKING),
        lambda api: setattr(api, "unread", PODS_OF_STRIMZI),
    ],
    ids=["no right", "no answer"],
)
async def test_where_it_can_t_be_woken_the_recovery_ends_as_well_and_the_command_is_told(
    office: Office, kubernetes: PodSet, goes_wrong: Any
) -> None:
    goes_wrong(kubernetes)

    office.takes_up()
    await office.until("Recovered")

    assert office.status()["finished"]
    assert kubernetes.held() == []
    assert ("Warning", "StrimziNotWoken") in office.events.said
    told = office.events.notes["StrimziNotWoken"]
    assert f"kubectl annotate strimzipodset prod-brokers --namespace {NAMESPACE} woken=" in told
    assert ("manifests/rbac/optional/hold-back.yaml" in told) == (kubernetes.unread is None)


def test_the_manifest_is_named_only_where_it_allows_what_was_refused() -> None:
    """Strimzi's version is read by a right that every account has by default."""
    status = "/apis/core.strimzi.io/v1/namespaces/kafka/strimzipodsets/prod-brokers/status"
    forbidden, undiscovered = (
        not_woken("prod-brokers", NAMESPACE, ApiError(403, "Forbidden", "not allowed", path))
        for path in (status, "/apis/core.strimzi.io")
    )

    assert "manifests/rbac/optional/hold-back.yaml allows it" in forbidden
    assert "allows it" not in undiscovered


async def test_nothing_is_said_of_strimzi_where_another_controller_makes_the_pods(
    office: Office, kubernetes: PodSet
) -> None:
    kubernetes.strimzi = False

    office.takes_up()
    await office.until("Recovered")

    assert wakings(kubernetes) == []
    assert all(code != "StrimziNotWoken" for _, code in office.events.said)


async def test_a_recovery_that_is_gone_at_once_wakes_strimzi_as_well(
    office: Office, kubernetes: PodSet, world: World
) -> None:
    world.kafka.restore_fates = [Fate.LOST] * 12
    office.takes_up()
    await office.until("OfflinePartitions")

    kubernetes.remove(RECOVERIES, NAME)
    office.see()
    await awaited(lambda: wakings(kubernetes))

    assert wakings(kubernetes) == [WAKING]
    await dies(office)
