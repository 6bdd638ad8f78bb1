"""The watching task: its pace, what slow and hung clusters do to it and to others, and how fast an incident opens."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise

import pytest

from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.pulse import Pulse
from kafka_recovery.cluster.scan import Scan, UncleanTopics
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.kube.watching.watcher import Watcher
from kafka_recovery.simulator.host.loop import VirtualClock, VirtualLoop
from kafka_recovery.simulator.model.scheduler import Scheduler
from unit.cluster.play import Play
from unit.kube.watching.bench import (
    AT_ONCE,
    CALM,
    INTERVAL,
    LOST,
    PACE,
    Bench,
    FakeDesk,
    FakeKafka,
    alone,
    now,
    virtually,
)
from unit.kube.watching.sights import offline, pulse, seconds
from unit.network_in_memory import LoopInMemory


class TestPace:
    @virtually(alone)
    async def test_what_a_slow_pulse_missed_is_left_out_and_never_caught_up_with(self, bench: Bench) -> None:
        bench.kafka.pulse_takes = 0.6
        await bench.after(3)
        bench.kafka.pulse_takes = 0.005
        await bench.after(1)
        assert bench.kafka.pulses[:4] == pytest.approx([0, 0.75, 1.5, 2.25])
        assert bench.kafka.pulses[4:] == pytest.approx([3, 3.25, 3.5, 3.75])

    @virtually(alone)
    async def test_a_pulse_that_never_ends_is_cut_off_and_we_know_that_we_see_nothing(self, bench: Bench) -> None:
        bench.kafka.pulse_takes = 1e9
        await bench.after(10)
        assert bench.watcher.view.isolated
        assert bench.watcher.view.isolated.code == "InternalError"
        assert len(bench.kafka.pulses) == 3
        bench.kafka.pulse_takes = 0.005
        await bench.after(4)
        assert bench.watcher.view.isolated is None

    @virtually(alone)
    async def test_a_cluster_that_refuses_us_is_asked_less_and_less_often_but_at_least_every_two_seconds(
        self, bench: Bench
    ) -> None:
        bench.kafka.fault = LOST
        await bench.after(20.1)
        assert bench.kafka.pulses[:6] == pytest.approx([0, 0.5, 1, 2, 4, 6])
        bench.kafka.fault = None
        await bench.after(3)
        assert bench.kafka.pulses[-1] - bench.kafka.pulses[-2] == pytest.approx(INTERVAL)

    def test_of_ten_clusters_a_hung_one_costs_the_others_nothing(self) -> None:
        loop = VirtualLoop(Scheduler())
        clock = VirtualClock(loop)

        async def main() -> list[FakeKafka]:
            clusters = [FakeKafka(clock) for _ in range(10)]
            clusters[4].pulse_takes = clusters[4].scan_takes = 1e9
            watchers = [Watcher(f"c{n}", kafka, FakeDesk(clock), clock) for n, kafka in enumerate(clusters)]
            tasks = [asyncio.create_task(watcher.run()) for watcher in watchers]
            await clock.sleep(seconds(60))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return clusters

        for number, kafka in enumerate(loop.finish(main())):
            if number != 4:
                gaps = [later - one for one, later in pairwise(kafka.pulses)]
                assert max(gaps) < 2 * INTERVAL
                assert len(kafka.pulses) >= 240


class TestIncidents:
    @virtually(alone)
    async def test_without_patience_one_opens_within_an_interval_and_a_scan(self, bench: Bench) -> None:
        await bench.after(5.001)
        bench.kafka.loses(offline(), offline(partition=1))
        fenced_at = now(bench.clock)
        await bench.after(5)
        assert bench.desk.names() == [["orders-0", "orders-1"]]
        took = bench.desk.opened[0][0] - fenced_at
        assert took <= INTERVAL + bench.kafka.pulse_takes + bench.kafka.scan_takes + 0.001

    @virtually(alone)
    async def test_with_patience_one_opens_when_that_is_over_from_a_fresh_scan(self, bench: Bench) -> None:
        bench.desk.rules = CALM
        await bench.after(5)
        bench.kafka.loses(offline(), offline(partition=1))
        await bench.after(15)
        bench.kafka.offline = (offline(),)  # the other one came back, and no broker changed
        await bench.after(15)
        assert bench.desk.names() == [["orders-0"]]
        opened_at = bench.desk.opened[0][0]
        assert 25 < opened_at < 26.5
        assert min(opened_at - at for at in bench.kafka.scans if at <= opened_at) < 0.1

    @virtually(alone)
    async def test_one_that_could_not_be_opened_is_tried_again(self, bench: Bench) -> None:
        bench.desk.refuses = 3
        bench.kafka.loses(offline())
        await bench.after(6)
        assert bench.desk.names() == [["orders-0"]]
        assert 3 <= bench.desk.opened[0][0] < 5

    @virtually(alone)
    async def test_a_policy_that_comes_later_is_asked_at_once(self, bench: Bench) -> None:
        bench.desk.rules = None
        bench.kafka.loses(offline())
        await bench.after(10)
        assert [reason.code for reason in bench.watcher.view.left.values()] == ["NoPolicy"]
        bench.desk.rules = AT_ONCE
        bench.watcher.look_again()
        await bench.after(0.5)
        assert bench.desk.names() == [["orders-0"]]

    @virtually(alone)
    async def test_a_deleted_recovery_makes_room_for_another_one(self, bench: Bench) -> None:
        bench.kafka.loses(offline())
        await bench.after(5)
        bench.watcher.forget(bench.desk.opened[0][1].name)
        await bench.after(1)
        assert bench.desk.names() == [["orders-0"], ["orders-0"]]

    @virtually(alone)
    async def test_nothing_is_opened_while_we_see_nothing_and_all_of_it_when_we_do(self, bench: Bench) -> None:
        await bench.after(5)
        bench.kafka.fault = LOST
        bench.kafka.loses(offline())
        await bench.after(60)
        assert not bench.desk.opened
        bench.kafka.fault = None
        await bench.after(2.5)
        assert bench.desk.names() == [["orders-0"]]


class TestWaking:
    @virtually(alone)
    async def test_who_is_woken_goes_through_all_partitions_at_the_next_pulse(self, bench: Bench) -> None:
        await bench.after(62)
        before = len(bench.kafka.scans)
        last = bench.kafka.scans[-1]
        bench.watcher.wake()
        woken = now(bench.clock)
        await bench.after(2 * INTERVAL)
        assert len(bench.kafka.scans) == before + 1
        assert woken - last < 4, "it was not due by itself"

    @virtually(alone)
    async def test_being_woken_all_the_time_is_a_scan_a_second_and_no_more(self, bench: Bench) -> None:
        await bench.after(10)
        before = len(bench.kafka.scans)
        for _ in range(1000):
            bench.watcher.wake()
            await bench.after(0.01)
        assert 8 <= len(bench.kafka.scans) - before <= 10

    @virtually(alone)
    async def test_who_sees_nothing_looks_once_it_sees_again(self, bench: Bench) -> None:
        await bench.after(5)
        bench.kafka.fault = LOST
        await bench.after(5)
        before = len(bench.kafka.scans)
        bench.watcher.wake()
        await bench.after(5)
        assert len(bench.kafka.scans) == before
        bench.kafka.fault = None
        await bench.after(3)
        assert len(bench.kafka.scans) > before


class TestView:
    @virtually(alone)
    async def test_it_tells_what_was_seen_and_only_when_it_is_new(self, bench: Bench) -> None:
        await bench.after(100)
        before = len(bench.desk.views)
        await bench.after(100)
        assert len(bench.desk.views) == before
        bench.kafka.loses(offline())
        await bench.after(5)
        view = bench.desk.views[-1]
        assert [broker.state.value for broker in view.brokers] == ["Online", "Online", "Fenced"]
        assert [str(each.partition.id) for each in view.offline] == ["orders-0"]
        assert (view.cluster_id, view.topics, view.partitions, view.isolated) == ("abc", 2, 7, None)
        assert bench.watcher.view.pulsed_at
        assert now(bench.clock) - bench.watcher.view.pulsed_at.total_seconds() < 2 * INTERVAL

    @virtually(alone)
    async def test_a_scan_that_fails_says_why_and_is_tried_again(self, bench: Bench) -> None:
        bench.kafka.scan_fault = LOST
        await bench.after(5)
        assert bench.scan_fault == LOST.reason
        assert 3 <= len(bench.kafka.scans) <= 6
        bench.kafka.scan_fault = None
        await bench.after(2)
        assert bench.watcher.view.scanned_at
        assert bench.watcher.view.scan_fault is None

    @virtually(alone)
    async def test_topics_in_which_kafka_elects_by_itself_are_shown(self, bench: Bench) -> None:
        bench.kafka.configs_fault = LOST
        await bench.after(10)
        assert bench.watcher.view.unclean is None
        bench.kafka.configs_fault = None
        await bench.after(2)
        assert bench.watcher.view.unclean == UncleanTopics(("orders",), 0)

    @virtually(alone)
    async def test_the_controller_is_asked_only_in_doubt(self, bench: Bench) -> None:
        await bench.after(60)
        assert not bench.kafka.asked_controller
        bench.kafka.seen = pulse(1, 2, 3, silent=[1, 2, 3])
        await bench.after(3)
        assert bench.kafka.asked_controller


def test_with_the_real_client_too_a_black_hole_costs_only_its_own_task() -> None:
    loop = LoopInMemory()
    clock, pulsed, tasks = VirtualClock(loop), [list[float]() for _ in range(10)], list[asyncio.Task[None]]()
    desks = [FakeDesk(clock) for _ in pulsed]

    async def main() -> None:
        async with AsyncExitStack() as stack:
            plays = [await stack.enter_async_context(Play().staged(1)) for _ in pulsed]
            plays[9].members[1].roles["ApiVersions"] = lambda heard: None
            for number, play in enumerate(plays):
                cluster = await stack.enter_async_context(KafkaCluster([play.address(1)], PLAINTEXT))
                sights = Counted(cluster, clock, pulsed[number])
                tasks.append(asyncio.create_task(Watcher(f"c{number}", sights, desks[number], clock, PACE).run()))
            await clock.sleep(seconds(10))
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    loop.finish(main())

    for times in pulsed[:9]:
        assert len(times) >= 40
        assert max(later - one for one, later in pairwise(times)) < INTERVAL + 0.001
    assert desks[9].views[-1].isolated
    assert desks[9].views[-1].isolated.code == "ClusterUnavailable"


@dataclass
class Counted:
    """The real thing, its pulses timed."""

    cluster: KafkaCluster
    clock: VirtualClock
    times: list[float]

    async def pulse(self, deadline: timedelta, *, ask_controller: bool = False) -> Pulse:
        self.times.append(now(self.clock))
        found = await self.cluster.pulse(deadline, ask_controller=ask_controller)
        return replace(found, brokers={id: replace(b, applied=len(self.times)) for id, b in found.brokers.items()})

    async def scan(self, deadline: timedelta) -> Scan:
        return await self.cluster.scan(deadline)

    async def unclean_topics(self, topics: Sequence[str], deadline: timedelta) -> UncleanTopics:
        return await self.cluster.unclean_topics(topics, deadline)
