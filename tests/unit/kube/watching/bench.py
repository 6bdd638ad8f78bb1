"""A watcher at work in virtual time: a Kafka that it looks at, a desk that opens incidents, and who moves both."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypeVar

from kafka_recovery.cluster.pulse import Pulse
from kafka_recovery.cluster.scan import OfflinePartition, Scan, UncleanTopics
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy, Rule
from kafka_recovery.domain.reason import ClusterFault, Reason
from kafka_recovery.kube.watching.incidents import Incident
from kafka_recovery.kube.watching.room import NOTHING, Used
from kafka_recovery.kube.watching.watcher import NotOpened, Pace, Watcher, WatchView
from kafka_recovery.recovery.ports import Clock
from kafka_recovery.simulator.host.loop import VirtualClock, VirtualLoop
from kafka_recovery.simulator.model.scheduler import Scheduler
from unit.kube.watching.sights import pulse, seconds

AT_ONCE = Policy((Rule("at-once", patience=seconds(0)),))
CALM = Policy((Rule("calm", patience=seconds(20)),))
PACE = Pace(deadline=seconds(1))
INTERVAL = PACE.interval.total_seconds()
LOST = ClusterFault("nobody answers")


@dataclass
class FakeKafka:
    """A cluster as a watcher sees it; `*_takes` in seconds. Its metadata move on with every pulse."""

    clock: Clock
    pulse_takes: float = 0.005
    scan_takes: float = 0.01
    seen: Pulse = field(default_factory=lambda: pulse(1, 2, 3))
    offline: tuple[OfflinePartition, ...] = ()
    fault: ClusterFault | None = None
    scan_fault: ClusterFault | None = None
    configs_fault: ClusterFault | None = None
    pulses: list[float] = field(default_factory=list)
    scans: list[float] = field(default_factory=list)
    asked: int = 0
    asked_controller: int = 0

    async def pulse(self, deadline: timedelta, *, ask_controller: bool = False) -> Pulse:
        assert not self.asked, "one at a time"
        self.asked += 1
        self.asked_controller += ask_controller
        self.pulses.append(now(self.clock))
        try:
            await self.clock.sleep(seconds(self.pulse_takes))
        finally:
            self.asked -= 1
        if self.fault:
            raise self.fault
        brokers = {id: replace(told, applied=len(self.pulses)) for id, told in self.seen.brokers.items()}
        return replace(self.seen, brokers=brokers, took=seconds(self.pulse_takes))

    async def scan(self, deadline: timedelta) -> Scan:
        self.scans.append(now(self.clock))
        found = self.offline
        await self.clock.sleep(seconds(self.scan_takes))
        if self.scan_fault:
            raise self.scan_fault
        return Scan(found, ("orders", "pay"), 7)

    async def unclean_topics(self, topics: Sequence[str], deadline: timedelta) -> UncleanTopics:
        if self.configs_fault:
            raise self.configs_fault
        return UncleanTopics((topics[0],), 0)

    def loses(self, *partitions: OfflinePartition) -> None:
        """Broker 3 is fenced, and that is what it leaves behind."""
        self.seen, self.offline = pulse(1, 2, fenced=[3], silent=[3]), partitions


@dataclass
class FakeDesk:
    """Opens what it is given, unless a test is against it."""

    clock: Clock
    rules: Policy | None = AT_ONCE
    recoveries: dict[TopicPartition, str] = field(default_factory=dict)
    opened: list[tuple[float, Incident]] = field(default_factory=list)
    views: list[WatchView] = field(default_factory=list)
    refuses: int = 0
    room: Used = NOTHING

    def policy(self) -> Policy | None:
        return self.rules

    def open(self) -> Mapping[TopicPartition, str]:
        return self.recoveries

    def used(self) -> Used:
        return self.room

    def changed(self, view: WatchView) -> None:
        self.views.append(view)

    async def open_incident(self, incident: Incident) -> None:
        if self.refuses:
            self.refuses -= 1
            raise NotOpened("the API server is not there")
        self.opened.append((now(self.clock), incident))

    def names(self) -> list[list[str]]:
        return [[str(each.id) for each in incident.partitions] for _, incident in self.opened]


def now(clock: Clock) -> float:
    return clock.monotonic().total_seconds()


@dataclass
class Bench:
    """One watched cluster on virtual time."""

    clock: Clock
    kafka: FakeKafka
    desk: FakeDesk
    watcher: Watcher

    @property
    def scan_fault(self) -> Reason | None:
        return self.watcher.view.scan_fault

    async def after(self, duration: float) -> None:
        await self.clock.sleep(seconds(duration))


T = TypeVar("T")
B = TypeVar("B", bound=Bench)


def virtually(
    set_up: Callable[[Clock], B],
) -> Callable[[Callable[[T, B], Awaitable[None]]], Callable[[T], None]]:
    """A test with a watcher running, in no time."""

    def decorated(test: Callable[[T, B], Awaitable[None]]) -> Callable[[T], None]:
        def told(self: T) -> None:
            loop = VirtualLoop(Scheduler())
            loop.finish(main(self, set_up(VirtualClock(loop))))

        async def main(self: T, bench: B) -> None:
            watching = asyncio.create_task(bench.watcher.run())
            await test(self, bench)
            if watching.done():
                await watching
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching
            assert asyncio.all_tasks() == {asyncio.current_task()}, "it leaves nothing behind"

        return told

    return decorated


def alone(clock: Clock) -> Bench:
    kafka, desk = FakeKafka(clock), FakeDesk(clock)
    return Bench(clock, kafka, desk, Watcher("prod", kafka, desk, clock, PACE))
