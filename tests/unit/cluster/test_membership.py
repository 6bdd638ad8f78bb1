"""Whose metadata are read, and who stands still."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from kafka.protocol.admin import DescribeQuorumResponse

from kafka_recovery.cluster import advancing
from kafka_recovery.cluster.brokers import Brokers
from kafka_recovery.cluster.errors import ClusterIdMismatch, ClusterUnavailable, StaleMetadata
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.membership import Membership, View
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.ids import BrokerId
from unit.cluster.play import PATIENCE, SOON, Play, Stale
from unit.cluster.stage import Heard
from unit.network_in_memory import LoopInMemory


@asynccontextmanager
async def looking(
    play: Play, *brokers: int, expected: str | None = None, through: int | None = None
) -> AsyncIterator[Membership]:
    """`through`: the only bootstrap server; None: all of them are."""
    async with play.staged(*brokers), Brokers(PLAINTEXT) as connections:
        bootstrap = [play.address(id) for id in brokers if through in (None, id)]
        members = Membership(connections, bootstrap, expected)
        yield members
        await members.aclose()


async def seconds(work: Awaitable[object]) -> float:
    began = loop_time()
    await work
    return loop_time() - began


async def advances(members: Membership, view: View, deadline: timedelta = PATIENCE) -> dict[int, bool]:
    watermark = await advancing.committed(members.brokers, view, deadline)
    return {int(id): moved for id, moved in (await advancing.advances(members, view, watermark, deadline)).items()}


class TestChoosing:
    async def test_the_newest_metadata_are_read(self) -> None:
        async with looking(Play(applied={1: 90, 2: 120, 3: 100}), 1, 2, 3) as members:
            assert (await members.look(PATIENCE)).at.id == 2

    async def test_a_fenced_broker_is_not_gone_through_whatever_it_knows(self) -> None:
        async with looking(Play(applied={1: 90, 2: 120}, fenced={2}), 1, 2) as members:
            assert (await members.look(PATIENCE)).at.id == 1

    async def test_who_is_cut_off_is_asked_first_and_believed_nothing(self) -> None:
        """It lists everybody else as fenced, and itself as alive."""
        play = Play(applied={1: 50, 2: 100, 3: 100}, stale={1: Stale(alive=(1,), fenced=(2, 3))})
        async with looking(play, 1, 2, 3, through=1) as members:
            seen = await members.look(PATIENCE)

        assert seen.at.id == 2
        assert [id for id, entry in seen.cluster.brokers.items() if entry.fenced] == []

    async def test_brokers_that_came_since_are_asked_as_well(self) -> None:
        """Broker 1 was cut off before 3 came; 3 knows even more than 2, which lists it."""
        play = Play(applied={1: 50, 2: 100, 3: 101}, stale={1: Stale(alive=(1, 2))})
        async with looking(play, 1, 2, 3, through=1) as members:
            seen = await members.look(PATIENCE)

        assert set(seen.versions) == {1, 2, 3}
        assert seen.at.id == 3

    async def test_a_broker_that_came_since_and_is_silent_is_known_to_be(self) -> None:
        play = Play(applied={1: 50, 2: 100}, stale={1: Stale(alive=(1, 2))})
        async with looking(play, 1, 2, 3, through=1) as members:
            play.members[3].roles["ApiVersions"] = lambda heard: heard.cut()
            seen = await members.look(PATIENCE)

        assert set(seen.faults) == {3}

    async def test_a_cluster_all_of_whose_brokers_are_fenced_is_unavailable(self) -> None:
        async with looking(Play(fenced={1, 2}), 1, 2) as members:
            with pytest.raises(ClusterUnavailable, match="has fenced it"):
                await members.look(PATIENCE)

    async def test_another_cluster_than_expected_is_refused(self) -> None:
        async with looking(Play(), 1, expected="another") as members:
            with pytest.raises(ClusterIdMismatch):
                await members.look(PATIENCE)

    async def test_after_a_failure_another_broker_is_gone_through(self) -> None:
        play = Play(applied={1: 100, 2: 99})
        async with looking(play, 1, 2) as members:
            before = (await members.route(PATIENCE)).address
            members.forget_route()

            assert before == play.address(1)
            asyncio.get_running_loop().call_later(0.1, play.applied.update, {2: 100})
            assert (await members.route(PATIENCE)).address == play.address(2)

    async def test_but_not_one_whose_metadata_are_old(self) -> None:
        """It may be cut off from the controller, and would hold up what is sent through it for a minute."""
        play = Play(applied={1: 100, 2: 50})
        async with looking(play, 1, 2) as members:
            await members.route(PATIENCE)
            members.forget_route()

            assert (await members.route(PATIENCE)).address == play.address(1)


class TestWhoIsBelieved:
    async def test_a_broker_that_can_not_say_who_there_is_does_not_blind_us(self) -> None:
        """It knows the newest and answers fastest; others know the cluster as well."""
        play = Play(applied={1: 100, 2: 99})
        async with looking(play, 1, 2) as members:
            play.members[1].roles["DescribeCluster"] = lambda heard: heard.cut()
            assert (await members.look(PATIENCE)).at.id == 2

    async def test_a_bootstrap_server_of_another_cluster_does_not_blind_us(self) -> None:
        play = Play()
        async with looking(play, 1, 2, expected="a-play") as members:
            answer = play.describe_cluster(2, Heard("", 0, None, 0, 0, None))  # type: ignore[arg-type]
            answer.cluster_id = "another"
            play.members[1].roles["DescribeCluster"] = lambda heard: copy(answer)
            assert (await members.look(PATIENCE)).at.id == 2

    @pytest.mark.kernel
    @pytest.mark.parametrize(("host", "port"), [("", 9092), (".kafka.svc", 9092), ("a" * 64, 9092), ("kafka", 70000)])
    async def test_an_address_that_is_none_is_a_fault_of_its_broker_alone(self, host: str, port: int) -> None:
        """Somebody's script left a variable of advertised.listeners empty."""
        play = Play()
        async with looking(play, 1, 2) as members:
            play.elsewhere[2] = Address(host, port)
            seen = await members.look(PATIENCE)

        assert seen.at.id == 1
        assert seen.faults[BrokerId(2)].code == "BrokerUnreachable"

    async def test_brokers_behind_one_address_are_not_taken_for_each_other(self) -> None:
        """A load balancer before them: whoever answers there would be measured as each of them in turn."""
        play = Play()
        async with looking(play, 1, 2, 3) as members:
            play.elsewhere[3] = play.address(2)
            seen = await members.look(PATIENCE)

        assert set(seen.versions) == {1}
        assert {id: why.code for id, why in seen.faults.items()} == {2: "AnotherBroker", 3: "AnotherBroker"}

    async def test_if_all_are_behind_one_address_nobody_is_gone_through(self) -> None:
        play = Play()
        async with looking(play, 1, 2) as members:
            play.elsewhere[2] = play.address(1)
            with pytest.raises(ClusterUnavailable, match="all listed at"):
                await members.look(PATIENCE)


class TestSilence:
    """A node that is gone sends nothing back, not even that it refuses."""

    async def test_it_costs_one_deadline_in_all_and_not_one_a_look(self) -> None:
        play = Play(fenced={3})
        async with looking(play, 1, 2, 3) as members:
            play.members[3].roles["ApiVersions"] = lambda heard: None
            took = [await seconds(members.look(SOON)) for _ in range(3)]
            took.append(await seconds(members.look(SOON, in_a_hurry=True)))

        assert took[0] >= SOON.total_seconds()
        assert max(took[1:]) < SOON.total_seconds() / 50

    async def test_it_is_asked_on_and_seen_when_it_is_back(self) -> None:
        play = Play()
        async with looking(play, 1, 2) as members:
            play.members[2].roles["ApiVersions"] = lambda heard: None
            assert set((await members.look(SOON)).faults) == {2}
            play.members[2].roles["ApiVersions"] = lambda heard: play.api_versions(2, heard)
            async with asyncio.timeout(PATIENCE.total_seconds()):
                while (await members.look(SOON)).faults:
                    await asyncio.sleep(0.05)

    async def test_if_all_were_silent_a_moment_ago_whoever_answers_first_is_waited_for(self) -> None:
        """It was the way to them that was gone."""
        play = Play()
        async with looking(play, 1, 2) as members:
            for member in play.members.values():
                member.roles["ApiVersions"] = lambda heard: None
            with pytest.raises(ClusterUnavailable):
                await members.look(SOON)

            async def slowly(id: int, heard: Heard) -> Any:
                if heard.correlation_id > 1:  # the first one on a connection opens it
                    await asyncio.sleep(0.3)
                return play.api_versions(id, heard)

            for id, member in play.members.items():
                member.roles["ApiVersions"] = partial(slowly, id)
            assert set((await members.look(PATIENCE)).versions) == {1, 2}


class TestAVanishedHost:
    """No packet comes back from it: neither an answer, nor that its kernel takes a connection or refuses one."""

    @pytest.fixture
    def play(self) -> Play:
        return Play(fenced={3})

    def vanish(self, play: Play, broker: int) -> Callable[[], None]:
        """Returns what brings the host back."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, LoopInMemory)
        gone = play.address(broker)
        loop.vanished.add(gone)
        return lambda: loop.vanished.discard(gone)

    async def test_if_its_broker_is_fenced_it_costs_little_more_than_the_second_try_of_a_kernel(
        self, play: Play
    ) -> None:
        async with looking(play, 1, 2, 3) as members:
            self.vanish(play, 3)
            began = loop_time()
            seen = await members.look(PATIENCE)

        assert loop_time() - began < 1.5
        assert set(seen.versions) == {1, 2}
        assert seen.faults[BrokerId(3)].code == "BrokerTimeout"
        assert "nothing came back from its host within 1.2s" in seen.faults[BrokerId(3)].message

    async def test_nobody_waits_for_it_again_but_it_is_heard_when_it_is_back(self, play: Play) -> None:
        async with looking(play, 1, 2, 3) as members:
            back = self.vanish(play, 3)
            await members.look(PATIENCE)
            assert await seconds(members.look(PATIENCE)) < 0.1
            back()
            async with asyncio.timeout(PATIENCE.total_seconds()):
                while (await members.look(PATIENCE)).faults:
                    await asyncio.sleep(0.05)

    async def test_a_lost_packet_is_not_the_end_of_a_host(self, play: Play) -> None:
        async with looking(play, 1, 2, 3) as members:
            asyncio.get_running_loop().call_later(0.9, self.vanish(play, 3))
            assert set((await members.look(PATIENCE)).versions) == {1, 2, 3}

    async def test_a_fenced_broker_whose_host_is_up_is_waited_for_till_the_deadline(self, play: Play) -> None:
        """Its process stood still, or it is cut off from the controller alone: what its log holds may decide."""

        async def at_last(heard: Heard) -> Any:
            await asyncio.sleep(0.7 * PATIENCE.total_seconds())
            return play.api_versions(3, heard)

        async with looking(play, 1, 2, 3) as members:
            play.members[3].roles["ApiVersions"] = at_last
            assert set((await members.look(2 * PATIENCE)).versions) == {1, 2, 3}

    async def test_one_that_the_controller_counts_as_alive_is_waited_for_till_the_deadline(self) -> None:
        play = Play()
        async with looking(play, 1, 2, 3) as members:
            self.vanish(play, 3)
            assert await seconds(members.look(PATIENCE)) >= PATIENCE.total_seconds()

    async def test_while_another_one_does_not_answer_either_it_may_be_the_network(self, play: Play) -> None:
        async with looking(play, 1, 2, 3) as members:
            play.members[2].roles["ApiVersions"] = lambda heard: heard.cut()
            back = self.vanish(play, 3)
            asyncio.get_running_loop().call_later(0.5 * PATIENCE.total_seconds(), back)
            assert set((await members.look(PATIENCE)).versions) == {1, 3}

    async def test_that_a_broker_is_fenced_is_believed_of_the_newest_metadata_alone(self) -> None:
        """Broker 1 was just cut off and lists all others as fenced; by 2, which knows a little more, 3 is alive."""
        play = Play(applied={1: 99, 2: 100, 3: 98})
        async with looking(play, 1, 2, 3) as members:
            await members.look(PATIENCE)
            play.stale[1] = Stale(alive=(1,), fenced=(2, 3))
            play.members[3].roles["ApiVersions"] = lambda heard: None
            self.vanish(play, 3)
            assert await seconds(members.look(PATIENCE)) >= PATIENCE.total_seconds()


class TestCurrent:
    async def test_a_broker_that_is_behind_is_waited_for(self) -> None:
        play = Play(applied={1: 90}, watermark=100)
        async with looking(play, 1) as members:
            asyncio.get_running_loop().call_later(0.1, play.applied.update, {1: 99})

            assert (await members.current(PATIENCE)).address == play.address(1)
            assert play.applied[1] == 99

    async def test_one_that_does_not_catch_up_in_time_shows_old_metadata(self) -> None:
        async with looking(Play(applied={1: 90}, watermark=100), 1) as members:
            with pytest.raises(StaleMetadata, match="offset 90, the controller had committed 99"):
                await members.current(timedelta(seconds=1))

    async def test_a_broker_whom_the_controller_does_not_answer_may_show_old_metadata(self) -> None:
        play = Play(applied={1: 99})
        async with looking(play, 1) as members:
            play.members[1].roles["DescribeQuorum"] = lambda heard: DescribeQuorumResponse(error_code=7, topics=[])
            with pytest.raises(StaleMetadata, match="the controller does not answer it"):
                await members.current(PATIENCE)

    async def test_whoever_may_not_describe_the_quorum_goes_by_the_newest_there_is(self) -> None:
        play = Play(applied={1: 90, 2: 95}, watermark=None)
        async with looking(play, 1, 2) as members:
            assert (await members.current(PATIENCE)).address == play.address(2)


@pytest.fixture
def in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that did not move in 300 ms stands still."""
    monkeypatch.setattr(advancing, "STANDSTILL", timedelta(milliseconds=300))


@pytest.mark.usefixtures("in_a_hurry")
class TestAdvancing:
    async def test_a_broker_that_has_applied_what_was_committed_is_not_asked_again(self) -> None:
        play = Play(applied={1: 99}, watermark=100)
        async with looking(play, 1) as members:
            view = await members.look(PATIENCE)
            asked = len(play.asked("ApiVersions"))

            assert await advances(members, view) == {1: True}
            assert len(play.asked("ApiVersions")) == asked

    async def test_a_broker_that_is_a_little_late_advances(self) -> None:
        play = Play(applied={1: 99, 2: 80}, watermark=100)
        async with looking(play, 1, 2) as members:
            view = await members.look(PATIENCE)
            asyncio.get_running_loop().call_later(0.1, play.applied.update, {2: 99})

            assert await advances(members, view) == {1: True, 2: True}

    async def test_a_broker_that_does_not_move_stands_still(self) -> None:
        async with looking(Play(applied={1: 99, 2: 80}, watermark=100), 1, 2) as members:
            assert await advances(members, await members.look(PATIENCE)) == {1: True, 2: False}

    async def test_without_the_quorum_moving_at_all_will_do(self) -> None:
        play = Play(applied={1: 99, 2: 80}, watermark=None)
        async with looking(play, 1, 2) as members:
            view = await members.look(PATIENCE)
            play.applied[2] = 81

            assert await advances(members, view) == {1: False, 2: True}

    async def test_a_busy_broker_neither_stands_still_nor_makes_others_seem_to(self) -> None:
        """It answers after the time in which it should have moved: that says how it was when it was asked, no more."""
        play = Play(applied={1: 80, 2: 80}, watermark=100)

        async def busy(heard: Heard) -> Any:
            answer = play.api_versions(2, heard)
            await asyncio.sleep(0.4)
            return answer

        async with looking(play, 1, 2) as members:
            view = await members.look(PATIENCE)
            play.members[2].roles["ApiVersions"] = busy
            asyncio.get_running_loop().call_later(0.1, play.applied.update, {1: 99, 2: 99})

            assert await advances(members, view) == {1: True, 2: True}

    async def test_a_broker_that_falls_silent_is_unknown_and_costs_a_deadline_at_most(self) -> None:
        play = Play(applied={1: 99, 2: 80}, watermark=100)
        async with looking(play, 1, 2) as members:
            view = await members.look(PATIENCE)
            play.members[2].roles["ApiVersions"] = lambda heard: None
            began = loop_time()

            assert await advances(members, view, timedelta(seconds=1)) == {1: True}
            assert loop_time() - began < PATIENCE.total_seconds() / 2
