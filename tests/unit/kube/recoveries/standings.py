"""Every state our objects can be in, with the status that the operator writes, and what tools should make of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.fleet.outcome import RunOutcome
from kafka_recovery.kube.clusters import status as cluster_status
from kafka_recovery.kube.fleet.dialect import Adapter
from kafka_recovery.kube.fleet.runs import Memory, Run
from kafka_recovery.kube.fleet.status import status_of as ranking_status
from kafka_recovery.kube.machinery.conditions import condition, merged
from kafka_recovery.kube.recoveries.status import ApprovedBy, Known, Phase, PlanNow, status_of
from kafka_recovery.kube.resources.kinds import APPROVALS, CLUSTERS, RANKINGS, RECOVERIES, Kind
from kafka_recovery.kube.watching.incidents import Offline
from kafka_recovery.kube.watching.watcher import WatchView
from testbed.kstatus import Kstatus
from unit.kube.fleet.asked import active, ranking
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.specs import DIGEST, SMALLEST
from unit.kube.watching.sights import offline, seconds

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class State:
    """One state of one kind; `argo` and `kstatus` as the tools say it."""

    kind: Kind
    name: str
    status: Object
    argo: str
    kstatus: Kstatus

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.name}"

    @property
    def object(self) -> Object:
        """As the API server would give it."""
        meta = {"name": "some", "namespace": "dev", "generation": 1}
        return {"kind": self.kind.kind, "metadata": meta, "spec": SMALLEST[self.kind], "status": self.status}


PLAN = PlanNow(DIGEST, DIGEST, NOON, 2, True, LossClass.UNKNOWN, None)
BY = ApprovedBy("yes", "uid-1", "ann@example.com")
REFUSED = PartitionOutcome(TopicPartition("t", 0), Outcome.REFUSED, Reason("NoCandidate", "no replica may lead"))
FAILED = PartitionOutcome(TopicPartition("t", 1), Outcome.FAILED, Reason("UnexpectedLeader", "broker 2 leads"))


def _known(phase: Phase, reason: str, plan: PlanNow | None = None, **more: Any) -> Known:
    return Known(phase, Reason(reason, "a sentence that says why"), total=2, plan=plan, **more)


def _outcomes(*outcomes: PartitionOutcome) -> dict[TopicPartition, PartitionOutcome]:
    return {outcome.id: outcome for outcome in outcomes}


WORKING, WAITING = ("Progressing", Kstatus.IN_PROGRESS), ("Suspended", Kstatus.IN_PROGRESS)
GOOD, BAD = ("Healthy", Kstatus.CURRENT), ("Degraded", Kstatus.FAILED)

INCIDENTS: dict[str, tuple[Known, tuple[str, Kstatus]]] = {
    "is planned": (_known(Phase.PLANNING, "Planning"), WORKING),
    "awaits approval": (_known(Phase.AWAITING_APPROVAL, "AwaitingApproval", PLAN), WAITING),
    "shows its plan under Observe": (_known(Phase.AWAITING_APPROVAL, "ObserveOnly", PLAN), WAITING),
    "is asked about in a cool-down": (_known(Phase.AWAITING_APPROVAL, "CoolingDown", PLAN), WAITING),
    "elects with an approval": (_known(Phase.ELECTING, "Electing", PLAN, approval=BY), WORKING),
    "elects by its rules": (_known(Phase.ELECTING, "Electing", replace(PLAN, needs_approval=False)), WORKING),
    "is suspended": (_known(Phase.HELD, "Suspended", PLAN), WAITING),
    "is held while the operator is cut off": (_known(Phase.HELD, "ViewUnavailable"), WORKING),
    "is refused for now": (_known(Phase.STUCK, "NoCandidate", outcomes=_outcomes(REFUSED)), BAD),
    "restores orders": (_known(Phase.RESTORING, "Aborted", PLAN, approval=BY), WORKING),
    "is recovered": (_known(Phase.ENDED, "Recovered", PLAN, approval=BY, end=End.RECOVERED), GOOD),
    "was refused by a person": (_known(Phase.ENDED, "RefusedByApprover", PLAN, end=End.REFUSED_BY_APPROVER), BAD),
    "has nothing to recover": (_known(Phase.ENDED, "NothingToRecover", end=End.NOTHING_TO_RECOVER), BAD),
    "has failed": (_known(Phase.ENDED, "Failed", PLAN, outcomes=_outcomes(FAILED), end=End.FAILED), BAD),
    "was aborted": (_known(Phase.ENDED, "Aborted", end=End.ABORTED), BAD),
}

RULES = Policy(())
SEEN = WatchView(seconds(100), "abc", pulsed_at=seconds(100), scanned_at=seconds(99))
LOST = Reason("OperatorCutOff", "the controller counts 3 brokers as alive, none of them answers us")
NOT_READY = ("Degraded", Kstatus.IN_PROGRESS)
VIEWS: dict[str, tuple[WatchView, Policy | Reason, tuple[str, Kstatus]]] = {
    "is being connected to": (WatchView(seconds(1)), RULES, ("Progressing", Kstatus.IN_PROGRESS)),
    "is well": (SEEN, RULES, GOOD),
    "has offline partitions": (replace(SEEN, offline=(Offline(offline(), seconds(90)),)), RULES, GOOD),
    "was not gone through": (replace(SEEN, scanned_at=None), RULES, GOOD),
    "was out of sight for a moment": (replace(SEEN, isolated=LOST, pulsed_at=seconds(95)), RULES, GOOD),
    "is out of sight": (replace(SEEN, isolated=LOST, pulsed_at=seconds(50)), RULES, NOT_READY),
    "is observed without a policy": (SEEN, Reason("NoPolicy", "spec.policyRef is not set"), GOOD),
    "misses its policy": (SEEN, Reason("InvalidReference", "there is no RecoveryPolicy prod"), NOT_READY),
}

ASKED = active(ranking(), message="one executor")
SUCCEEDED = Run(
    "r-1", "r-1-1", Adapter.APACHE, 1, NOON, NOON, RunOutcome.SUCCEEDED, Reason("Succeeded", "ten"), DIGEST, "s3://b"
)
LATE = replace(SUCCEEDED, outcome=RunOutcome.FAILED, reason=Reason("DeadlineExceeded", "late"))
ONCE, NIGHTLY = {"scheduled": False}, {"scheduled": True}
RANKED: dict[str, tuple[Memory, dict[str, Any], tuple[str, Kstatus]]] = {
    "is due tonight": (Memory(), NIGHTLY, GOOD),
    "is asked once and runs": (Memory(ASKED), ONCE, WORKING),
    "has run": (Memory(runs=(SUCCEEDED,)), ONCE, GOOD),
    "has run and runs again": (Memory(ASKED, (SUCCEEDED,)), NIGHTLY, GOOD),
    "has failed": (Memory(runs=(LATE,)), ONCE, BAD),
    "can not begin": (Memory(), ONCE | {"trouble": Reason("ApiMissing", "install one")}, BAD),
}


def states() -> Iterator[State]:
    """All of them, newborn objects included."""
    for name, (known, tools) in INCIDENTS.items():
        yield State(RECOVERIES, name, status_of(known, 1, {}, NOON), *tools)
    for name, (view, policy, tools) in VIEWS.items():
        status = cluster_status.watched(view, policy, None, 0, 1, {}, NOON)
        yield State(CLUSTERS, name, status, *tools)
    twice = Reason("DuplicateCluster", "WatchedCluster dev/copy has the same clusterId")
    status = cluster_status.watched(SEEN, RULES, None, 0, 1, {}, NOON, twice)
    yield State(CLUSTERS, "acts for a Kafka that another one names as well", status, *NOT_READY)
    missing = Reason("InvalidReference", "Secret kafka-ca is not there")
    yield State(CLUSTERS, "misses a Secret", cluster_status.unopened(missing, 1, {}, NOON), *NOT_READY)
    for kind in (RECOVERIES, CLUSTERS, RANKINGS):
        yield State(kind, "is new", {"observedGeneration": -1}, *WORKING)
    for name, (memory, how, tools) in RANKED.items():
        yield State(RANKINGS, name, ranking_status(memory, 1, {}, NOON, suspended=False, **how), *tools)
    yield State(APPROVALS, "is new", {}, "Progressing", Kstatus.CURRENT)
    yield State(APPROVALS, "counts", _answer(True, "AsExpected"), *GOOD)
    yield State(APPROVALS, "does not count", _answer(False, "PlanOutdated"), "Degraded", Kstatus.CURRENT)


def _answer(accepted: bool, reason: str) -> Object:
    said = condition("Accepted", accepted, reason, "a sentence that says why", 1)
    return {"conditions": merged([], [said], NOON)}
