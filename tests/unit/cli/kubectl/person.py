"""A person at a small Kubernetes, with recoveries at every stage: statuses and journals as the operator has them."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from kafka_recovery.cli.kubectl.access import Kubernetes
from kafka_recovery.cli.kubectl.reach import Reach
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.sameness import changes, difference
from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.outcome import PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.recoveries.plan_history import Became, PlanHistory, PlanTold
from kafka_recovery.kube.recoveries.status import Known, Phase, plan_asked, plan_now, status_of
from kafka_recovery.kube.resources.kinds import API_VERSION, APPROVALS, CLUSTERS, RECOVERIES, Kind
from unit.cli.small_cluster import SmallCluster
from unit.kube.kubernetes_in_memory import NOON, KubernetesInMemory

NAMESPACE = "kafka"
CLUSTER_ID = SmallCluster().id
AWAITING = Reason("AwaitingApproval", "the plan waits for a RecoveryApproval")
T = TypeVar("T")


class SmallKubernetes:
    """`Kubernetes` for ann, over objects in memory. `refuses`: what calls whose path has this word end with."""

    namespace = NAMESPACE

    def __init__(self) -> None:
        self.memory = KubernetesInMemory()
        self.who = "ann"
        self.refuses: dict[str, ApiError] = {}
        self.logs: dict[str, str] = {}
        self.asked_for: list[str] = []
        self.reached: Reach | None = None

    @contextmanager
    def open(self, reach: Reach) -> Iterator[Kubernetes]:
        """What the plugin opens instead of a kubeconfig."""
        self.reached = reach
        yield self

    def get(self, path: str) -> Object:
        self._ask(path)
        return _at_once(self.memory.get(path))

    def list_all(self, path: str, params: Mapping[str, str] | None = None) -> list[Object]:
        self._ask(path)
        found = [each for at in self._collections(path) for each in _at_once(self.memory.list_all(at, params=params))]
        field, _, value = (params or {}).get("fieldSelector", "").partition("=")
        return [each for each in found if not field or _field(each, field) == value]

    def _collections(self, path: str) -> list[str]:
        """The one of a namespace, or those of all."""
        group, _, plural = path.rpartition("/")
        if "/namespaces/" in path:
            return [path]
        there = {at.rpartition("/")[0] for at in self.memory.objects if at.startswith(f"{group}/namespaces/")}
        return sorted(each for each in there if each.endswith(f"/{plural}"))

    def create(self, path: str, body: Mapping[str, Any]) -> Object:
        self._ask(path)
        if path.endswith("/selfsubjectreviews"):
            return {"status": {"userInfo": {"username": self.who}}}
        return _at_once(self.memory.create(path, body))

    def patch(self, path: str, change: Mapping[str, Any]) -> Object:
        seen = self.get(path)
        assert change.get("metadata", {}).get("uid", seen["metadata"]["uid"]) == seen["metadata"]["uid"]
        for part in change.keys() - {"metadata"}:
            seen[part] = seen.get(part, {}) | change[part]
        self.memory.objects[path] = seen
        return copy.deepcopy(seen)

    def text(self, path: str, params: Mapping[str, str]) -> str:
        self._ask(path)
        return self.logs[f"{path}?previous={params.get('previous', 'false')}"]

    def put(self, kind: Kind, name: str, spec: Object, status: Object | None = None, **meta: Any) -> str:
        """An object of ours, as the API server would have it; returns its uid."""
        meta = {
            "namespace": NAMESPACE,
            "name": name,
            "uid": f"uid-of-{name}",
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": f"{NOON:%Y-%m-%dT%H:%M:%SZ}",
            **meta,
        }
        made = {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": meta, "spec": spec}
        made |= {"status": status} if status is not None else {}
        self.memory.objects[kind.path(meta["namespace"], name)] = made
        return str(meta["uid"])

    def said(self) -> list[Object]:
        """The specs of all RecoveryApprovals."""
        return [each["spec"] for each in self.list_all(APPROVALS.path(NAMESPACE))]

    def spec(self, kind: Kind, name: str) -> Object:
        """What somebody wants of an object."""
        found: Object = self.memory.objects[kind.path(NAMESPACE, name)]["spec"]
        return found

    def _ask(self, path: str) -> None:
        self.asked_for.append(path)
        for word, error in self.refuses.items():
            if word in path:
                raise error


class Incidents:
    """Puts clusters and recoveries there, as their operator would."""

    def __init__(self, kubernetes: SmallKubernetes, kafka: SmallCluster) -> None:
        self.kubernetes = kubernetes
        self.kafka = kafka

    def cluster(self, name: str = "prod", offline: int = 1, **spec: Any) -> None:
        """A watched cluster with a sick Kafka."""
        conditions = [
            {"type": "Ready", "status": "True", "reason": "Observing", "message": ""},
            {"type": "KafkaHealthy", "status": "False", "reason": "OfflinePartitions", "message": ""},
        ]
        wanted = {"clusterId": CLUSTER_ID, "bootstrapServers": ["kafka-1:9092"], "authority": "Approve"} | spec
        self.kubernetes.put(CLUSTERS, name, wanted, {"offlinePartitions": offline, "conditions": conditions})

    def opened(self, name: str = "prod-1", known: Known | None = None, **spec: Any) -> str:
        """A recovery with the status that the operator would write about `known`; None: it has not looked yet."""
        wanted = {"clusterRef": {"name": "prod"}, "clusterId": CLUSTER_ID, "scope": {"allOffline": True}} | spec
        status = status_of(known, 1, {}, NOON) if known else {"observedGeneration": -1}
        return self.kubernetes.put(RECOVERIES, name, wanted, status)

    def replanned(self, name: str, before: Plan, change: Callable[[], object]) -> Plan:
        """Something changed: another plan took the place of the one before, and waits for somebody's word."""
        change()
        after = self.plan()
        found = difference(before, after)
        journal = self.journal(name, f"uid-of-{name}")
        asyncio.run(journal.discard(digest(before)))
        history = PlanHistory.of(self.kubernetes.memory.objects[RECOVERIES.path(NAMESPACE, name)]["status"])
        history.shows(_told(before))
        history.ends(digest(before), Became.VOID, found.message if found else "its evidence is too old")
        history.shows(_told(after), digest(before), changes(before, after))
        self.record(name, f"uid-of-{name}", after)
        self.tell(name, Phase.AWAITING_APPROVAL, AWAITING, after, history=history.told(digest(after)))
        return after

    def awaiting(
        self,
        name: str = "prod-1",
        reason: Reason = AWAITING,
        policy: Policy | None = None,
        because: str = "",
        made: Plan | None = None,
        **spec: Any,
    ) -> Plan:
        """A recovery whose plan is recorded and waits for somebody's word. `because`: why, whatever its policy says.

        `made`: that plan, of another Kafka than the small one. `spec`: what the recovery says besides.
        """
        plan = made or self.plan(policy)
        uid = self.opened(name, **spec)
        self.record(name, uid, plan)
        self.tell(name, Phase.AWAITING_APPROVAL, reason, plan, because=because)
        return plan

    def plan(self, policy: Policy | None = None) -> Plan:
        """What would be done about the small Kafka as it is now."""
        used = policy or Policy()
        return decide(asyncio.run(self.kafka.gather(ALL_OFFLINE, used.widest_evidence_rules)), used)

    def record(self, name: str, uid: str, plan: Plan) -> str:
        """Into the journal's records."""
        return asyncio.run(self.journal(name, uid).record(plan))

    def carried_out(self, name: str, plan: Plan, *outcomes: PartitionOutcome) -> None:
        """The operator elected the plan's first wave, with these outcomes, and the journal has its end."""
        journal, found = self.journal(name, f"uid-of-{name}"), digest(plan)

        async def carry_out() -> None:
            await journal.approved(found, "ann")
            await journal.wave_started(found, 1, [each.id for each in outcomes])
            await journal.wave_ended(found, 1, outcomes)

        asyncio.run(carry_out())

    def journal(self, name: str, uid: str) -> RecordJournal:
        """A recovery's, as the operator keeps it."""
        return RecordJournal(self.kubernetes.memory, NAMESPACE, name, uid, CLUSTER_ID)

    def tell(self, name: str, phase: Phase, reason: Reason, plan: Plan | None = None, **known: Any) -> None:
        """The status that the operator writes next."""
        because = known.pop("because", "")
        shown = plan_now(plan, digest(plan)) if plan else None
        if plan and phase is Phase.AWAITING_APPROVAL:
            shown = plan_asked(plan, digest(plan), because)
        total = len(plan.decisions) if plan else 0
        obj = self.kubernetes.memory.objects[RECOVERIES.path(NAMESPACE, name)]
        obj["status"] = status_of(Known(phase, reason, total, plan=shown, **known), 1, obj["status"], NOON)


def _told(plan: Plan) -> PlanTold:
    return PlanTold(digest(plan), f"{NOON:%Y-%m-%dT%H:%M:%SZ}", len(plan.elections))


def _at_once(work: Coroutine[Any, Any, T]) -> T:
    """The memory never waits, so its answers are there at the first step; also within a running loop."""
    try:
        work.send(None)
    except StopIteration as done:
        answer: T = done.value
        return answer
    raise AssertionError("the small Kubernetes waited")


def _field(obj: Object, path: str) -> str:
    value: Any = obj
    for part in path.split("."):
        value = value[part]
    return str(value)


def row(shown: str, name: str) -> str:
    """The table's line about something, with single blanks."""
    (line,) = [line for line in shown.splitlines() if line.startswith(name + " ")]
    return " ".join(line.split())
