"""Whose metadata are read, and who stands still."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.cluster import view as view_module
from kafka_recovery.cluster.brokers import Brokers
from kafka_recovery.cluster.errors import ClusterMismatch, ClusterUnavailable
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.cluster.view import View, Views
from unit.cluster.play import PATIENCE, Play
from unit.cluster.stage import Heard


@asynccontextmanager
async def looking(play: Play, *brokers: int, expected: str | None = None) -> AsyncIterator[Views]:
    async with play.staged(*brokers), Brokers(PLAINTEXT) as connections:
        yield Views(connections, [member.address for member in play.members.values()], expected)


async def advancing(views: Views, view: View, deadline: timedelta = PATIENCE) -> dict[int, bool]:
    watermark = await views.quorum(view, deadline)
    return {int(id): moved for id, moved in (await views.advances(view, watermark, deadline)).items()}


class TestChoosing:
    async def test_the_newest_metadata_are_read(self) -> None:
        async with looking(Play(applied={1: 90, 2: 120, 3: 100}), 1, 2, 3) as views:
            assert (await views.look(PATIENCE)).at.id == 2

    async def test_a_fenced_broker_is_not_gone_through_whatever_it_knows(self) -> None:
        async with looking(Play(applied={1: 90, 2: 120}, fenced={2}), 1, 2) as views:
            assert (await views.look(PATIENCE)).at.id == 1

    async def test_a_cluster_all_of_whose_brokers_are_fenced_is_unavailable(self) -> None:
        async with looking(Play(fenced={1, 2}), 1, 2) as views:
            with pytest.raises(ClusterUnavailable, match="has fenced it"):
                await views.look(PATIENCE)

    async def test_another_cluster_than_expected_is_refused(self) -> None:
        async with looking(Play(), 1, expected="another") as views:
            with pytest.raises(ClusterMismatch):
                await views.look(PATIENCE)

    async def test_after_a_failure_another_broker_is_gone_through(self) -> None:
        play = Play(applied={1: 100, 2: 99})
        async with looking(play, 1, 2) as views:
            before = await views.route(PATIENCE)
            views.forget_route()

            assert before == play.address(1)
            assert await views.route(PATIENCE) == play.address(2)

    async def test_but_not_one_whose_metadata_are_old(self) -> None:
        """It may be cut off from the controller, and would hold up what is sent through it for a minute."""
        play = Play(applied={1: 100, 2: 50})
        async with looking(play, 1, 2) as views:
            await views.route(PATIENCE)
            views.forget_route()

            assert await views.route(PATIENCE) == play.address(1)


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that did not move in 300 ms stands still."""
    monkeypatch.setattr(view_module, "_STANDSTILL", timedelta(milliseconds=300))


@pytest.mark.usefixtures("in_a_hurry")
class TestAdvancing:
    async def test_a_broker_that_has_applied_what_was_committed_is_not_asked_again(self) -> None:
        play = Play(applied={1: 99}, watermark=100)
        async with looking(play, 1) as views:
            view = await views.look(PATIENCE)
            asked = len(play.asked("ApiVersions"))

            assert await advancing(views, view) == {1: True}
            assert len(play.asked("ApiVersions")) == asked

    async def test_a_broker_that_is_a_little_late_advances(self) -> None:
        play = Play(applied={1: 99, 2: 80}, watermark=100)
        async with looking(play, 1, 2) as views:
            view = await views.look(PATIENCE)
            asyncio.get_running_loop().call_later(0.1, play.applied.update, {2: 99})

            assert await advancing(views, view) == {1: True, 2: True}

    async def test_a_broker_that_does_not_move_stands_still(self) -> None:
        async with looking(Play(applied={1: 99, 2: 80}, watermark=100), 1, 2) as views:
            assert await advancing(views, await views.look(PATIENCE)) == {1: True, 2: False}

    async def test_without_the_quorum_moving_at_all_will_do(self) -> None:
        play = Play(applied={1: 99, 2: 80}, watermark=None)
        async with looking(play, 1, 2) as views:
            view = await views.look(PATIENCE)
            play.applied[2] = 81

            assert await advancing(views, view) == {1: False, 2: True}

    async def test_a_busy_broker_neither_stands_still_nor_makes_others_seem_to(self) -> None:
        """It answers after the time in which it should have moved: that says how it was when it was asked, no more."""
        play = Play(applied={1: 80, 2: 80}, watermark=100)

        async def busy(heard: Heard) -> Any:
            answer = play.api_versions(2, heard)
            await asyncio.sleep(0.4)
            return answer

        async with looking(play, 1, 2) as views:
            view = await views.look(PATIENCE)
            play.members[2].roles["ApiVersions"] = busy
            asyncio.get_running_loop().call_later(0.1, play.applied.update, {1: 99, 2: 99})

            assert await advancing(views, view) == {1: True, 2: True}

    async def test_a_broker_that_falls_silent_is_unknown_and_costs_a_deadline_at_most(self) -> None:
        play = Play(applied={1: 99, 2: 80}, watermark=100)
        async with looking(play, 1, 2) as views:
            view = await views.look(PATIENCE)
            play.members[2].roles["ApiVersions"] = lambda heard: None
            began = time.monotonic()

            assert await advancing(views, view, timedelta(seconds=1)) == {1: True}
            assert time.monotonic() - began < 2
