"""The real client on 200,000 simulated partitions of 100 brokers: seconds, CPU, bytes and peak memory of this side.

The brokers are played in a process of their own, over TCP on loopback, and nothing of them is counted but the waiting.
`simulated.py phases PARTITIONS` measures in its own process and prints JSON, `simulated.py serve PARTITIONS` plays.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.usage import forget_peak, peak_mib

from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.security import Security
from kafka_recovery.cluster.sockets import Address, Dial, Sockets, Streams
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import ALL_OFFLINE, Answer, ElectionRequest, Leadership
from kafka_recovery.domain.evidence import EpochEntry, EpochVector
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.policy import Approval, EvidenceRules, Limits, Policy, Rule
from kafka_recovery.domain.quickly import collect_seldom
from kafka_recovery.recovery.requests import request_of
from kafka_recovery.simulator.histories.many import many
from kafka_recovery.simulator.model.kafka import LoadedPartition, SimulatedKafka
from kafka_recovery.simulator.model.log import LoadedLog
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.play.server import PlayServer

BROKERS = 100
DEAD = BrokerId(100)
PARTITIONS_A_TOPIC = 1000
WAVE = 2000
DEADLINE = timedelta(minutes=5)
PATIENT = EvidenceRules(DEADLINE, max_age=timedelta(hours=1))


PULSE = 0.25
"""Seconds between two looks of a watch, as the operator takes them."""


@dataclass(slots=True)
class Phase:
    """What one phase took of this process: wall and CPU seconds, MiB at the peak, bytes over the wire both ways."""

    seconds: float = 0.0
    cpu: float = 0.0
    peak_mib: float = 0.0
    mib: float = 0.0


@dataclass(slots=True)
class Phases:
    """By name. `moved`: bytes over the wire so far."""

    taken: dict[str, Phase] = field(default_factory=dict)
    moved: int = 0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what happens inside; the same name again adds up."""
        forget_peak()
        began, cpu, moved = time.perf_counter(), time.process_time(), self.moved
        try:
            yield
        finally:
            phase = self.taken.setdefault(name, Phase())
            phase.seconds += time.perf_counter() - began
            phase.cpu += time.process_time() - cpu
            phase.peak_mib = max(phase.peak_mib, peak_mib())
            phase.mib += (self.moved - moved) / 2**20


@dataclass(frozen=True, slots=True)
class CountingDial:
    """The way to the brokers, and how many bytes go over it."""

    dial: Dial
    phases: Phases

    async def __call__(self, address: Address, tls: ssl.SSLContext | None) -> Streams:
        """An open connection whose bytes are counted."""
        reader, writer = await self.dial(address, tls)
        feed, write = reader.feed_data, writer.write

        def fed(data: bytes) -> None:
            self.phases.moved += len(data)
            feed(data)

        def written(data: bytes) -> None:
            self.phases.moved += len(data)
            write(data)

        reader.feed_data, writer.write = fed, written  # type: ignore[method-assign, assignment]
        return reader, writer

    async def is_deaf(self, address: Address, within: timedelta) -> bool:
        """As the way itself says."""
        return await self.dial.is_deaf(address, within)


def played(partitions: int) -> SimulatedKafka:
    """All partitions offline: broker 100, which is down, was the last ISR member of each of them."""
    # Idle followers of a hundred leaders each would ask 20,000 times a second, and nobody measures that here.
    settings = Settings(elr=False, fetch_max_wait=30.0, fetch_timeout=60.0, lag_max=600.0)
    kafka = SimulatedKafka(1, brokers=range(1, BROKERS + 1), settings=settings, keep_timeline=False)
    for number, first in enumerate(range(0, partitions, PARTITIONS_A_TOPIC)):
        last = min(first + PARTITIONS_A_TOPIC, partitions)
        kafka.load(f"topic-{number:04}", [_partition(n) for n in range(first, last)], idle=True)
    kafka.kill(DEAD)
    kafka.run_for(10)
    return kafka


async def serve(partitions: int) -> None:
    """Play until standard input ends; the first line of the output says where."""
    kafka = played(partitions)
    gc.freeze()  # the model's objects are no concern of a collector
    async with PlayServer(kafka) as server:
        print(server.bootstrap, flush=True)
        serving = asyncio.create_task(server.serve())
        await asyncio.to_thread(sys.stdin.read)
        serving.cancel()


def _partition(n: int) -> LoadedPartition:
    """Two survivors: a third of them equal, a third with the second behind, a third with it an epoch behind."""
    first = 1 + n % (BROKERS - 1)
    second = 1 + (first + n // BROKERS % (BROKERS - 2)) % (BROKERS - 1)
    end, kind = 10_000 + n % 977, n % 3
    logs = {
        BrokerId(first): LoadedLog(_vector(3), Offset(end)),
        BrokerId(second): LoadedLog(_vector(3 - (kind == 2)), Offset(end - 100 * (kind == 1))),
        DEAD: LoadedLog(_vector(3), Offset(end + 5)),
    }
    assigned = [DEAD, BrokerId(second), BrokerId(first)]
    turn = n % 3
    replicas = tuple(assigned[turn:] + assigned[:turn])
    return LoadedPartition(replicas, (DEAD,), None, LeaderEpoch(20 + n % 7), logs)


def _vector(epochs: int) -> EpochVector:
    return tuple(EpochEntry(LeaderEpoch(3 * epoch), Offset(3000 * epoch)) for epoch in range(epochs))


async def phase_by_phase(bootstrap: Sequence[Address], partitions: int, phases: Phases, watched: float) -> None:
    """Each phase over all partitions, one after the other, by the engine's own ports."""
    limits = Limits(partitions=partitions, wave_sizes=(1, 50, WAVE))
    policy = Policy((Rule("all", approval=Approval.AUTO, evidence=PATIENT),), limits)
    dial = CountingDial(Sockets(Threads("bench")), phases)
    async with KafkaCluster(bootstrap, Security(), dial=dial) as cluster:
        with phases.phase("full scan"):
            scan = await cluster.scan(DEADLINE)
        if scan.partitions != partitions:
            raise RuntimeError(f"{scan.partitions} partitions were found")
        del scan
        await _watch(cluster, phases, watched)
        with phases.phase("gather"):
            evidence = await cluster.gather(ALL_OFFLINE, PATIENT)
        with phases.phase("decide"):
            plan = decide(evidence, policy)
        elected = plan.elections
        if len(elected) != len(evidence.partitions) or len(elected) != partitions:
            raise RuntimeError(f"{len(elected)} of {partitions} would be elected: this measures something else")
        driver = AssignmentOrderElection(cluster)
        for ids in plan.waves:
            requests = [request_of(elected[id]) for id in ids]
            with phases.phase("elect"):
                await _elect(driver, requests)
            with phases.phase("verify"):
                await _verify(cluster, requests)


async def _watch(cluster: KafkaCluster, phases: Phases, seconds: float) -> None:
    """Pulses while nothing happens."""
    await cluster.pulse(DEADLINE)  # connections are made once
    until = time.monotonic() + seconds
    with phases.phase("idle watch"):
        while time.monotonic() < until:
            await cluster.pulse(DEADLINE)
            await asyncio.sleep(PULSE)


async def _elect(driver: AssignmentOrderElection, requests: Sequence[ElectionRequest]) -> None:
    """Designate, elect and restore."""
    for step in (driver.designate, driver.elect, driver.restore):
        answers = await step(requests)
        bad = [answer for answer in answers.values() if answer.answer is not Answer.ACCEPTED]
        if bad:
            raise RuntimeError(f"{len(bad)} of {len(requests)} refused: {bad[0]}")


async def _verify(cluster: KafkaCluster, requests: Sequence[ElectionRequest]) -> None:
    """Until the leaders themselves answer."""
    ids = [request.id for request in requests]
    led = await _led(cluster, ids)
    while any(lead.problem for lead in led.values()):
        await asyncio.sleep(0.25)
        led = await _led(cluster, ids)
    if any(led[request.id].leader != request.designated for request in requests):
        raise RuntimeError("somebody else was elected")


async def _led(cluster: KafkaCluster, ids: Sequence[TopicPartition]) -> dict[TopicPartition, Leadership]:
    looks = await cluster.leaders(ids, DEADLINE)
    return {id: look for id, look in looks.items() if isinstance(look, Leadership)}


def measure(partitions: int, watched: float = 60.0) -> dict[str, dict[str, float]]:
    """Measure in this process; the brokers are in another one."""
    command = [sys.executable, __file__, "serve", str(partitions)]
    phases = Phases()
    collect_seldom()  # as the program does
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            bootstrap = [Address.parse(address) for address in server.stdout.readline().split(",")[:3]]
            asyncio.run(phase_by_phase(bootstrap, partitions, phases, watched))
        finally:
            server.stdin.close()
            server.terminate()
    return {
        name: {key: round(value, 2) for key, value in asdict(phase).items()} for name, phase in phases.taken.items()
    }


def histories_per_second(seeds: int = 400) -> float:
    """Random histories with the engine inside and every promise checked, on all cores."""
    jobs = os.cpu_count() or 1
    began = time.perf_counter()
    done = sum(1 for _ in many(range(seeds), jobs))
    return done / (time.perf_counter() - began)


def fresh(partitions: int, watched: float) -> Mapping[str, Mapping[str, float]]:
    """Measure in a process of its own: one memory peak must not hide the next."""
    command = [sys.executable, __file__, "phases", str(partitions), str(watched)]
    answer: Any = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    return dict(answer)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(serve(int(sys.argv[2])))
    else:
        print(json.dumps(measure(int(sys.argv[2]), *map(float, sys.argv[3:]))))
