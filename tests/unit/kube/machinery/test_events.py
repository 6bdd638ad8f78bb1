"""Events: told once, counted when repeated, never in the way of what they tell of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import pytest
from aiohttp import web

from kafka_recovery.kube.machinery import events as events_module
from kafka_recovery.kube.machinery.events import LONGEST_NOTE, Events
from unit.kube.staged_server import Answer, FakeServer, object_, refusal, silence, staged

LONG = timedelta(seconds=10)
RECOVERY = {
    "apiVersion": "kafka-recovery.dev/v1alpha1",
    "kind": "PartitionRecovery",
    "metadata": {"namespace": "kafka", "name": "prod-1a2b", "uid": "u-1", "resourceVersion": "41"},
    "spec": {"scope": {"allOffline": True}},
}
TAKEN = object_({"kind": "Event"}, 201)


@asynccontextmanager
async def telling(*script: Answer) -> AsyncIterator[tuple[Events, FakeServer]]:
    async with staged(*script) as (api, server):
        events = Events(api, "kafka-recovery-operator", "kafka-recovery-operator-0")
        yield events, server
        await events.flush(timedelta(0))


async def planned(events: Events, note: str = "plan 1 elects 12 leaders") -> None:
    await events.say(RECOVERY, "Normal", "Planned", "Recover", note)


def calls(server: FakeServer) -> list[str]:
    return [asked.method for asked in server.asked]


async def test_an_event_says_who_did_what_to_which_object_and_why() -> None:
    async with telling(TAKEN) as (events, server):
        await planned(events)
        await events.flush(LONG)

    (asked,) = server.asked
    event = dict(asked.body)
    meta = event.pop("metadata")
    at = datetime.strptime(event.pop("eventTime"), "%Y-%m-%dT%H:%M:%S.%f%z")
    assert (asked.method, asked.path) == ("POST", "/apis/events.k8s.io/v1/namespaces/kafka/events")
    assert meta["namespace"] == "kafka"
    assert meta["name"].startswith("prod-1a2b.")
    assert at.tzinfo
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "reportingController": "kafka-recovery-operator",
        "reportingInstance": "kafka-recovery-operator-0",
        "regarding": {
            "apiVersion": "kafka-recovery.dev/v1alpha1",
            "kind": "PartitionRecovery",
            "namespace": "kafka",
            "name": "prod-1a2b",
            "uid": "u-1",
        },
        "type": "Normal",
        "reason": "Planned",
        "action": "Recover",
        "note": "plan 1 elects 12 leaders",
    }


async def test_no_terminal_obeys_a_note() -> None:
    async with telling(TAKEN) as (events, server):
        await planned(events, "ann refused the plan: \x1b[2Jno")
        await events.flush(LONG)

    assert server.asked[0].body["note"] == "ann refused the plan: \\x1b[2Jno"


async def test_what_is_said_again_is_counted() -> None:
    async with telling(TAKEN) as (events, server):
        for _ in range(3):
            await planned(events)
            await events.flush(LONG)

    first, *again = server.asked
    assert calls(server) == ["POST", "PATCH", "PATCH"]
    assert {asked.path.rpartition("/")[2] for asked in again} == {first.body["metadata"]["name"]}
    assert [asked.body["series"]["count"] for asked in again] == [2, 3]
    assert all(asked.content_type == "application/merge-patch+json" for asked in again)


async def test_what_is_said_again_before_it_is_sent_is_sent_once() -> None:
    async with telling(TAKEN) as (events, server):
        for _ in range(50):
            await planned(events)
        await events.flush(LONG)

    assert calls(server) == ["POST"]
    assert server.asked[0].body["series"]["count"] == 50


async def test_a_series_that_the_server_has_forgotten_begins_anew() -> None:
    async with telling(TAKEN, refusal(404, "NotFound"), TAKEN) as (events, server):
        await planned(events)
        await events.flush(LONG)
        await planned(events)
        await events.flush(LONG)

    assert calls(server) == ["POST", "PATCH", "POST"]
    assert server.asked[0].body["metadata"]["name"] != server.asked[2].body["metadata"]["name"]


async def test_the_same_much_later_is_news_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with telling(TAKEN) as (events, server):
        await planned(events)
        await events.flush(LONG)
        monkeypatch.setattr(events_module, "SERIES", timedelta(0))
        await planned(events)
        await events.flush(LONG)

    assert calls(server) == ["POST", "POST"]


async def test_a_refusal_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with telling(refusal(403, "Forbidden", "the namespace is being deleted"), TAKEN) as (events, server):
        await planned(events, "refused")
        await planned(events, "taken")
        await events.flush(LONG)

    assert [asked.body["note"] for asked in server.asked] == ["refused", "taken"]
    assert "Event Planned of prod-1a2b was not posted: 403 Forbidden" in caplog.text


async def test_a_silent_server_holds_up_nobody() -> None:
    async with telling(silence) as (events, _):
        began = asyncio.get_running_loop().time()
        for number in range(20):
            await planned(events, f"plan {number}")
        await events.flush(timedelta(milliseconds=50))

        assert asyncio.get_running_loop().time() - began < 5


async def test_more_than_can_wait_is_dropped_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(events_module, "WAITING", 5)
    async with telling(TAKEN) as (events, server):
        for number in range(8):
            await planned(events, f"plan {number}")
        await planned(events, "plan 0")  # what waits already is counted, not dropped
        await events.flush(LONG)

    assert len(server.asked) == 5
    assert server.asked[0].body["series"]["count"] == 2
    assert "3 Events were dropped" in caplog.text


async def test_only_so_many_series_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "REMEMBERED", 2)
    async with telling(TAKEN) as (events, server):
        for note in ("a", "b", "c", "c", "a"):
            await planned(events, note)
            await events.flush(LONG)

    assert calls(server) == ["POST", "POST", "POST", "PATCH", "POST"]


@pytest.mark.parametrize("note", ["x" * 5000, "ä" * 5000, "€" * 5000])
async def test_a_long_note_is_cut_to_what_the_server_takes(note: str) -> None:
    async with telling(TAKEN) as (events, server):
        await planned(events, note)
        await events.flush(LONG)

    sent = server.asked[0].body["note"]
    assert LONGEST_NOTE - 6 < len(sent.encode()) <= LONGEST_NOTE
    assert sent.endswith("…")


async def test_a_lost_answer_does_not_make_two_events() -> None:
    """The name is ours, so the second try meets the first."""
    names = []

    async def drops_the_first(request: web.Request) -> web.Response:
        names.append((await request.json())["metadata"]["name"])
        if len(names) == 1:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"reason": "AlreadyExists", "message": "there"}, status=409)

    async with telling(drops_the_first) as (events, _):
        await planned(events)
        await events.flush(LONG)

    assert len(names) == 2
    assert len(set(names)) == 1
