"""What most stories about an operator begin with: an offline partition, and a namespace with a recovery of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.process_collector import ProcessCollector

from kafka_recovery.domain.plan import Plan
from kafka_recovery.kube.resources.kinds import POLICIES
from unit.kube.journal.journals import NAME, NAMESPACE, OTHERS, UID
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.kube.office import Office
from unit.kube.operated import Operated
from unit.kube.our_objects import inhabited
from unit.recovery.world import ORDERS, PAYMENTS, World


@pytest.fixture(scope="session", autouse=True)
def process_told_of_once() -> Iterator[None]:
    """To learn their names, each of a thousand registries would measure what this process uses."""
    measured = list(ProcessCollector(registry=None).collect())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProcessCollector, "describe", lambda _: measured, raising=False)
        yield


@pytest.fixture
def api() -> KubernetesInMemory:
    """A namespace with one recovery, which somebody else's finalizer holds as well."""
    api = KubernetesInMemory()
    api.put_recovery(NAMESPACE, NAME, UID, finalizers=[OTHERS])
    return api


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A small Kafka with an offline partition."""
    world = World(tmp_path)
    world.offline()
    return world


@pytest.fixture
async def plan(world: World) -> Plan:
    return await world.plan()


@pytest.fixture
def automatic(world: World) -> Operated:
    """One recovery; its rules approve each plan."""
    return Operated(world, inhabited())


@pytest.fixture
def by_hand(world: World) -> Operated:
    """One recovery; a person approves each plan."""
    return Operated(world, inhabited(approval="ManualApprove"))


@pytest.fixture
def half_automatic(by_hand: Operated) -> Operated:
    """Nobody is asked about orders, somebody is about payments."""
    by_hand.scope = (ORDERS, PAYMENTS)
    by_hand.world.offline({3: 8, 4: 9}, PAYMENTS)
    rules = [{"name": "pay", "topics": {"names": ["payments"]}}, {"name": "rest", "approval": "AutoApprove"}]
    by_hand.api.change(POLICIES, "rules", rules=rules)
    return by_hand


@pytest.fixture
def office(world: World) -> Office:
    """All recoveries of a process; their rules approve each plan."""
    return Office(world, inhabited())


@pytest.fixture
def asking_office(world: World) -> Office:
    """All recoveries of a process; a person approves each plan."""
    return Office(world, inhabited(approval="ManualApprove"))
