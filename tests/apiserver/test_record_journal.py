"""The journal on a real API server, as the operator's own account: what is kept, what holds it, and what lets it go."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.calling import calling
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import ReplicaLog
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Limits
from kafka_recovery.kube.journal.orphans import orphaned, prune
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import Api, Effort
from kafka_recovery.kube.resources.kinds import API_VERSION, FINALIZER, RECOVERIES
from kafka_recovery.recovery.ports import JournalClosed
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until
from unit.decision.incident import NOON, ORDERS, evidence, log, partition, policy

pytestmark = pytest.mark.apiserver

ROLE = Path(__file__).parents[2] / "manifests" / "rbac" / "operator.yaml"
ACCOUNT = HOME = "kafka-recovery"
CLUSTER = "_KU3OEVBNTcwNTJENDM2Q-"
GARBAGE_COLLECTED = 60.0
NAME = "orders-1"


@dataclass(frozen=True, slots=True)
class Incident:
    """A PartitionRecovery, and its journal as a process that has just started opens it."""

    api: Api
    namespace: str
    uid: str

    @property
    def journal(self) -> RecordJournal:
        return RecordJournal(self.api, self.namespace, NAME, self.uid, CLUSTER)

    async def begun(self, plan: Plan) -> str:
        """A run in the middle of its first wave."""
        digest = await self.journal.record(plan)
        await self.journal.approved(digest, "ann")
        await self.journal.wave_started(digest, 1, (ORDERS,))
        return digest

    async def finalizers(self) -> list[str]:
        meta = (await self.api.get(RECOVERIES.path(self.namespace, NAME)))["metadata"]
        return list(meta.get("finalizers", []))


@pytest.fixture
def operator(control_plane: ControlPlane, namespace: str, kubectl: Kubectl) -> Path:
    """The operator's account with the Role that we ship."""
    kubectl.apply(*yaml.safe_load_all(re.sub(rf"(?<=namespace: ){HOME}\b", namespace, ROLE.read_text())))
    return control_plane.service_account(namespace, f"{ACCOUNT}-operator")


@pytest.fixture
async def api(operator: Path) -> AsyncIterator[Api]:
    async with calling(operator, effort=Effort(deadline=timedelta(seconds=20))) as api:
        yield api


@pytest.fixture
async def incident(api: Api, namespace: str) -> Incident:
    recovery = {
        "apiVersion": API_VERSION,
        "kind": RECOVERIES.kind,
        "metadata": {"name": NAME},
        "spec": {"clusterRef": {"name": "prod"}, "clusterId": CLUSTER, "scope": {"allOffline": True}},
    }
    made = await api.create(RECOVERIES.path(namespace), recovery)
    return Incident(api, namespace, made["metadata"]["uid"])


def plan_of(partitions: int = 1) -> Plan:
    """Offline partitions with logs as long and as different as real ones; the same each time."""
    chance = random.Random(7)

    def some_log() -> ReplicaLog:
        starts = sorted(chance.sample(range(1, 10**9), 4))
        moment = NOON + timedelta(microseconds=chance.randrange(10**7))
        return log(starts[-1] + 1000, (0, 0), *enumerate(starts, 1), observed_at=moment)

    ids = [TopicPartition(f"orders-{index // 50:04}", index % 50) for index in range(partitions)]
    seen = [partition({1: None, 2: some_log(), 3: some_log()}, id=id) for id in ids]
    return decide(evidence(*seen, cluster_id=CLUSTER), policy(Limits(partitions=partitions)))


def records(kubectl: Kubectl) -> list[str]:
    """Those of journals; every namespace has one of its own."""
    found = kubectl.api.listed("recoveryrecords")
    return sorted(each["metadata"]["name"] for each in found)


async def until(what: str, look: Callable[[], Any], good: Callable[[Any], bool]) -> None:
    await asyncio.to_thread(wait_until, what, look, good, GARBAGE_COLLECTED)


@pytest.mark.parametrize("partitions", [10_000, pytest.param(20_000, marks=pytest.mark.full)])
async def test_a_large_plan_is_kept_in_parts_and_read_back(
    incident: Incident, kubectl: Kubectl, partitions: int
) -> None:
    plan = plan_of(partitions)
    many = tuple(
        PartitionOutcome(decision.id, Outcome.RECOVERED, leader=decision.leader, log_end=decision.log_end)
        for decision in plan.decisions
    )
    digest = await incident.begun(plan)
    await incident.journal.wave_ended(digest, 1, many)

    (run,) = await incident.journal.unfinished()

    assert (run.digest, run.plan, run.outcomes) == (digest, plan, many)
    assert await incident.journal.kept(digest) == plan
    assert [name for name in records(kubectl) if "-plan-001-" in name], "it was too large for one"


@pytest.mark.parametrize("cascade", ["foreground", "background"])
async def test_a_deletion_waits_for_the_run_and_then_takes_all_along(
    incident: Incident, kubectl: Kubectl, cascade: str
) -> None:
    digest = await incident.begun(plan_of())
    assert await incident.finalizers() == [FINALIZER]
    kept = records(kubectl)

    for name in kept:
        kubectl.api.delete("recoveryrecord", name)
    kubectl.api.delete("partitionrecovery", NAME, foreground=cascade == "foreground")
    await asyncio.sleep(3)  # time enough for a garbage collector that saw an owner reference
    assert records(kubectl) == kept
    assert [run.digest for run in await incident.journal.unfinished()] == [digest]

    await incident.journal.wave_ended(digest, 1, ())
    await incident.journal.finished(digest)
    await until("all is gone", lambda: records(kubectl), lambda left: left == [])
    assert kubectl.api.listed("partitionrecoveries") == []


async def test_what_has_ended_stays_as_long_as_its_recovery(incident: Incident, kubectl: Kubectl) -> None:
    digest = await incident.begun(plan_of())
    await incident.journal.finished(digest)
    await asyncio.sleep(3)

    assert len(records(kubectl)) == 5
    assert await incident.finalizers() == []
    kubectl.api.delete("partitionrecovery", NAME)
    await until("all is gone", lambda: records(kubectl), lambda left: left == [])


async def test_the_journal_of_a_recovery_that_was_removed_by_force_is_found_finished_and_pruned(
    incident: Incident, kubectl: Kubectl
) -> None:
    digest = await incident.begun(plan_of())
    api, namespace = incident.api, incident.namespace
    assert await orphaned(api, namespace, CLUSTER, ()) == []
    kubectl.api.delete("partitionrecovery", NAME)
    kubectl.api.patch("partitionrecovery", NAME, {"metadata": {"finalizers": []}})

    (journal,) = await orphaned(api, namespace, CLUSTER, ())
    assert [run.digest for run in await journal.unfinished()] == [digest]
    await journal.wave_ended(digest, 1, ())
    await journal.finished(digest)

    assert await orphaned(api, namespace, CLUSTER, ()) == []
    now = datetime.now(UTC)
    assert await prune(api, namespace, CLUSTER, (), now - timedelta(minutes=5)) == 0
    assert await prune(api, namespace, CLUSTER, (), now + timedelta(minutes=5)) == 6
    assert records(kubectl) == []


async def test_a_namespace_that_is_being_deleted_takes_no_plan_and_ends_when_the_run_does(
    control_plane: ControlPlane, incident: Incident, kubectl: Kubectl, namespace: str
) -> None:
    """Some ten seconds: a namespace's controller looks again ever more seldom.

    Its roles go with the namespace: whoever ends the run has rights that do not lie in it.
    """
    async with calling(control_plane.administrator(namespace)) as api:
        journal = RecordJournal(api, namespace, NAME, incident.uid, CLUSTER)
        digest = await incident.begun(plan_of())
        kept = records(kubectl)
        kubectl.api.delete("namespace", namespace)

        await asyncio.sleep(1)  # what is being written that very moment may still be taken

        with pytest.raises(JournalClosed, match="the namespace is being deleted"):
            await journal.record(plan_of(2))
        with pytest.raises(JournalClosed):
            await journal.wave_started(digest, 2, (ORDERS,))
        assert records(kubectl) == kept
        assert [run.digest for run in await journal.unfinished()] == [digest]

        await journal.wave_ended(digest, 1, ())
        await journal.finished(digest)

    await until("the namespace is gone", lambda: kubectl.api.has("namespace", namespace), lambda lives: not lives)
