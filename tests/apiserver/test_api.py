"""Our calls on a real API server: what it makes of conditions, versions, pages and its own absence."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apiserver.calling import calling
from kafka_recovery.kube.machinery.api import AlreadyExists, Api, ApiError, Conflict, NotFound, Unanswered
from kafka_recovery.kube.machinery.conditions import Standing, condition, merged, standing
from testbed.kstatus import Kstatus, kstatus
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl

pytestmark = pytest.mark.apiserver

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[Api]:
    async with calling(control_plane.administrator()) as calls:
        yield calls


def recoveries(namespace: str, name: str = "") -> str:
    path = f"/apis/kafka-recovery.dev/v1alpha1/namespaces/{namespace}/partitionrecoveries"
    return f"{path}/{name}" if name else path


def config_maps(namespace: str, name: str = "") -> str:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    return f"{path}/{name}" if name else path


def config_map(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels}}


async def opened(api: Api, namespace: str) -> dict[str, Any]:
    recovery = {
        "apiVersion": "kafka-recovery.dev/v1alpha1",
        "kind": "PartitionRecovery",
        "metadata": {"name": "orders-1"},
        "spec": {"clusterRef": {"name": "prod"}, "clusterId": "abc", "scope": {"allOffline": True}},
    }
    return await api.create(recoveries(namespace), recovery)


def told(how: Standing, old: dict[str, Any] | None = None, now: datetime = NOON) -> dict[str, Any]:
    before = ((old or {}).get("status") or {}).get("conditions") or []
    return {"observedGeneration": 1, "conditions": merged(before, standing(how, "Because", "of this", 1), now)}


async def test_an_objects_version_is_read_without_what_it_says(api: Api, namespace: str) -> None:
    made = await opened(api, namespace)

    assert await api.metadata(recoveries(namespace, "orders-1")) == made["metadata"]
    with pytest.raises(NotFound):
        await api.metadata(recoveries(namespace, "orders-2"))


class TestStatus:
    async def test_tools_see_each_standing_as_what_it_is(self, api: Api, namespace: str) -> None:
        seen = await opened(api, namespace)
        shown = [kstatus(seen)]
        for how in (Standing.WORKING, Standing.STUCK, Standing.DONE):
            seen = await api.apply_status(recoveries(namespace, "orders-1"), seen, told(how))
            shown.append(kstatus(seen))

        assert shown == [Kstatus.IN_PROGRESS, Kstatus.IN_PROGRESS, Kstatus.FAILED, Kstatus.CURRENT]

    async def test_saying_the_same_again_writes_nothing(self, api: Api, namespace: str) -> None:
        path = recoveries(namespace, "orders-1")
        await api.apply_status(path, await opened(api, namespace), told(Standing.WORKING))
        seen = await api.get(path)

        again = await api.apply_status(path, seen, told(Standing.WORKING, seen, NOON + timedelta(hours=1)))

        assert again is seen

    async def test_what_the_definition_lacks_is_left_out_and_the_rest_is_said(self, api: Api, namespace: str) -> None:
        path = recoveries(namespace, "orders-1")
        newer = {"ofANewerRelease": {"and": "more"}, "andAnother": 1}

        seen = await api.apply_status(path, await opened(api, namespace), told(Standing.WORKING) | newer)

        assert kstatus(seen) is Kstatus.IN_PROGRESS
        assert not newer.keys() & seen["status"].keys()

    async def test_who_looked_at_an_older_object_writes_nothing(
        self, api: Api, kubectl: Kubectl, namespace: str
    ) -> None:
        path = recoveries(namespace, "orders-1")
        seen = await opened(api, namespace)
        kubectl("label", "partitionrecovery", "orders-1", "somebody=else")

        with pytest.raises(Conflict):
            await api.apply_status(path, seen, told(Standing.DONE))

        assert "conditions" not in (await api.get(path))["status"]

    async def test_one_that_was_made_again_under_the_same_name_is_another(self, api: Api, namespace: str) -> None:
        path = recoveries(namespace, "orders-1")
        seen = await opened(api, namespace)
        await api.delete(path)
        await opened(api, namespace)

        with pytest.raises(Conflict):
            await api.apply_status(path, seen, told(Standing.DONE))

    async def test_one_that_is_gone_is_not_made_again(self, api: Api, namespace: str) -> None:
        path = recoveries(namespace, "orders-1")
        seen = await opened(api, namespace)
        await api.delete(path)

        with pytest.raises(NotFound) as caught:
            await api.apply_status(path, seen, told(Standing.DONE))

        assert caught.value.path == f"{path}/status"

    async def test_what_we_say_no_more_goes_and_what_others_say_stays(
        self, api: Api, kubectl: Kubectl, namespace: str
    ) -> None:
        path = recoveries(namespace, "orders-1")
        seen = await opened(api, namespace)
        verified = merged([], [condition("Verified", False, "NotYet", "", 1)], NOON)
        ours = told(Standing.WORKING) | {"outcome": "Failed"}
        ours["conditions"] = [*ours["conditions"], *verified]
        await api.apply_status(path, seen, ours)
        theirs = merged([], [condition("Audited", True, "Read", "", 1)], NOON)
        given = {key: seen[key] for key in ("apiVersion", "kind")}
        given |= {"metadata": {"name": "orders-1"}, "status": {"conditions": theirs}}
        kubectl(
            "apply", "--server-side", "--field-manager=auditor", "--subresource=status", "--filename=-", given=given
        )

        after = await api.apply_status(path, await api.get(path), told(Standing.WORKING))

        assert {each["type"] for each in after["status"]["conditions"]} == {
            "Ready",
            "Reconciling",
            "Stalled",
            "Audited",
        }
        assert "outcome" not in after["status"]
        assert await api.apply_status(path, after, told(Standing.WORKING)) is after


class TestObjects:
    async def test_a_name_is_given_once(self, api: Api, namespace: str) -> None:
        await api.create(config_maps(namespace), config_map("a"))

        with pytest.raises(AlreadyExists):
            await api.create(config_maps(namespace), config_map("a"))

    async def test_a_field_that_the_server_does_not_know_is_refused_and_not_dropped(
        self, api: Api, namespace: str
    ) -> None:
        with pytest.raises(ApiError, match='unknown field "dta"'):
            await api.create(config_maps(namespace), config_map("a") | {"dta": {"a": "b"}})

    async def test_a_merge_patch_of_an_older_object_is_a_conflict(self, api: Api, namespace: str) -> None:
        path = config_maps(namespace, "a")
        seen = await api.create(config_maps(namespace), config_map("a"))
        change = {"metadata": {"resourceVersion": seen["metadata"]["resourceVersion"]}, "data": {"n": "1"}}
        await api.patch(path, change)

        with pytest.raises(Conflict):
            await api.patch(path, change | {"data": {"n": "2"}})

        assert (await api.get(path))["data"] == {"n": "1"}

    async def test_a_json_patch_is_done_or_not_done_as_a_whole(self, api: Api, namespace: str) -> None:
        await api.create(config_maps(namespace), config_map("a", plan="1"))
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/labels/plan", "value": "2"},
            {"op": "add", "path": "/data", "value": {"n": "1"}},
        ]
        with pytest.raises(ApiError, match="422"):
            await api.patch(config_maps(namespace, "a"), patch)

    async def test_another_object_of_the_same_name_is_not_deleted(self, api: Api, namespace: str) -> None:
        seen = await api.create(config_maps(namespace), config_map("a"))
        with pytest.raises(Conflict):
            await api.delete(config_maps(namespace, "a"), uid="00000000-0000-0000-0000-000000000000")

        await api.delete(config_maps(namespace, "a"), uid=seen["metadata"]["uid"])
        await api.delete(config_maps(namespace, "a"))
        with pytest.raises(NotFound):
            await api.get(config_maps(namespace, "a"))

    async def test_a_list_is_whole_however_small_its_pages(self, api: Api, namespace: str) -> None:
        for number in range(7):
            await api.create(config_maps(namespace), config_map(f"a-{number}", ours="yes"))

        found = await api.list_all(config_maps(namespace), params={"labelSelector": "ours=yes"}, page=2)

        assert sorted(each["metadata"]["name"] for each in found) == [f"a-{number}" for number in range(7)]

    async def test_who_may_not_is_told_what_and_at_once(self, control_plane: ControlPlane, namespace: str) -> None:
        async with calling(control_plane.user("bob", namespace=namespace)) as bob:
            with pytest.raises(ApiError, match=r'403 Forbidden.*User "bob" cannot create resource "configmaps"'):
                await bob.create(config_maps(namespace), config_map("a"))

    async def test_a_service_account_is_known_by_its_token(self, control_plane: ControlPlane, namespace: str) -> None:
        async with calling(control_plane.service_account(namespace, "default")) as account:
            with pytest.raises(ApiError, match=f"system:serviceaccount:{namespace}:default"):
                await account.list_all(config_maps(namespace))


class TestAbsence:
    async def test_a_restart_of_the_server_is_survived_within_the_deadline(
        self, control_plane: ControlPlane, api: Api, namespace: str
    ) -> None:
        await api.create(config_maps(namespace), config_map("before"))
        restarting = asyncio.create_task(asyncio.to_thread(control_plane.restart_apiserver))
        written: list[str] = []
        while not restarting.done():
            name = f"during-{len(written)}"
            with contextlib.suppress(AlreadyExists):  # a first try got through, its answer did not
                await api.create(config_maps(namespace), config_map(name), deadline=timedelta(seconds=50))
            written.append(name)
        await restarting

        names = {each["metadata"]["name"] for each in await api.list_all(config_maps(namespace))}
        assert set(written) <= names

    async def test_a_frozen_server_costs_the_deadline_and_no_more(
        self, control_plane: ControlPlane, api: Api, namespace: str
    ) -> None:
        await api.list_all(config_maps(namespace))
        loop = asyncio.get_running_loop()
        with control_plane.apiserver_frozen():
            began = loop.time()
            with pytest.raises(Unanswered):
                await api.create(config_maps(namespace), config_map("a"), deadline=timedelta(seconds=2))
            assert loop.time() - began < 3

        with contextlib.suppress(AlreadyExists):  # it may have been done all the same
            await api.create(config_maps(namespace), config_map("a"))
        assert await api.get(config_maps(namespace, "a"))
