"""Calls to the API server: what is asked, what is tried again, what an answer means, and that the fence comes first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from kafka_recovery.kube.machinery.api import (
    FEW,
    AlreadyExists,
    Api,
    ApiError,
    Conflict,
    Effort,
    Expired,
    NotFound,
    Unanswered,
    unfenced,
)
from kafka_recovery.kube.machinery.applied import says
from unit.kube.staged_server import HURRIED, Answer, hang_up, object_, refusal, silence, staged

PATH = "/apis/kafka-recovery.dev/v1alpha1/namespaces/kafka/partitionrecoveries/orders-1"
COLLECTION = "/api/v1/namespaces/kafka/configmaps"
SOON = timedelta(milliseconds=300)


def status_of(name: str, **status: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "kafka", "uid": "u-1", "resourceVersion": "41"}
    return {
        "apiVersion": "kafka-recovery.dev/v1alpha1",
        "kind": "PartitionRecovery",
        "metadata": meta,
        "status": status,
    }


OLDER = (
    "failed to create typed patch object (kafka/prod; kafka-recovery.dev/v1alpha1, Kind=WatchedCluster): "
    ".status.{}: field not declared in schema"
)


class TestOlderDefinitions:
    async def test_a_field_of_a_status_that_the_definition_lacks_is_left_out_and_told(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        refused = refusal(500, "InternalError", OLDER.format("watchedBy"))
        done = object_({"kind": "WatchedCluster"})
        async with staged(refused, done, refused, done) as (api, server):
            for _ in range(2):
                await api.apply_status(PATH, status_of("orders-1"), {"finished": True, "watchedBy": {"name": "a"}})

        assert [each.body["status"] for each in server.asked[:2]] == [
            {"finished": True, "watchedBy": {"name": "a"}},
            {"finished": True},
        ]
        assert caplog.text.count(".status.watchedBy: field not declared in schema") == 1, "once, however often"

    async def test_nothing_is_written_without_what_lies_deeper(self) -> None:
        async with staged(refusal(500, "InternalError", OLDER.format("plan.waiting"))) as (api, server):
            with pytest.raises(ApiError, match="field not declared"):
                await api.apply_status(PATH, status_of("orders-1"), {"plan": {"waiting": "a while"}})

        assert len(server.asked) == 1, "no other try helps"

    async def test_that_is_no_outage_after_which_a_right_may_come_back(self) -> None:
        refused, denied = refusal(500, "InternalError", OLDER.format("plan.waiting")), refusal(403, "Forbidden", "no")
        async with staged(refused, denied) as (api, server):
            with pytest.raises(ApiError, match="field not declared"):
                await api.apply_status(PATH, status_of("orders-1"), {"plan": {"waiting": "a while"}})
            with pytest.raises(ApiError, match="403 Forbidden"):
                await api.get(PATH)

        assert len(server.asked) == 2

    async def test_a_refusal_for_another_cause_that_quotes_these_words_leaves_nothing_out(self) -> None:
        async with staged(refusal(422, "Invalid", OLDER.format("finished"))) as (api, server):
            with pytest.raises(ApiError, match="422 Invalid"):
                await api.apply_status(PATH, status_of("orders-1"), {"finished": True, "phase": "Failed"})

        assert len(server.asked) == 1


class TestAnswers:
    @pytest.mark.parametrize(
        ("status", "reason", "kind"),
        [
            (404, "NotFound", NotFound),
            (409, "Conflict", Conflict),
            (409, "AlreadyExists", AlreadyExists),
            (410, "Expired", Expired),
            (403, "Forbidden", ApiError),
            (422, "Invalid", ApiError),
        ],
    )
    async def test_a_refusal_has_a_name_and_is_final(self, status: int, reason: str, kind: type[ApiError]) -> None:
        async with staged(refusal(status, reason, "that won't do")) as (api, server):
            with pytest.raises(ApiError, match=f"{status} {reason}: that won't do") as caught:
                await api.get(PATH)

        assert type(caught.value) is kind
        assert (caught.value.status, caught.value.reason, caught.value.path) == (status, reason, PATH)
        assert len(server.asked) == 1

    async def test_every_try_is_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[tuple[str, int]] = []
        script = silence, refusal(503, "ServiceUnavailable", "later"), object_({"kind": "Pod"})
        async with staged(*script, effort=replace(HURRIED, attempt=SOON)) as (api, _):
            monkeypatch.setattr(api, "_asked", lambda method, status: seen.append((method, status)))
            await api.get(PATH)

        assert seen == [("GET", 0), ("GET", 503), ("GET", 200)]

    async def test_a_proxys_web_page_is_an_error_with_its_beginning(self) -> None:
        async def page(request: web.Request) -> web.Response:
            return web.Response(text="<html>Login please" + "!" * 5000, content_type="text/html")

        async with staged(page) as (api, _):
            with pytest.raises(ApiError, match=r"NotAnObject.*Login please") as caught:
                await api.get(PATH)

        assert len(str(caught.value)) < 500

    async def test_a_redirect_is_not_followed(self) -> None:
        """It would carry our token, and a write, to somebody else."""

        async def elsewhere(request: web.Request) -> web.Response:
            return web.Response(status=307, headers={"Location": "/elsewhere"})

        async with staged(elsewhere, object_({})) as (api, server):
            with pytest.raises(ApiError, match="307"):
                await api.get(PATH)

        assert len(server.asked) == 1

    @pytest.mark.parametrize("path", ["", "configmaps", "/api/../secrets", "/api/v1?watch=1", "/api/v1/a b", "/a//b"])
    async def test_a_name_that_nobody_checked_can_not_bend_the_path(self, path: str) -> None:
        async with staged(object_({})) as (api, server):
            with pytest.raises(ValueError, match="no path"):
                await api.get(path)

        assert server.asked == []


class TestTryingAgain:
    @pytest.mark.parametrize("trouble", [refusal(429), refusal(500), refusal(503), refusal(504), hang_up])
    async def test_what_may_pass_is_tried_again(self, trouble: Answer) -> None:
        async with staged(trouble, trouble, object_({"kind": "Lease"})) as (api, server):
            assert await api.create(COLLECTION, {"kind": "ConfigMap"}) == {"kind": "Lease"}

        assert len(server.asked) == 3

    async def test_a_lost_answer_to_a_create_shows_as_already_there(self) -> None:
        async with staged(hang_up, refusal(409, "AlreadyExists")) as (api, _):
            with pytest.raises(AlreadyExists):
                await api.create(COLLECTION, {"kind": "ConfigMap"})

    async def test_the_server_is_given_the_time_it_asks_for(self) -> None:
        async with staged(refusal(429, **{"Retry-After": "1"}), object_({"kind": "Lease"})) as (api, _):
            began = time.monotonic()
            await api.get(PATH)

        assert time.monotonic() - began >= 1

    async def test_who_asks_for_more_time_than_there_is_is_not_waited_for(self) -> None:
        async with staged(refusal(429, "TooManyRequests", **{"Retry-After": "60"})) as (api, server):
            began = time.monotonic()
            with pytest.raises(ApiError, match="429 TooManyRequests"):
                await api.get(PATH)

        assert time.monotonic() - began < 5
        assert len(server.asked) == 1

    async def test_a_call_that_never_works_ends_with_its_deadline_and_the_last_reason(self) -> None:
        async with staged(refusal(503, "ServiceUnavailable", "etcd is away")) as (api, server):
            with pytest.raises(ApiError, match="etcd is away"):
                await api.get(PATH, deadline=timedelta(seconds=1))

        assert len(server.asked) > 1

    async def test_a_last_try_that_nobody_answers_does_not_hide_why_the_others_failed(self) -> None:
        async with staged(refusal(503, "ServiceUnavailable", "etcd is away"), silence) as (api, server):
            with pytest.raises(Unanswered, match=r"TimeoutError; before, the answer was 503 .*etcd is away"):
                await api.get(PATH, deadline=timedelta(seconds=1))

        assert len(server.asked) == 2

    async def test_a_server_that_has_just_come_back_may_not_know_our_rights_yet(self) -> None:
        answers = (refusal(503, "ServiceUnavailable", "starting"), refusal(403, "Forbidden", "rules are not loaded"))
        async with staged(*answers, object_({"kind": "Lease"})) as (api, server):
            assert await api.get(PATH) == {"kind": "Lease"}

        assert len(server.asked) == 3

    async def test_a_right_that_we_never_had_is_not_asked_for_twice(self) -> None:
        async with staged(refusal(403, "Forbidden", "no")) as (api, server):
            with pytest.raises(ApiError, match="Forbidden"):
                await api.get(PATH)

        assert len(server.asked) == 1

    async def test_a_silent_server_costs_no_more_than_the_deadline(self) -> None:
        async with staged(silence) as (api, server):
            began = time.monotonic()
            with pytest.raises(Unanswered, match=f"GET {PATH}") as caught:
                await api.get(PATH, deadline=SOON)
            took = time.monotonic() - began

        assert took < 5
        assert (caught.value.status, caught.value.reason) == (0, "Unanswered")
        assert len(server.asked) == 1

    async def test_one_silent_try_leaves_time_for_another(self) -> None:
        effort = Effort(timedelta(seconds=10), timedelta(milliseconds=50), timedelta(milliseconds=1))
        async with staged(silence, object_({"kind": "Lease"}), effort=effort) as (api, _):
            assert await api.get(PATH) == {"kind": "Lease"}

    async def test_a_server_that_is_not_there_is_unanswered(self) -> None:
        async with aiohttp.ClientSession() as session:
            with pytest.raises(Unanswered):
                await Api(session, "http://127.0.0.1:1", unfenced, HURRIED).get(PATH, deadline=SOON)


class TestLists:
    async def test_pages_are_put_together(self) -> None:
        first = object_({"items": [{"n": 1}, {"n": 2}], "metadata": {"continue": "go-on"}})
        async with staged(first, object_({"items": [{"n": 3}], "metadata": {}})) as (api, server):
            found = await api.list_all(COLLECTION, params={"labelSelector": "a=b"}, page=2)

        assert [each["n"] for each in found] == [1, 2, 3]
        assert server.asked[0].params == {"limit": "2", "labelSelector": "a=b"}
        assert server.asked[1].params == {"limit": "2", "labelSelector": "a=b", "continue": "go-on"}

    async def test_of_what_may_be_large_a_few_are_read_at_a_time_and_only_what_counts_is_kept(self) -> None:
        first = object_({"items": [{"n": 1, "scope": "large"}, {"n": 2}], "metadata": {"continue": "go-on"}})
        async with staged(first, object_({"items": [{"n": 3}]})) as (api, server):
            assert await api.list_kept(COLLECTION, lambda each: each["n"]) == [1, 2, 3]

        assert [each.params["limit"] for each in server.asked] == [str(FEW)] * 2

    async def test_a_list_that_expired_half_way_begins_anew(self) -> None:
        """Going on with the server's newer token would mix two moments."""
        first = object_({"items": [{"n": 1}], "metadata": {"continue": "go-on"}})
        async with staged(first, refusal(410, "Expired"), object_({"items": [{"n": 7}]})) as (api, server):
            assert await api.list_all(COLLECTION) == [{"n": 7}]

        assert "continue" not in server.asked[2].params

    async def test_a_list_that_always_expires_is_given_up(self) -> None:
        async with staged(refusal(410, "Expired")) as (api, server):
            with pytest.raises(Expired):
                await api.list_all(COLLECTION)

        assert len(server.asked) == 3

    async def test_an_empty_list_may_say_null(self) -> None:
        async with staged(object_({"items": None, "metadata": {}, "kind": "ConfigMapList"})) as (api, _):
            assert await api.list_all(COLLECTION) == []


class TestWriting:
    async def test_a_status_is_applied_with_uid_and_resource_version(self) -> None:
        """A uid alone is no precondition on a subresource."""
        seen = status_of("orders-1", observedGeneration=-1)
        async with staged(object_({"kind": "PartitionRecovery"})) as (api, server):
            await api.apply_status(PATH, seen, {"finished": True})

        (asked,) = server.asked
        assert (asked.method, asked.path) == ("PATCH", PATH + "/status")
        assert asked.content_type == "application/apply-patch+yaml"
        assert asked.params == {"fieldManager": "kafka-recovery-operator", "force": "true"}
        assert asked.body == {
            "apiVersion": "kafka-recovery.dev/v1alpha1",
            "kind": "PartitionRecovery",
            "metadata": {"name": "orders-1", "uid": "u-1", "resourceVersion": "41"},
            "status": {"finished": True},
        }

    async def test_what_a_backup_brought_back_and_is_not_said_any_more_is_taken_out_of_a_status(self) -> None:
        """Server-side apply leaves what another manager wrote too, and hands the rest back in pieces."""
        seen = status_of("orders-1", active={"name": "a"}, plan={"digest": "d", "waiting": "w"}, runs=["old"])
        wanted = {"finished": True, "plan": {"digest": "e"}, "runs": ["new"]}
        left = status_of("orders-1", **wanted | {"active": {"name": "a"}, "plan": {"digest": "e", "waiting": "w"}})
        left["status"]["runs"], left["metadata"]["resourceVersion"] = ["new", "old"], "42"
        async with staged(object_(left), object_(status_of("orders-1", **wanted))) as (api, server):
            now = await api.apply_status(PATH, seen, wanted)

        assert now["status"] == wanted
        _, asked = server.asked
        assert (asked.path, asked.content_type) == (PATH + "/status", "application/merge-patch+json")
        assert asked.body == {
            "metadata": {"resourceVersion": "42"},
            "status": {"active": None, "plan": {"waiting": None}, "runs": ["new"]},
        }

    @pytest.mark.parametrize(
        ("change", "content_type"),
        [
            ({"metadata": {"finalizers": []}}, "application/merge-patch+json"),
            ([{"op": "remove", "path": "/metadata/finalizers/0"}], "application/json-patch+json"),
        ],
    )
    async def test_a_patch_is_of_the_kind_that_it_looks_like(self, change: Any, content_type: str) -> None:
        async with staged(object_({"kind": "ConfigMap"})) as (api, server):
            await api.patch(PATH, change)

        assert (server.asked[0].content_type, server.asked[0].body) == (content_type, change)

    async def test_what_is_created_may_have_no_field_that_the_server_does_not_know(self) -> None:
        async with staged(object_({"kind": "ConfigMap"}, 201)) as (api, server):
            await api.create(COLLECTION, {"kind": "ConfigMap"})

        assert server.asked[0].params["fieldValidation"] == "Strict"
        assert server.asked[0].content_type == "application/json"

    async def test_what_is_applied_is_created_or_becomes_ours(self) -> None:
        """Only as an apply a creation has a name that RBAC can compare."""
        async with staged(object_({"kind": "EndpointSlice"}, 201)) as (api, server):
            await api.apply(PATH, {"kind": "EndpointSlice"})

        (asked,) = server.asked
        assert (asked.method, asked.path, asked.content_type) == ("PATCH", PATH, "application/apply-patch+yaml")
        assert asked.params == {"fieldManager": "kafka-recovery-operator", "force": "true", "fieldValidation": "Strict"}

    async def test_what_is_deleted_is_the_one_that_was_meant(self) -> None:
        async with staged(object_({"kind": "Status"})) as (api, server):
            await api.delete(PATH, uid="u-1")

        assert server.asked[0].body["preconditions"] == {"uid": "u-1"}

    async def test_deleting_what_is_gone_is_fine(self) -> None:
        async with staged(refusal(404, "NotFound")) as (api, _):
            await api.delete(PATH)


class Fenced(Exception):
    """This process may write no more."""


def closed() -> None:
    raise Fenced


class TestFence:
    @pytest.mark.parametrize(
        "write",
        [
            lambda api: api.create(COLLECTION, {}),
            lambda api: api.patch(PATH, {}),
            lambda api: api.apply_status(PATH, status_of("orders-1"), {"finished": True}),
            lambda api: api.apply(PATH, {}),
            lambda api: api.delete(PATH),
        ],
    )
    async def test_no_write_passes_a_closed_fence(self, write: Callable[[Api], Any]) -> None:
        async with staged(object_({"kind": "ConfigMap"}), fence=closed) as (api, server):
            with pytest.raises(Fenced):
                await write(api)

        assert server.asked == []

    async def test_reading_needs_no_fence(self) -> None:
        async with staged(object_({"kind": "ConfigMap", "items": []}), fence=closed) as (api, _):
            await api.get(PATH)
            await api.list_all(COLLECTION)

    async def test_every_try_asks_the_fence_again(self) -> None:
        tries = iter([True, True, False])  # the call, its body, the second try

        def fence() -> None:
            if not next(tries):
                raise Fenced

        async with staged(refusal(503), fence=fence) as (api, server):
            with pytest.raises(Fenced):
                await api.create(COLLECTION, {})

        assert len(server.asked) == 1

    async def test_a_write_that_waited_for_a_connection_is_fenced_when_it_is_sent(self) -> None:
        """All connections may hang in a sick API server for longer than a Lease lasts."""
        go_on, lost = asyncio.Event(), False
        app, heard = web.Application(), []

        def fence() -> None:
            if lost:
                raise Fenced

        async def handle(request: web.Request) -> web.Response:
            heard.append(request.method)
            await go_on.wait()
            return web.json_response({"kind": "ConfigMap"})

        app.router.add_route("*", "/{anything:.*}", handle)
        connector = aiohttp.TCPConnector(limit=1)
        async with TestServer(app) as server, aiohttp.ClientSession(connector=connector) as session:
            api = Api(session, str(server.make_url("/")), fence, HURRIED)
            reading = asyncio.create_task(api.get(PATH))
            while not heard:
                await asyncio.sleep(0.001)
            writing = asyncio.create_task(api.create(COLLECTION, {}))
            await asyncio.sleep(0.02)
            lost = True
            go_on.set()
            await reading
            with pytest.raises(Fenced):
                await writing

        assert heard == ["GET"]


class TestSayingNothingNew:
    """The rule behind "only if it differs"."""

    OURS: dict[str, Any] = {  # noqa: RUF012
        "manager": "kafka-recovery-operator",
        "operation": "Apply",
        "fieldsV1": {
            "f:status": {
                "f:conditions": {'k:{"type":"Ready"}': {".": {}}, 'k:{"type":"Stalled"}': {".": {}}},
            }
        },
    }
    READY = {"type": "Ready", "status": "True"}  # noqa: RUF012
    STALLED = {"type": "Stalled", "status": "True"}  # noqa: RUF012
    THEIRS = {"type": "Audited", "status": "True"}  # noqa: RUF012

    def seen(self, **status: Any) -> dict[str, Any]:
        seen = status_of("orders-1", **status)
        seen["metadata"]["managedFields"] = [self.OURS, {"manager": "kubectl", "operation": "Update"}]
        return seen

    def test_others_may_have_conditions_of_theirs(self) -> None:
        seen = self.seen(outcome="Recovered", conditions=[self.THEIRS, self.READY, self.STALLED])

        assert says(seen, {"outcome": "Recovered", "conditions": [self.READY, self.STALLED]})

    @pytest.mark.parametrize(
        "ours",
        [
            {"outcome": "Failed", "conditions": [READY, STALLED]},
            {"outcome": "Recovered", "conditions": [READY, STALLED | {"status": "False"}]},
            {"outcome": "Recovered", "conditions": [READY]},
            {"conditions": [READY, STALLED]},
        ],
        ids=["another value", "another condition", "a condition taken back", "a field taken back"],
    )
    def test_what_we_say_otherwise_is_new(self, ours: dict[str, Any]) -> None:
        assert not says(self.seen(outcome="Recovered", conditions=[self.READY, self.STALLED]), ours)

    def test_what_a_newer_definition_fills_in_is_no_news_each_time(self) -> None:
        ours = {"plan": {"digest": "d"}, "runs": [{"name": "a"}], "conditions": [self.READY, self.STALLED]}
        filled = {"plan": {"digest": "d", "notes": []}, "runs": [{"name": "a", "kept": False}], "later": ""}

        assert says(self.seen(**ours | filled), ours)
        assert not says(self.seen(**ours | {"runs": [{"name": "a", "kept": True}]}), ours)
