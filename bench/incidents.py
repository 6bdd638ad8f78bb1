"""Incidents on a real Kafka, recovered by ElectLeaders UNCLEAN alone and by the engine, each on both kinds of disk."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import elections
from bench.disks import Disk, SyncDelay, available
from bench.elections import Measured, Wanted
from bench.results import Result, below

from testbed.cluster import RealKafka

WARM_UP = 200
"""Partitions that are elected first, so that no method pays for the brokers' cold code."""


@dataclass(frozen=True, slots=True)
class Aim:
    """The most that the engine may take: so many times as long as ElectLeaders alone, and so many seconds longer."""

    ratio: float | None = None
    more: float | None = None

    def __str__(self) -> str:
        ratio = [] if self.ratio is None else [f"<= {self.ratio:g} x baseline"]
        return " and ".join([*ratio, *([] if self.more is None else [f"<= baseline + {self.more:g} s"])])

    def met(self, value: float, baseline: float) -> bool:
        """Whether a value is within both."""
        ratio, more = value / baseline, value - baseline
        return ratio <= (self.ratio or ratio) and more <= (self.more or more)


@dataclass(frozen=True, slots=True)
class Incident:
    """So many partitions offline, `urgent` of them in tier 1; brokers 2 and on survived, with equal logs.

    `vanished`: nobody hears of broker 1's end, its packets are dropped.
    """

    partitions: int
    survivors: int
    aims: Mapping[Disk, Aim]
    urgent: int = 0
    repeats: int = 1
    vanished: bool = False
    left_out_by_quick: bool = False

    def __str__(self) -> str:
        if self.urgent:
            return f"{self.urgent} urgent of {self.partitions}"
        plain = f"{self.partitions} partitions, {self.survivors} survivor" + "s" * (self.survivors > 1)
        return f"{plain}, a node vanished" if self.vanished else plain


LARGE, SMALL = 5000, 1000

INCIDENTS = (
    Incident(2000, 2, {Disk.FAST: Aim(0.25), Disk.CLOUD: Aim(0.10)}, urgent=50),
    Incident(SMALL, 1, {Disk.FAST: Aim(more=0.4), Disk.CLOUD: Aim(1.03)}, repeats=3),
    Incident(SMALL, 2, {Disk.FAST: Aim(1.10), Disk.CLOUD: Aim(0.53)}, repeats=3),
    Incident(SMALL, 2, {Disk.FAST: Aim(more=2), Disk.CLOUD: Aim(more=2)}, vanished=True),
    Incident(SMALL, 3, {Disk.FAST: Aim(1.10), Disk.CLOUD: Aim(0.37)}, repeats=3),
    Incident(LARGE, 1, {Disk.FAST: Aim(1.25, 0.4), Disk.CLOUD: Aim(1.03)}, left_out_by_quick=True),
    Incident(LARGE, 2, {Disk.FAST: Aim(1.10), Disk.CLOUD: Aim(0.53)}),
)


@dataclass(frozen=True, slots=True)
class Pair:
    """The same incident twice: what Kafka's own election took, and what the engine took, its first look apart."""

    bare: Measured
    ours: Measured
    gathered: float


def measured(incident: Incident, disks: Sequence[Disk], repeats: int) -> Iterator[tuple[Disk, list[Pair]]]:
    """On a Kafka of its own, disk by disk, one pair after the other, the baseline first."""
    survivors = range(2, 2 + incident.survivors)
    few, most = incident.urgent, incident.partitions - incident.urgent
    names = [f"{who}-{n}" for n in range(repeats * len(disks)) for who in ("bare", "ours")]
    topics = {"warm-up": WARM_UP} | {f"z-urgent-{name}": few for name in names if few} | dict.fromkeys(names, most)
    with tempfile.TemporaryDirectory() as folder:
        delay = SyncDelay(Path(folder))
        with RealKafka(
            brokers=1 + incident.survivors,
            heap=1024,
            properties=elections.BIG,
            session_timeout=6,
            environment=delay.environment,
            proxied=(1,) if incident.vanished else (),
        ) as kafka:
            if incident.vanished:
                kafka.proxy(1).vanish()
            elections.offline(kafka, survivors, topics)
            elections.bare(kafka, survivors, {"warm-up": range(WARM_UP)})
            for at, disk in enumerate(disks):
                with delay.on(disk):
                    numbers = range(at * repeats, (at + 1) * repeats)
                    pairs = [_pair(kafka, survivors, topics, number) for number in numbers]
                yield disk, pairs


def _pair(kafka: RealKafka, survivors: Sequence[int], topics: Mapping[str, int], number: int) -> Pair:
    def wanted(who: str) -> tuple[Wanted, Wanted]:
        name, urgent = f"{who}-{number}", f"z-urgent-{who}-{number}"
        return {name: range(topics[name])}, {urgent: range(topics[urgent])} if urgent in topics else {}

    bare = elections.bare(kafka, survivors, *wanted("bare"))
    gathered = asyncio.run(elections.gather_seconds(kafka, wanted("ours")[0]))
    return Pair(bare, elections.ours(kafka, survivors, *wanted("ours")), gathered)


def results(incident: Incident, disk: Disk, pairs: Sequence[Pair]) -> Iterator[Result]:
    """What matters first: from the yes to the leaders that were waited for; then where the time went.

    The best of both sides counts: what else runs on this machine makes a run slower, and nothing makes one faster.
    """
    label = f"{incident}, {disk}"

    def seconds(of: Measured) -> float:
        return of.urgent if incident.urgent else of.total

    baseline = min(seconds(pair.bare) for pair in pairs)
    ours = min((pair.ours for pair in pairs), key=lambda each: seconds(each) - each.planning)

    def result(name: str, value: float, aim: Aim | None = None) -> Result:
        told = (str(aim), aim.met(value, baseline)) if aim else (None, None)
        return Result(name, round(value, 3), "s", round(baseline, 3), round(value / baseline, 3), *told)

    who = "urgent leaders" if incident.urgent else "all leaders"
    yield result(f"{label}: approved plan to {who} answering", seconds(ours) - ours.planning, incident.aims[disk])
    yield result(f"{label}: first look to {who} answering", seconds(ours))
    if incident.partitions >= LARGE:
        gathered = min(pair.gathered for pair in pairs)
        yield below(f"{label}: gather with epoch vectors", gathered, "s", 2)
    yield Result("  CPU of the engine", round(ours.cpu, 2), "CPU s")
    yield Result("  CPU of Kafka's processes, on one core", round(ours.kafka_cpu, 2), "CPU s")
    yield Result("  the same under Kafka's own election", round(min(p.bare.kafka_cpu for p in pairs), 2), "CPU s")
    yield Result("  memory of the engine at the peak", round(ours.peak_mib), "MiB")
    for phase, took in sorted(ours.phases.items()):
        yield result(f"  phase {phase}, all calls", took)


def run(quick: bool) -> Iterator[Result]:
    """Every incident on every disk that can be had here; `quick`: once each, and a single large one, on a single disk.

    The small ones have both disks under one Kafka; a large one's partitions are enough for one.
    """
    if Disk.CLOUD not in available():
        print("no C compiler (cc) on this machine: the cloud disk is left out", flush=True)
    for incident in INCIDENTS:
        if quick and incident.left_out_by_quick:
            continue
        large, disks = incident.partitions >= LARGE, available()
        if large and quick:
            disks = disks[-1:]
        for some in [(disk,) for disk in disks] if large else [disks]:
            for disk, pairs in measured(incident, some, 1 if quick else incident.repeats):
                yield from results(incident, disk, pairs)
