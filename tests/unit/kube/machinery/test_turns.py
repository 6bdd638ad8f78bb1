"""Calls that wait for each other: no server is blamed for our own queue, and no queue hides a server that is silent."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta

import pytest
from aiohttp import web

from kafka_recovery.kube.machinery.api import ApiError, Unanswered
from kafka_recovery.kube.machinery.turns import Turns
from unit.kube.staged_server import silence, staged
from unit.virtual import taking_no_time

PATH = "/api/v1/namespaces/kafka/configmaps/plan"


async def slow(request: web.Request) -> web.Response:
    await asyncio.sleep(0.1)
    return web.json_response({"kind": "ConfigMap"})


async def test_a_crowd_takes_longer_than_a_deadline_and_nobody_of_it_fails() -> None:
    """200 recoveries at once: each call is answered in time, once it is its turn."""
    deadline = timedelta(seconds=1)
    async with staged(slow, at_once=4) as (api, server):
        began = time.monotonic()
        answers = await asyncio.gather(*(api.get(PATH, deadline=deadline) for _ in range(56)))

    assert time.monotonic() - began > deadline.total_seconds()
    assert answers == [{"kind": "ConfigMap"}] * 56
    assert len(server.asked) == 56, "one was tried again"


async def test_no_more_calls_are_under_way_than_there_are_turns() -> None:
    under_way: list[int] = [0]

    async def counted(request: web.Request) -> web.Response:
        under_way.append(under_way[-1] + 1)
        answer = await slow(request)
        under_way.append(under_way[-1] - 1)
        return answer

    async with staged(counted, at_once=3) as (api, _):
        await asyncio.gather(*(api.get(PATH) for _ in range(12)))

    assert max(under_way) == 3


async def test_behind_a_server_that_is_silent_nobody_waits_longer_than_for_one_answer() -> None:
    """Between two waves nobody waits for the API server, however many wait with him."""
    deadline = timedelta(milliseconds=300)
    async with staged(silence, at_once=2) as (api, _):
        began = time.monotonic()
        ends = await asyncio.gather(*(api.get(PATH, deadline=deadline) for _ in range(40)), return_exceptions=True)
        took = time.monotonic() - began

    assert {type(end) for end in ends} == {Unanswered}
    assert took < 10 * deadline.total_seconds(), "twenty turns of two, one after another, were twenty deadlines"
    assert "nobody was answered for 0.3 s" in " ".join(map(str, ends))


async def test_while_a_call_pauses_before_its_next_try_others_have_its_turn() -> None:
    async def busy(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "reason": "Busy"}, status=429, headers={"Retry-After": "1"})

    async with staged(busy, slow, at_once=1) as (api, _):
        patient = asyncio.create_task(api.get(PATH))
        await asyncio.sleep(0.1)
        await api.get(PATH)

        assert not patient.done()
        assert await patient == {"kind": "ConfigMap"}


async def test_a_refusal_gives_the_turn_back() -> None:
    async def no(request: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "reason": "Forbidden"}, status=403)

    async with staged(no, at_once=1) as (api, _):
        for _ in range(3):
            with pytest.raises(ApiError, match="403"):
                await api.get(PATH)


@taking_no_time
async def test_who_is_cancelled_while_waiting_leaves_the_turn_to_the_next() -> None:
    turns, had = Turns(1), []

    async def take(name: str) -> None:
        async with turns.one(60):
            had.append(name)
            await asyncio.sleep(1)

    first, second, third = (asyncio.create_task(take(name)) for name in ("first", "second", "third"))
    await asyncio.sleep(0.5)
    second.cancel()
    await asyncio.gather(first, third)

    assert second.cancelled()

    assert had == ["first", "third"]


@pytest.mark.parametrize("moment", [0.999, 1.0, 1.001])
@taking_no_time
async def test_a_turn_that_comes_with_the_cancellation_is_not_lost(moment: float) -> None:
    turns = Turns(1)

    async def take() -> None:
        async with turns.one(60):
            await asyncio.sleep(1)

    first, second = asyncio.create_task(take()), asyncio.create_task(take())
    await asyncio.sleep(moment)
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    async with asyncio.timeout(5), turns.one(60) as waited:
        assert waited < 5


@taking_no_time
async def test_turns_are_given_in_the_order_of_asking() -> None:
    turns, had = Turns(2), []

    async def take(number: int) -> None:
        async with turns.one(60):
            had.append(number)
            await asyncio.sleep(1)

    await asyncio.gather(*(take(number) for number in range(10)))

    assert had == list(range(10))
