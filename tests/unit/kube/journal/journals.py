"""One recovery's journal in a small Kubernetes, and engines that keep it."""

from __future__ import annotations

from datetime import timedelta

from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.resources.kinds import RECORDS, RECOVERIES
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.requests import request_of
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import AUTO, COARSE, ORDERS, World

NAMESPACE, NAME, UID = "kafka", "prod-1f0c9a2b7d", "4a3c0e0e-0d0a-4a75-a6c5-2f9be0ad3b1e"
OTHERS = "example.com/others"
"""A finalizer that is not ours."""
PLACE = RECORDS.path(NAMESPACE)
"""Where the API keeps its RecoveryRecords."""
RECOVERY = RECOVERIES.path(NAMESPACE, NAME)
RECOVERED = PartitionOutcome(ORDERS, Outcome.RECOVERED)


class WatchedJournal(RecordJournal):
    """What this journal holds is what may be elected in its world."""

    def __init__(self, world: World, api: KubernetesInMemory) -> None:
        super().__init__(api, NAMESPACE, NAME, UID, CLUSTER)
        self._world = world

    async def record(self, plan: Plan) -> str:
        name = await super().record(plan)
        self._world.durable.update(map(request_of, (await self.plan(name)).elections.values()))
        return name


def journal_of(api: KubernetesInMemory, uid: str = UID, cluster_id: str = CLUSTER) -> RecordJournal:
    """As a process that has just started opens it."""
    return RecordJournal(api, NAMESPACE, NAME, uid, cluster_id)


def engine(
    world: World, api: KubernetesInMemory, policy: Policy = AUTO, journal: RecordJournal | None = None
) -> Engine:
    """As a process that has just started has it; to start takes a second."""
    world.clock.advance(timedelta(seconds=1))
    world.steps.dead = False
    journal = journal or WatchedJournal(world, api)
    return Engine(world.kafka, world.kafka, journal, world, policy, clock=world.clock, observer=world, timing=COARSE)


async def another(world: World) -> Plan:
    """A later plan."""
    world.clock.advance(timedelta(seconds=1))
    return await world.plan()


async def begin(journal: RecordJournal, plan: Plan) -> str:
    """A run in the middle of its first wave."""
    name = await journal.record(plan)
    await journal.approved(name, "ann")
    await journal.wave_started(name, 1, (ORDERS,))
    return name


async def whole_story(journal: RecordJournal, plan: Plan) -> None:
    """A run from its plan to its end."""
    name = await begin(journal, plan)
    await journal.wave_ended(name, 1, (RECOVERED,))
    await journal.finished(name)


def unowned(api: KubernetesInMemory) -> list[str]:
    """RecoveryRecords that no deletion of a recovery takes along."""
    return [name for name, each in api.records().items() if not each["metadata"].get("ownerReferences")]
