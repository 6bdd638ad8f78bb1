"""Real clusters for tests, and the engine on them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.brokers import Address
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.security import Security
from kafka_recovery.domain.election import ElectionAnswer, Scope
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, Policy, Rule
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.journal_files import FileJournal
from testbed.cluster import RealKafka

AUTOMATIC = Policy((Rule("everything", approval=Approval.AUTO),))


class Says:
    """Approvals that always answer the same."""

    def __init__(self, who: str | None) -> None:
        self._who = who

    async def granted(self, plan: Plan, digest: str) -> str | None:
        return self._who

    async def standing(self, plan: Plan, digest: str) -> str | None:
        return self._who


class Interrupted:
    """The real election driver, with something happening just before and just after an election is held."""

    def __init__(
        self, election: AssignmentOrderElection, before: Callable[[], None], after: Callable[[], None]
    ) -> None:
        self._election, self._before, self._after = election, before, after

    async def designate(self, ballots: Any) -> Mapping[TopicPartition, ElectionAnswer]:
        return await self._election.designate(ballots)

    async def elect(self, ballots: Any) -> Mapping[TopicPartition, ElectionAnswer]:
        self._before()
        answers = await self._election.elect(ballots)
        self._after()
        return answers

    async def restore(self, ballots: Any) -> Mapping[TopicPartition, ElectionAnswer]:
        return await self._election.restore(ballots)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The engine on one real cluster; every call opens connections and the journal anew, as a new process would."""

    kafka: RealKafka
    journal: Path
    policy: Policy = AUTOMATIC
    approver: str | None = "ann"
    before_election: Callable[[], None] = lambda: None
    after_election: Callable[[], None] = lambda: None
    election_deadline: timedelta = timedelta(seconds=20)

    def with_(self, **changes: Any) -> Recovery:
        return replace(self, **changes)

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[KafkaCluster]:
        addresses = [Address.parse(address) for address in self.kafka.bootstrap.split(",")]
        async with KafkaCluster(addresses, Security()) as cluster:
            yield cluster

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[Engine]:
        async with self.cluster() as cluster:
            with FileJournal(self.journal, self.kafka.cluster_id) as journal:
                driver = AssignmentOrderElection(cluster, deadline=self.election_deadline)
                election = Interrupted(driver, self.before_election, self.after_election)
                yield Engine(cluster, election, journal, Says(self.approver), self.policy)

    async def plan(self, *partitions: TopicPartition) -> Plan:
        async with self.engine() as engine:
            return await engine.plan(Scope(partitions or None))

    async def recover(self, *partitions: TopicPartition) -> Report:
        async with self.engine() as engine:
            return await engine.recover(Scope(partitions or None))


@pytest.fixture
def recovery(tmp_path: Path) -> Callable[[RealKafka], Recovery]:
    """The engine for a cluster, with a journal of the test's own."""
    return lambda kafka: Recovery(kafka, tmp_path / "journal")


@pytest.fixture
def kafka() -> Iterator[RealKafka]:
    """The newest Kafka: one controller, three brokers, nothing in it."""
    with RealKafka() as cluster:
        yield cluster


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run one of our commands as a user does, in its own process: `command("kafka-unclean-recovery", "--help")`."""

    def run(name: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        executable = Path(sys.executable).with_name(name)
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        return subprocess.run(
            [str(executable), *arguments], capture_output=True, text=True, timeout=timeout, env=environment, check=False
        )

    return run
