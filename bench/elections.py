"""Our recovery against bare ElectLeaders UNCLEAN, on equal topics of one real Kafka.

The clock stops when the new leaders themselves answer as leaders, seen by one watcher for both. Kafka has a core of its
own meanwhile, and whoever asks it another one.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import cores
from bench.usage import cpu_of, forget_peak, peak_mib
from kafka.protocol.admin import ElectLeadersRequest

from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.brokers import Address
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.security import Security
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, EvidenceRules, Limits, Policy, Rule, TopicSelector
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.local_storage import local_journal
from testbed import replicas
from testbed.cluster import RealKafka
from testbed.wire import Connection

BIG = {"log.index.size.max.bytes": "1024", "num.io.threads": "4", "replica.lag.time.max.ms": "30000"}
UNCLEAN = 1

Wanted = dict[str, Sequence[int]]
"""Partition indexes by topic."""


@dataclass(slots=True)
class Phases:
    """Seconds by phase, in the order they first began. Phases of one recovery may overlap."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began


class Timed:
    """A port whose methods add to phases of their own names."""

    def __init__(self, port: Any, phases: Phases) -> None:
        self._port, self._phases = port, phases

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            with self._phases.phase(name):
                return await getattr(self._port, name)(*args, **kwargs)

        return call


class AtOnce:
    """Says yes as soon as it is asked, and knows when that was (monotonic seconds)."""

    said_at = 0.0

    async def granted(self, plan: Plan, digest: str) -> str | None:
        self.said_at = time.monotonic()
        return "bench"

    async def standing(self, plan: Plan, digest: str) -> str | None:
        """It never takes it back."""
        return "bench"


class Watcher:
    """A process of its own that asks the survivors again and again what they lead, so that it slows down no method."""

    def __init__(self, kafka: RealKafka, survivors: Sequence[int], partitions: Wanted, urgent: Wanted) -> None:
        context = multiprocessing.get_context("spawn")
        self._times, there = context.Pipe(duplex=False)
        addresses = [kafka.address(broker) for broker in survivors]
        self._process = context.Process(target=_watch, args=(there, addresses, partitions, urgent), daemon=True)
        self._process.start()
        self._times.recv()

    def wait(self) -> tuple[float, float]:
        """When the last partition, and the last urgent one, answered (monotonic seconds)."""
        all_lead, urgent_lead = self._times.recv()
        self._process.join()
        return all_lead, urgent_lead

    def stop(self) -> None:
        self._process.kill()


def _watch(times: Any, addresses: Sequence[str], partitions: Wanted, urgent: Wanted) -> None:
    times.send("ready")
    _await_leaders(addresses, urgent)
    urgent_lead = time.monotonic()
    _await_leaders(addresses, partitions)
    times.send((time.monotonic(), urgent_lead))


FEW, PAUSE = 50, 0.02
"""Partitions that are asked about at first, and seconds between two questions. Brokers need their core, and what is
measured is to be seen when it happens: so a few are asked about until they lead, then more and more of the others."""


def _await_leaders(addresses: Sequence[str], partitions: Wanted) -> None:
    for topic, indexes in partitions.items():
        left, size = sorted(indexes), FEW
        while left:
            asked = left[-size:]
            led = {index for address in addresses for index in replicas.led(address, topic, asked)}
            left = [index for index in left if index not in led]
            if led.issuperset(asked):
                size *= 4
            else:
                size = FEW
                time.sleep(PAUSE)


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds until all, and all urgent, partitions answered; `planning` of them until the plan was approved.

    `cpu` seconds and `peak_mib` of memory: what the one that elected used of this process. `kafka_cpu` seconds: what
    controllers and brokers computed from the first request to the last answer, all on one core.
    """

    total: float
    urgent: float
    phases: dict[str, float]
    planning: float = 0.0
    cpu: float = 0.0
    peak_mib: float = 0.0
    kafka_cpu: float = 0.0


def offline(kafka: RealKafka, survivors: Sequence[int], topics: Mapping[str, int]) -> None:
    """Topics of so many partitions each, all offline, the survivors with equal logs."""
    *others, (last, size) = topics.items()
    dead = [broker for broker in kafka.brokers if broker not in survivors]
    for topic, partitions in others:
        kafka.create_topic(topic, [[*dead, *survivors]] * partitions)
        kafka.wait_for(topic, lambda state: len(state.isr) == len(kafka.brokers))
    kafka.offline_by_freezing(last, survivors, partitions=size, records=1)
    for topic, _ in others:
        kafka.wait_for(topic, lambda state: state.leader is None)


def bare(kafka: RealKafka, survivors: Sequence[int], partitions: Wanted, urgent: Wanted | None = None) -> Measured:
    """One ElectLeaders UNCLEAN for all of them."""
    with cores.apart(kafka.processes):
        return _bare(kafka, survivors, partitions, urgent or {})


def _bare(kafka: RealKafka, survivors: Sequence[int], partitions: Wanted, urgent: Wanted) -> Measured:
    watcher = Watcher(kafka, survivors, partitions, urgent)
    kind = ElectLeadersRequest.TopicPartitions
    topics = [kind(topic=topic, partitions=sorted(indexes)) for topic, indexes in sorted((partitions | urgent).items())]
    with Connection(kafka.address(survivors[0]), deadline=300) as broker:
        began, computed = time.monotonic(), cpu_of(kafka.processes)
        broker.ask(ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=topics, timeout_ms=120_000), 2)
        asked = time.monotonic()
        all_lead, urgent_lead = watcher.wait()
        computed = cpu_of(kafka.processes) - computed
    return Measured(all_lead - began, urgent_lead - began, {"ElectLeaders": asked - began}, kafka_cpu=computed)


def ours(kafka: RealKafka, survivors: Sequence[int], partitions: Wanted, urgent: Wanted | None = None) -> Measured:
    """Our whole recovery with default waves, `planning` until a person has said yes; urgent topics are in tier 1."""
    with cores.apart(kafka.processes):
        return asyncio.run(_ours(kafka, survivors, partitions, urgent or {}))


async def _ours(kafka: RealKafka, survivors: Sequence[int], partitions: Wanted, urgent: Wanted) -> Measured:
    scope = scope_of(partitions | urgent)
    phases = Phases()
    forget_peak()
    busy = time.process_time()
    watcher = Watcher(kafka, survivors, partitions, urgent)
    async with connected(kafka) as cluster:
        with tempfile.TemporaryDirectory() as folder, local_journal(Path(folder), kafka.cluster_id) as journal:
            timed: dict[str, Any] = {
                "cluster": Timed(cluster, phases),
                "election": Timed(AssignmentOrderElection(cluster), phases),
                "journal": Timed(journal, phases),
            }
            approver = AtOnce()
            engine = Engine(**timed, approvals=approver, policy=policy_for(urgent))
            began, computed = time.monotonic(), cpu_of(kafka.processes)
            plan = await engine.plan(scope)
            report = await engine.execute(plan)
            if not report.recovered:
                watcher.stop()
                raise RuntimeError(f"not recovered: {[o for o in report.outcomes if not o.outcome.is_recovered][:3]}")
            used = time.process_time() - busy, peak_mib()
            all_lead, urgent_lead = watcher.wait()
            computed = cpu_of(kafka.processes) - computed
    planning = approver.said_at - began
    return Measured(all_lead - began, urgent_lead - began, phases.seconds, planning, *used, computed)


def policy_for(urgent: Iterable[str]) -> Policy:
    """Default waves; a person approves everything, and these topics come first."""
    rules = (
        Rule("urgent", TopicSelector(names=tuple(urgent) or ("nothing",)), tier=1, approval=Approval.MANUAL),
        Rule("others", approval=Approval.MANUAL),
    )
    return Policy(rules, Limits(partitions=10**6))


async def gather_seconds(kafka: RealKafka, partitions: Wanted) -> float:
    """One gather of everything, on open connections."""
    async with connected(kafka) as cluster:
        await cluster.gather(Scope(()), EvidenceRules())
        began = time.monotonic()
        evidence = await cluster.gather(scope_of(partitions), EvidenceRules())
        took = time.monotonic() - began
    vectors = sum(1 for p in evidence.partitions for r in p.replicas if r.log and r.log.epochs is not None)
    if vectors < len(evidence.partitions):
        raise RuntimeError(f"only {vectors} epoch vectors of {len(evidence.partitions)} partitions")
    return took


def scope_of(partitions: Wanted) -> Scope:
    return Scope(tuple(TopicPartition(topic, index) for topic, indexes in partitions.items() for index in indexes))


def connected(kafka: RealKafka) -> KafkaCluster:
    return KafkaCluster([Address.parse(address) for address in kafka.bootstrap.split(",")], Security())
