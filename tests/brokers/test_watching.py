"""Watching real clusters: what is seen of accidents, how soon an incident opens, and when we suspect ourselves."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from brokers.conftest import ON_3_9, PROXIED, WITH_ELR, WITHOUT_ELR, only_in_full
from fidelity import on_brokers
from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.errors import ClusterError
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Policy, Rule
from kafka_recovery.kube.watching.incidents import Incident
from kafka_recovery.kube.watching.room import NOTHING, Used
from kafka_recovery.kube.watching.watch import OFTEN
from kafka_recovery.kube.watching.watcher import Watcher, WatchView
from kafka_recovery.recovery.clock import SystemClock
from testbed.cluster import RealKafka
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers
GROUP = "without ELR"

AT_ONCE = Policy((Rule("at-once", patience=timedelta(0)),))
CLOCK = SystemClock()
PATIENT = on_brokers.wish("newest", elr=False)
"""Its sessions are longer than others': a watcher is to see that a broker does not answer before it is fenced."""
STILL = {"properties": {"metadata.max.idle.interval.ms": "0"}, "brokers": 1}


@dataclass
class Desk:
    """Notes what it is told, and when."""

    opened: list[tuple[timedelta, Incident]] = field(default_factory=list)
    views: list[WatchView] = field(default_factory=list)

    def policy(self) -> Policy | None:
        return AT_ONCE

    def used(self) -> Used:
        return NOTHING

    def open(self) -> Mapping[TopicPartition, str]:
        return {}

    def changed(self, view: WatchView) -> None:
        self.views.append(view)

    async def open_incident(self, incident: Incident) -> None:
        self.opened.append((CLOCK.monotonic(), incident))

    @property
    def isolated(self) -> str | None:
        reason = self.views[-1].isolated if self.views else None
        return reason.code if reason else None

    def state(self, broker: int) -> str | None:
        found = [each for each in self.views[-1].brokers if each.id == broker] if self.views else []
        return found[0].state.value if found else None

    def states(self, broker: int) -> list[str]:
        """Each state it was in, in order."""
        seen = [each.state.value for view in self.views for each in view.brokers if each.id == broker]
        return [state for before, state in zip([None, *seen], seen, strict=False) if state != before]

    def incarnation(self, broker: int) -> int:
        return next(each.incarnation for each in self.views[-1].brokers if each.id == broker)


@asynccontextmanager
async def watching(kafka: RealKafka) -> AsyncIterator[Desk]:
    """A watcher at work; returns once everybody is online and every partition was looked at."""
    addresses = [Address.parse(address) for address in kafka.bootstrap.split(",")]
    desk = Desk()
    async with KafkaCluster(addresses, PLAINTEXT) as cluster:
        watcher = Watcher("prod", cluster, desk, CLOCK)
        task = asyncio.create_task(watcher.run())
        try:
            await until(lambda: all(desk.state(id) == "Online" for id in kafka.running), task)
            await until(lambda: watcher.view.scanned_at is not None, task)
            yield desk
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def until(good: Callable[[], bool], task: asyncio.Task[None] | None = None, patience: float = 30) -> None:
    """Wait for it; what the task raises comes first."""
    async with asyncio.timeout(patience):
        while not good():
            if task is not None and task.done():
                await task
            await asyncio.sleep(0.01)


async def fenced_at(kafka: RealKafka, broker: int, through: int) -> timedelta:
    """When another broker first lists this one as fenced, within 10 ms."""
    async with Brokers(PLAINTEXT) as brokers:
        at = Address.parse(kafka.address(through))
        while True:
            with contextlib.suppress(ClusterError):
                cluster = await metadata.describe_cluster(brokers, at, timedelta(seconds=1))
                entry = cluster.brokers.get(BrokerId(broker))
                if entry is None or entry.fenced:
                    return CLOCK.monotonic()
            await asyncio.sleep(0.01)


@pytest.fixture
def kafka(request: pytest.FixtureRequest, warm: WarmKafka) -> Iterator[RealKafka]:
    """Four brokers, unless parametrized."""
    with warm.lent(**getattr(request, "param", PATIENT)) as cluster:
        yield cluster


@pytest.mark.parametrize("kafka", [WITHOUT_ELR, ON_3_9, only_in_full(WITH_ELR)], indirect=True)
async def test_what_a_fenced_broker_leaves_behind_opens_at_once_without_patience(kafka: RealKafka) -> None:
    kafka.create_topic("orders", [[3], [3]])
    kafka.create_topic("pay", [[1, 3], [3, 2]])
    async with watching(kafka) as desk:
        noting = asyncio.create_task(fenced_at(kafka, 3, through=1))
        await asyncio.to_thread(kafka.freeze, 3)
        await until(lambda: bool(desk.opened))
        opened_at, incident = desk.opened[0]
        took = opened_at - await noting
        await asyncio.sleep(3)

    assert [str(each.id) for each in incident.partitions] == ["orders-0", "orders-1"]
    assert len(desk.opened) == 1
    assert took < OFTEN, "the change was seen; without one it would take the next look at everything"
    print(f"from fenced to opened: {took.total_seconds() * 1000:.0f} ms")


async def test_a_killed_broker_comes_back_as_another_process_and_a_frozen_one_as_itself(kafka: RealKafka) -> None:
    async with watching(kafka) as desk:
        await asyncio.to_thread(kafka.kill, 3)
        await asyncio.to_thread(kafka.freeze, 2)
        await until(lambda: desk.state(3) == desk.state(2) == "Fenced")
        kafka.thaw(2)
        await asyncio.to_thread(kafka.start, 3)
        await until(lambda: desk.state(3) == desk.state(2) == "Online")

    assert desk.states(3)[:3] == ["Online", "Unreachable", "Fenced"]
    assert desk.states(3)[-1] == "Online"
    assert (desk.incarnation(2), desk.incarnation(3)) == (0, 1)


async def test_two_of_three_that_die_are_our_own_fault_until_the_controller_says_so_too(kafka: RealKafka) -> None:
    kafka.create_topic("lost", [[2, 3]])
    kafka.freeze(4)  # it is not one of the three
    kafka.wait_until_fenced(4)
    async with watching(kafka) as desk:
        await asyncio.to_thread(kafka.kill, 2)
        await asyncio.to_thread(kafka.kill, 3)
        await until(lambda: desk.isolated == "OperatorCutOff")
        assert not desk.opened
        await until(lambda: bool(desk.opened))

        assert desk.isolated is None
        assert {desk.state(2), desk.state(3)} == {"Fenced"}
        for broker in (2, 3):
            await asyncio.to_thread(kafka.start, broker)
        await until(lambda: desk.state(2) == desk.state(3) == "Online")


async def test_without_a_controller_nothing_moves_and_we_say_so(kafka: RealKafka) -> None:
    async with watching(kafka) as desk:
        kafka.freeze_controller()
        await until(lambda: desk.isolated == "NoActiveController")
        kafka.thaw_controller()
        await until(lambda: desk.isolated is None)


@pytest.mark.parametrize(
    "kafka", [pytest.param(PROXIED, id="behind proxies", marks=pytest.mark.xdist_group("proxied"))], indirect=True
)
async def test_behind_a_cut_path_we_see_that_it_is_us(kafka: RealKafka) -> None:
    kafka.create_topic("orders", [[1, 2, 3]])
    async with watching(kafka) as desk:
        for broker in (1, 2):
            kafka.proxy(broker).stall()
        await until(lambda: desk.isolated == "OperatorCutOff")
        kafka.proxy(3).stall()
        await until(lambda: desk.isolated == "ClusterUnavailable")
        for broker in (1, 2, 3):
            kafka.proxy(broker).restore()
        await until(lambda: desk.isolated is None)

    assert not desk.opened


async def test_topics_in_which_kafka_elects_uncleanly_by_itself_are_seen(kafka: RealKafka) -> None:
    kafka.create_topic("careless", [[1, 2]], unclean_leader_election_enable="true")
    kafka.create_topic("careful", [[1, 2]])
    async with watching(kafka) as desk:
        await until(lambda: desk.views[-1].unclean is not None)

        found = desk.views[-1].unclean
        assert found
        assert (found.topics, found.unread) == (("careless",), 0)


@pytest.mark.parametrize("kafka", [STILL], indirect=True)
async def test_a_cluster_whose_controller_writes_no_no_ops_is_trusted_though_nothing_moves(kafka: RealKafka) -> None:
    async with watching(kafka) as desk:
        await asyncio.sleep(6)

    assert {view.isolated for view in desk.views} == {None}
