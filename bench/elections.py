"""Our recovery against bare ElectLeaders UNCLEAN, on equal halves of the same topic of one real Kafka.

The clock stops when the new leaders themselves answer as leaders, seen by one watcher for both.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.brokers import Address
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.security import Security
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, EvidenceRules, Limits, Policy, Rule
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.journal_files import FileJournal
from testbed import replicas
from testbed.cluster import RealKafka

BIG = {"log.index.size.max.bytes": "1024", "num.io.threads": "4", "replica.lag.time.max.ms": "30000"}
TOPIC = "fleet"


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


class Nobody:
    """Nobody needs to approve in a benchmark."""

    async def granted(self, plan: Plan, digest: str) -> str | None:
        return "bench"


class Watcher(threading.Thread):
    """Asks the survivors, again and again, which partitions they lead; notes when the first and the last one answered."""

    def __init__(self, kafka: RealKafka, survivors: Sequence[int], partitions: Collection[int], urgent: Collection[int]):
        super().__init__(daemon=True)
        self._addresses = [kafka.address(broker) for broker in survivors]
        self._left, self._urgent = set(partitions), set(urgent)
        self.all_lead: float | None = None
        self.urgent_lead: float | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        while self._left and not self._ended.is_set():
            for address in self._addresses:
                ask = sorted(self._left)
                self._left -= replicas.led(address, TOPIC, ask) if ask else set()
            now = time.monotonic()
            if self._urgent and not self._urgent & self._left:
                self.urgent_lead, self._urgent = now, set()
            self._ended.wait(0.05)
        self.all_lead = time.monotonic()

    def stop(self) -> None:
        self._ended.set()
        self.join()


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds from the start of a method until all, and all urgent, partitions answered; and its phases."""

    total: float
    urgent: float
    phases: dict[str, float]


def offline(kafka: RealKafka, survivors: Sequence[int], partitions: int) -> None:
    """A topic of so many partitions, all offline, the survivors with equal logs."""
    kafka.offline_by_freezing(TOPIC, survivors, partitions=partitions, records=1)


def bare(kafka: RealKafka, survivors: Sequence[int], partitions: Sequence[int], urgent: Collection[int] = ()) -> Measured:
    """One ElectLeaders UNCLEAN for all."""
    watcher = Watcher(kafka, survivors, partitions, urgent)
    began = time.monotonic()
    watcher.start()
    kafka.unclean_elect(TOPIC, partitions)
    asked = time.monotonic()
    watcher.join()
    assert watcher.all_lead is not None
    return Measured(
        watcher.all_lead - began, (watcher.urgent_lead or watcher.all_lead) - began, {"ElectLeaders": asked - began}
    )


def ours(kafka: RealKafka, survivors: Sequence[int], partitions: Sequence[int]) -> tuple[Measured, Measured]:
    """The whole recovery, and its part from the approved plan on. Default waves."""
    return asyncio.run(_ours(kafka, survivors, partitions))


async def _ours(kafka: RealKafka, survivors: Sequence[int], partitions: Sequence[int]) -> tuple[Measured, Measured]:
    scope = Scope(tuple(TopicPartition(TOPIC, index) for index in partitions))
    policy = Policy((Rule("bench", approval=Approval.AUTO),), Limits(partitions=10**6))
    phases = Phases()
    async with _cluster(kafka) as cluster:
        with tempfile.TemporaryDirectory() as folder, FileJournal(Path(folder), kafka.cluster_id) as journal:
            engine = Engine(
                Timed(cluster, phases), Timed(AssignmentOrderElection(cluster), phases), Timed(journal, phases), Nobody(), policy
            )
            watcher = Watcher(kafka, survivors, partitions, ())
            began = time.monotonic()
            with phases.phase("plan"):
                plan = await engine.plan(scope)
            planned = time.monotonic()
            watcher.start()
            report = await engine.execute(plan)
            if not report.recovered:
                watcher.stop()
                raise RuntimeError(f"not all recovered: {[o for o in report.outcomes if not o.outcome.is_recovered][:3]}")
            watcher.join()
    assert watcher.all_lead is not None
    whole = Measured(watcher.all_lead - began, watcher.all_lead - began, phases.seconds)
    return whole, Measured(watcher.all_lead - planned, watcher.all_lead - planned, phases.seconds)


async def gather_seconds(kafka: RealKafka, partitions: Sequence[int]) -> float:
    """One gather of everything, on open connections."""
    scope = Scope(tuple(TopicPartition(TOPIC, index) for index in partitions))
    async with _cluster(kafka) as cluster:
        await cluster.gather(Scope(()), EvidenceRules())
        began = time.monotonic()
        evidence = await cluster.gather(scope, EvidenceRules())
        took = time.monotonic() - began
    measured = sum(1 for p in evidence.partitions for r in p.replicas if r.log and r.log.epochs is not None)
    assert measured >= len(partitions), f"only {measured} vectors of {len(partitions)} partitions"
    return took


def _cluster(kafka: RealKafka) -> KafkaCluster:
    return KafkaCluster([Address.parse(address) for address in kafka.bootstrap.split(",")], Security())
