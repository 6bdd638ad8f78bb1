"""The real engine on a simulated cluster of 200,000 partitions on 100 brokers: seconds and peak memory of each phase.

Seconds are this machine's, not the model's: the engine's work and the model's, and nothing of a real network.
`simulated.py phases|recover PARTITIONS` measures in its own process and prints JSON.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.security import Security
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import ALL_OFFLINE, Answer, Ballot, Leadership
from kafka_recovery.domain.evidence import EpochEntry, EpochVector
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.outcome import Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, EvidenceRules, Limits, Policy, Rule
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.requests import request_of
from kafka_recovery.simulator.histories.many import many
from kafka_recovery.simulator.host.dialing import Names, SimulatedDial
from kafka_recovery.simulator.host.disks import Disk, SimulatedStorage
from kafka_recovery.simulator.host.loop import VirtualClock, VirtualLoop
from kafka_recovery.simulator.host.mortality import MortalClock, Process
from kafka_recovery.simulator.model.kafka import LoadedPartition, SimulatedKafka
from kafka_recovery.simulator.model.log import LoadedLog
from kafka_recovery.simulator.model.settings import Settings

BROKERS = 100
DEAD = BrokerId(100)
PARTITIONS_A_TOPIC = 1000
WAVE = 2000
DEADLINE = timedelta(minutes=5)
PATIENT = EvidenceRules(DEADLINE, max_age=timedelta(hours=1))


@dataclass(slots=True)
class Phases:
    """Seconds, and MiB at the peak, of each phase."""

    seconds: dict[str, float] = field(default_factory=dict)
    peak_mib: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure what happens inside; the same name again adds up."""
        _forget_peak()
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - began, 2)
            self.peak_mib[name] = max(round(_peak_mib()), self.peak_mib.get(name, 0))


class Nobody:
    """Port `Approvals`: never asked under a policy that approves by itself."""

    async def granted(self, plan: Plan, digest: str) -> str | None:
        """No."""
        return None

    async def standing(self, plan: Plan, digest: str) -> str | None:
        """Nobody said yes."""
        return None


@dataclass(frozen=True, slots=True)
class Site:
    """A simulated cluster, and the engine's ports on it."""

    loop: VirtualLoop
    cluster: KafkaCluster
    driver: AssignmentOrderElection
    clock: VirtualClock
    process: Process
    policy: Policy

    @classmethod
    def of(cls, partitions: int) -> Site:
        """All partitions offline: broker 100, which is down, was the last ISR member of each of them."""
        # Idle followers of a hundred leaders each would ask 20,000 times a second, and nobody measures that here.
        settings = Settings(elr=False, fetch_max_wait=30.0, fetch_timeout=60.0, lag_max=600.0)
        kafka = SimulatedKafka(1, brokers=range(1, BROKERS + 1), settings=settings, keep_timeline=False)
        for number, first in enumerate(range(0, partitions, PARTITIONS_A_TOPIC)):
            last = min(first + PARTITIONS_A_TOPIC, partitions)
            kafka.load(f"topic-{number:04}", [_partition(n) for n in range(first, last)], idle=True)
        kafka.kill(DEAD)
        kafka.run_for(10)
        loop, process = VirtualLoop(kafka.scheduler), Process("engine-1")
        clock = VirtualClock(loop)
        names = Names(kafka.broker_ids)
        dial = SimulatedDial(kafka, process, names)
        cluster = KafkaCluster(names.bootstrap, Security(), dial=dial, now=clock.now)
        limits = Limits(partitions=partitions, wave_sizes=(1, 50, WAVE))
        policy = Policy((Rule("all", approval=Approval.AUTO, evidence=PATIENT),), limits)
        return cls(loop, cluster, AssignmentOrderElection(cluster), clock, process, policy)


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


async def phase_by_phase(site: Site, phases: Phases) -> None:
    """Each phase over all partitions, one after the other, by the engine's own ports."""
    with phases.phase("gather"):
        evidence = await site.cluster.gather(ALL_OFFLINE, PATIENT)
    with phases.phase("decide"):
        plan = decide(evidence, site.policy)
    elected = plan.elections
    if len(elected) != len(evidence.partitions) or not elected:
        raise RuntimeError(
            f"{len(elected)} of {len(evidence.partitions)} would be elected: this measures something else"
        )
    for ids in plan.waves:
        ballots = [request_of(elected[id]) for id in ids]
        with phases.phase("elect"):
            await _elect(site, ballots)
        with phases.phase("verify"):
            led = await _led(site, ids)
            while any(lead.problem for lead in led.values()):
                await site.clock.sleep(timedelta(milliseconds=250))
                led = await _led(site, ids)
        if any(led[ballot.id].leader != ballot.designated for ballot in ballots):
            raise RuntimeError("somebody else was elected")


async def _led(site: Site, ids: Sequence[TopicPartition]) -> dict[TopicPartition, Leadership]:
    looks = await site.cluster.leaders(ids, DEADLINE)
    return {id: look for id, look in looks.items() if isinstance(look, Leadership)}


async def _elect(site: Site, ballots: Sequence[Ballot]) -> None:
    """Designate, elect and restore."""
    for step in (site.driver.designate, site.driver.elect, site.driver.restore):
        answers = await step(ballots)
        bad = [answer for answer in answers.values() if answer.answer is not Answer.ACCEPTED]
        if bad:
            raise RuntimeError(f"{len(bad)} of {len(ballots)} refused: {bad[0]}")


async def recover(site: Site, phases: Phases) -> Report:
    """The whole engine, from the first look to the last order restored."""
    storage = SimulatedStorage(Disk("disk"), site.process, site.clock.now)
    with FileJournal(storage, site.clock.now) as journal:
        clock = MortalClock(site.process, site.clock)
        engine = Engine(site.cluster, site.driver, journal, Nobody(), site.policy, clock=clock)
        with phases.phase("recover"):
            report = await engine.recover(ALL_OFFLINE)
    if not report.recovered:
        raise RuntimeError(f"not recovered: {next(o for o in report.outcomes if not o.outcome.is_recovered)}")
    return report


def measure(how: str, partitions: int) -> dict[str, dict[str, float]]:
    """Measure in this process: `phases`, or the whole `recover`."""
    phases = Phases()
    with phases.phase("build"):
        site = Site.of(partitions)
    gc.freeze()  # the model's objects are no concern of a collector that runs for the engine
    site.loop.finish(phase_by_phase(site, phases) if how == "phases" else recover(site, phases))
    return {"seconds": phases.seconds, "peak_mib": phases.peak_mib}


def histories_per_second(seeds: int = 400) -> float:
    """Random histories with the engine inside and every promise checked, on all cores."""
    jobs = os.cpu_count() or 1
    began = time.perf_counter()
    done = sum(1 for _ in many(range(seeds), jobs))
    return done / (time.perf_counter() - began)


def fresh(how: str, partitions: int) -> dict[str, dict[str, float]]:
    """Measure in a process of its own: one memory peak must not hide the next."""
    command = [sys.executable, __file__, how, str(partitions)]
    answer: dict[str, dict[str, float]] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout
    )
    return answer


def _forget_peak() -> None:
    """Linux forgets the highest memory use on request; elsewhere a peak is that of everything so far."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mib() -> float:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
