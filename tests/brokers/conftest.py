"""Real clusters for tests, and the engine on them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokers import forked
from fidelity import on_brokers
from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.brokers import Address
from kafka_recovery.cluster.kafka_cluster import Controllers, KafkaCluster
from kafka_recovery.cluster.security import Security
from kafka_recovery.cluster.sockets import Dial
from kafka_recovery.domain.election import ElectionAnswer, Scope
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, Policy, Rule
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.local_storage import local_journal
from kafka_recovery.recovery.timing import Timing
from testbed.cluster import RealKafka
from testbed.security import Security as Guarded
from testbed.warm import WarmKafka

Command = Callable[..., subprocess.CompletedProcess[str]]

AUTOMATIC = Policy((Rule("everything", approval=Approval.AUTO),))
USUAL: Mapping[str, Any] = {
    "detour": 1,
    "properties": {"replica.high.watermark.checkpoint.interval.ms": "600000"},
}
"""What most tests want of a cluster, so that they can share one: broker 1 can be cut off from the controller, and
brokers forget their high watermarks when they are killed, for they hardly ever write them down."""
BUSY: Mapping[str, Any] = {
    "properties": {
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "1",
        "leader.imbalance.per.broker.percentage": "0",
        "unclean.leader.election.interval.ms": "500",
    }
}
"""A controller that looks all the time for preferred leaders to be elected, and for leaderless partitions that it may
elect uncleanly; by default never here, and every 5 minutes."""

TWO_DISKS: Mapping[str, Any] = {
    "disks": 2,
    "properties": {"replica.high.watermark.checkpoint.interval.ms": "500"},
}
"""A broker notices soon that a log directory has failed: when it next writes its high watermarks there."""
PROXIED: Mapping[str, Any] = {"proxied": (1, 2, 3)}
"""Clients reach no broker but through a proxy."""

SESSION = 2.0
"""Seconds after which the guarded cluster forgets who an OAuth connection is."""
GUARDED: Mapping[str, Any] = {"security": Guarded(reauthenticate_after=SESSION)}
"""All the listeners that ask who is there, and ACLs."""


def on(name: str, wish: Mapping[str, Any]) -> Any:
    """A value for `kafka`. Tests of one such cluster share it, and a process of pytest-xdist, whatever their file."""
    return pytest.param(wish, id=name, marks=pytest.mark.xdist_group(name))


def only_in_full(kafka: Any) -> Any:
    """The same value, in `make test-full` alone: in `make test` another release shows what the test is about."""
    return pytest.param(*kafka.values, id=kafka.id, marks=(*kafka.marks, pytest.mark.full))


ON_3_9 = on("3.9", {"release": "3.9", **USUAL})
ON_4_0 = on("4.0", {"release": "4.0", "elr": True, **USUAL})
ON_NEWEST = pytest.param({"release": "newest", **USUAL}, id="newest")
WITHOUT_ELR = on("without ELR", on_brokers.wish("newest", elr=False))
WITH_ELR = on("with ELR", on_brokers.wish("newest", elr=True))
ON_BUSY = on("busy", BUSY)
ON_TWO_DISKS = on("disks", {"elr": False, **TWO_DISKS})
ON_TWO_DISKS_OF_3_9 = on("disks of 3.9", {"release": "3.9", **TWO_DISKS})
SOON = Timing(quarantine=timedelta(seconds=5))
"""Nothing in these tests takes Kafka the minute that an engine waits by itself; `test_crashes.py` has one that does."""


LED = frozenset({Outcome.RECOVERED, Outcome.RECOVERED_UNDER_MIN_ISR})
"""An election of ours was verified; a replica joins the ISR about when it is looked for there."""


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

    async def designate(self, requests: Any) -> Mapping[TopicPartition, ElectionAnswer]:
        return await self._election.designate(requests)

    async def elect(self, requests: Any) -> Mapping[TopicPartition, ElectionAnswer]:
        self._before()
        answers = await self._election.elect(requests)
        self._after()
        return answers

    async def restore(self, requests: Any) -> Mapping[TopicPartition, ElectionAnswer]:
        return await self._election.restore(requests)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The engine on one real cluster; every call opens connections and the journal anew, as a new process would.

    `reads_history`: it reads the metadata log at the controllers.
    """

    kafka: RealKafka
    journal: Path
    policy: Policy = AUTOMATIC
    approver: str | None = "ann"
    before_election: Callable[[], None] = lambda: None
    after_election: Callable[[], None] = lambda: None
    election_deadline: timedelta = timedelta(seconds=20)
    dial: Dial | None = None
    reads_history: bool = False

    def with_(self, **changes: Any) -> Recovery:
        return replace(self, **changes)

    @asynccontextmanager
    async def cluster(self) -> AsyncIterator[KafkaCluster]:
        addresses = [Address.parse(address) for address in self.kafka.bootstrap.split(",")]
        async with KafkaCluster(addresses, Security(), dial=self.dial, controllers=self._controllers()) as cluster:
            yield cluster

    def _controllers(self) -> Controllers | None:
        if not self.reads_history:
            return None
        addresses = [Address.parse(address) for address in self.kafka.controller_addresses.values()]
        return Controllers(addresses, Security())

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[Engine]:
        async with self.cluster() as cluster:
            with self.engine_on(cluster) as engine:
                yield engine

    @contextmanager
    def engine_on(self, cluster: KafkaCluster) -> Iterator[Engine]:
        """With connections that are open already."""
        with local_journal(self.journal, self.kafka.cluster_id) as journal:
            driver = AssignmentOrderElection(cluster, deadline=self.election_deadline)
            election = Interrupted(driver, self.before_election, self.after_election)
            yield Engine(cluster, election, journal, Says(self.approver), self.policy, timing=SOON)

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
def kafka(request: pytest.FixtureRequest, warm: WarmKafka) -> Iterator[RealKafka]:
    """A cluster with nothing in it: the newest release, a controller and three brokers, unless parametrized."""
    with warm.lent(**getattr(request, "param", {"release": "newest", **USUAL})) as cluster:
        yield cluster


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Type one of our commands, in its own process: `command("kafka-unclean-recovery", "--help")`."""
    return partial(forked.run, environment={"XDG_STATE_HOME": str(tmp_path / "state")})


@pytest.fixture
def installed(tmp_path: Path) -> Command:
    """The same with the program that a user has; it takes two seconds to start."""

    def run(name: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        executable = Path(sys.executable).with_name(name)
        environment = {**forked.surroundings(), "XDG_STATE_HOME": str(tmp_path / "state")}
        return subprocess.run(
            [str(executable), *arguments], capture_output=True, text=True, timeout=timeout, env=environment, check=False
        )

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With pytest-xdist the tests that share a cluster belong to one process; a file's GROUP says which, where another
    one than the newest is wanted or where one process would have too much to do."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here and item.get_closest_marker("xdist_group") is None:
            module = item.getparent(pytest.Module)
            item.add_marker(pytest.mark.xdist_group(getattr(module and module.obj, "GROUP", "newest")))
