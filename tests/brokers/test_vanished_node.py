"""A node that vanishes without a word, its packets dropped: what it costs a recovery, and what is said of it."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from brokers.conftest import PROXIED, Recovery
from kafka_recovery.cluster.sockets import Address, Sockets, Streams
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval, EvidenceRules, Policy, Rule
from testbed.cluster import RealKafka
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers
GROUP = "proxied"

VANISHED, SURVIVORS = 1, (2, 3)
ORIGINAL = (1, 2, 3)
PARTITIONS = 300
DEADLINE = timedelta(seconds=30)
"""Longer than all that is done here takes on a busy machine, if nobody waits for it."""
PATIENT = Policy((Rule("all", approval=Approval.AUTO, evidence=EvidenceRules(deadline=DEADLINE)),))


@dataclass
class Knocking:
    """TCP that counts who knocks where: `tries` to the address, `at_once` of them at the worst moment."""

    address: str
    tries: int = 0
    at_once: int = 0
    _open: int = 0
    _sockets: Sockets = field(default_factory=lambda: Sockets(Threads("knocking")))

    async def __call__(self, address: Address, tls: ssl.SSLContext | None) -> Streams:
        if str(address) != self.address:
            return await self._sockets(address, tls)
        self.tries += 1
        self._open += 1
        self.at_once = max(self.at_once, self._open)
        try:
            return await self._sockets(address, tls)
        finally:
            self._open -= 1

    async def is_deaf(self, address: Address, within: timedelta) -> bool:
        return await self._sockets.is_deaf(address, within)


@pytest.fixture
def kafka(warm: WarmKafka) -> Iterator[RealKafka]:
    with warm.lent(**PROXIED) as cluster:
        yield cluster


async def test_a_node_that_vanishes_costs_a_second_and_no_election(
    kafka: RealKafka, recovery: Callable[[RealKafka], Recovery]
) -> None:
    """An engine that was connected to all three, as an operator is: neither its open connections nor new ones tell it.

    Takes two sessions of a broker: so long nobody knows of the accident.
    """
    knocking = Knocking(kafka.address(VANISHED))
    ours = recovery(kafka).with_(policy=PATIENT, dial=knocking)
    async with ours.cluster() as cluster:
        await cluster.gather(Scope(()), PATIENT.widest_evidence_rules)
        met_before = knocking.tries
        kafka.proxy(VANISHED).vanish()
        kafka.offline_by_freezing("orders", SURVIVORS, partitions=PARTITIONS)
        with ours.engine_on(cluster) as engine:
            began = time.monotonic()
            report = await engine.recover(Scope(None))
            took = timedelta(seconds=time.monotonic() - began)

    assert met_before
    assert {outcome.outcome for outcome in report.outcomes} == {Outcome.RECOVERED}
    assert len(report.outcomes) == PARTITIONS
    states = kafka.describe("orders").values()
    assert {state.leader for state in states} == set(SURVIVORS)
    assert {state.replicas for state in states} == {ORIGINAL}
    assert all(outcome.order_restored and not outcome.warnings for outcome in report.outcomes)
    assert knocking.at_once == 1, "a question to it is open: nobody asks it another one"
    assert took < DEADLINE, "it was waited for to the deadline, though its host gave no sign of life"
