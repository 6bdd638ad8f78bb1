"""Recoveries as they stand in the API, their plans from the journal, and whom they wait for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_recovery.cli.kubectl.access import Loop, sound_name
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.cli.terminal.text import complain
from kafka_recovery.decision.returns import Led
from kafka_recovery.domain.counts import Counts, Whereabouts
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import End, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.journal.shown_plans import Named
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.machinery.conditions import condition_of
from kafka_recovery.kube.recoveries.plan_history import Became, PlanTold
from kafka_recovery.kube.recoveries.status import OBSERVE_ONLY
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, RECOVERIES, Kind, PartitionRecovery, read_recovery

DUPLICATE = "DuplicateCluster"
"""The reason of whatever belongs to a WatchedCluster that does not act, because another one has its Kafka."""
SUSPENDED = "Suspended"
"""The reason of whatever is stopped: a recovery, its cluster, or the whole operator."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a status says about its plan: what a person approves.

    `because`: why a person is asked about elections that the policy asks nobody about; empty: it decides.
    """

    digest: str
    needs_approval: bool
    because: str = ""


@dataclass(frozen=True, slots=True)
class Incident:
    """A recovery as it was read, and the object it was read from."""

    recovery: PartitionRecovery
    obj: Object

    @property
    def name(self) -> str:
        """Its name in its namespace."""
        return self.recovery.meta.name

    @property
    def finished(self) -> bool:
        """Whether the operator is done with it."""
        return self.recovery.status.get("finished") is True

    @property
    def plan(self) -> Shown | None:
        """The plan of this moment."""
        plan = self.recovery.status.get("plan") or {}
        digest = plan.get("digest")
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            return None
        return Shown(digest, bool(plan.get("needsApproval")), str(plan.get("askedBecause") or ""))

    def condition(self, kind: str) -> Mapping[str, Any]:
        """One of its conditions; empty if it is not there."""
        return condition_of(self.recovery.status, kind)

    @property
    def plans(self) -> tuple[PlanTold, ...]:
        """All that its status names, the newest first; of those that an older operator named only the digest."""
        told = [PlanTold.of(each) for each in self.recovery.status.get("plans") or ()]
        known = {each.digest for each in told}
        named = Named.by(self.recovery.status, self.recovery.meta.uid)
        if self.plan and self.plan.digest not in known:
            details = self.recovery.status["plan"]
            became = Became.NOT_BEGUN if self.finished else Became.CURRENT
            became = Became.CARRIED_OUT if self.plan.digest in named.begun else became
            told = [PlanTold(self.plan.digest, details.get("madeAt", ""), details.get("elections", 0), became), *told]
            known.add(self.plan.digest)
        begun = [digest for digest in reversed(named.begun) if digest not in known]
        return (*told, *(PlanTold(digest, "", 0, Became.CARRIED_OUT) for digest in begun))

    @property
    def counts(self) -> Counts | None:
        """Where its partitions are; None: they were not counted yet. What an older operator did not count is 0."""
        said = self.recovery.status.get("partitions") or {}
        if not said.get("total"):
            return None
        places = {place: int(said.get(place, 0)) for place in Whereabouts}
        return Counts(int(said["total"]), int(said.get("offline", 0)), places)

    @property
    def state(self) -> str:
        """One word: how it ended, else why it is not ready."""
        return str(self.recovery.status.get("outcome") or self.condition("Ready").get("reason") or "New")

    @property
    def message(self) -> str:
        """The sentence that belongs to the word."""
        return str(self.condition("Ready").get("message") or "the operator has not looked at it yet")

    @property
    def asks(self) -> bool:
        """Whether its plan waits for somebody's word."""
        if self.finished or self.recovery.abort or self.recovery.meta.deleting_since:
            return False
        approved, ready = self.condition("Approved"), self.condition("Ready")
        return bool(self.plan and approved.get("status") == "False" and approved.get("reason") == ready.get("reason"))


def waits_for(incident: Incident, suspended_clusters: Mapping[str, bool], observed: Collection[str] = ()) -> str:
    """Who has to do something next; a dash: nobody. `observed`: clusters whose authority is Observe."""
    recovery = incident.recovery
    if incident.finished:
        return "-"
    if recovery.abort or recovery.meta.deleting_since:
        altered = FINALIZER in recovery.meta.finalizers
        return "operator, to restore assignment orders" if altered else "operator, to end it"
    if recovery.suspend:
        return "you, to unsuspend it"
    if suspended_clusters.get(recovery.cluster_name):
        return f"you, to unsuspend cluster {recovery.cluster_name}"
    if incident.state == SUSPENDED:
        return "you, to unsuspend the operator"
    if incident.state == DUPLICATE:
        return "you, to delete one of two WatchedClusters"
    if incident.state == OBSERVE_ONLY or (incident.asks and recovery.cluster_name in observed):
        return "nobody: authority is Observe"
    if incident.asks:
        return "you, to approve or refuse"
    if incident.condition("Stalled").get("status") == "True":
        return "Kafka: a change there"
    return "operator"


def object_of(session: Session, kind: Kind, name: str) -> Object:
    """An object by its name. Raises ApiError, InvalidDocument."""
    return session.api.get(kind.path(session.namespace, sound_name(kind.kind, name)))


def incident(session: Session, name: str) -> Incident:
    """A recovery by its name. Raises ApiError, InvalidDocument."""
    found = object_of(session, RECOVERIES, name)
    return Incident(read_recovery(found), found)


def incidents(session: Session, everywhere: bool = False, selector: str | None = None) -> list[Incident]:
    """Recoveries, the youngest first, with these labels. One that can't be understood is complained of and left out.

    `everywhere`: of all namespaces.
    """
    found = []
    params = {"labelSelector": selector} if selector is not None else None
    for each in session.api.list_all(RECOVERIES.path(None if everywhere else session.namespace), params):
        try:
            found.append(Incident(read_recovery(each), each))
        except InvalidDocument as error:
            complain(str(error))
    return sorted(found, key=lambda each: (each.recovery.meta.created_at, each.name), reverse=True)


def clusters(session: Session, everywhere: bool = False) -> list[Object]:
    """The namespace's clusters, or all there are, by name."""
    found = session.api.list_all(CLUSTERS.path(None if everywhere else session.namespace))
    return sorted(found, key=lambda each: (str(each["metadata"]["namespace"]), str(each["metadata"]["name"])))


def earlier_plan(session: Session, incident: Incident, prefix: str) -> tuple[PlanTold, Plan]:
    """A plan of a recovery by the beginning of its digest. Raises InvalidDocument, Refusal for one that is not kept."""
    if not re.fullmatch(r"[0-9a-f]{6,64}", prefix):
        raise InvalidDocument(f"--plan {prefix!r}: not the beginning of a plan's digest (6 to 64 hexadecimal digits)")
    found = [told for told in incident.plans if told.digest.startswith(prefix)]
    listed = session.command(f"plans {incident.name}")
    if not found:
        raise InvalidDocument(f"{incident.name} has no plan whose digest begins {prefix}; {listed} lists its plans")
    if len(found) > 1:
        named = "".join(f"\n  {told.digest} {told.became}" for told in found)
        raise InvalidDocument(f"the digests of {len(found)} plans of {incident.name} begin {prefix}:{named}")
    (told,) = found
    if not told.readable:
        gone = f"plan {told.digest[:12]} of {incident.name} is not kept any more: {told.became}"
        raise Refusal(ExitCode.BAD_INPUT, f"{gone}; {listed} says what is known of it")
    return told, recorded(session, incident.recovery, told.digest)


def plan_of(session: Session, incident: Incident) -> tuple[Shown, Plan]:
    """The plan that its status names, whole and with the digest it says. Raises Refusal if there is none."""
    shown = incident.plan
    if shown is None:
        raise Refusal(ExitCode.BAD_INPUT, f"{incident.name} has no plan yet: {incident.state}: {incident.message}")
    return shown, recorded(session, incident.recovery, shown.digest)


def outcomes(session: Session, incident: Incident) -> Mapping[TopicPartition, PartitionOutcome]:
    """What became of each partition in the waves of all its plans. Raises ApiError, InvalidDocument."""
    meta = incident.recovery.meta
    journal = RecordJournal(Loop(session.api), meta.namespace, meta.name, meta.uid, incident.recovery.cluster_id)
    return {each.id: each for each in asyncio.run(journal.outcomes())}


def led(session: Session, incident: Incident) -> Callable[[TopicPartition], Led | None]:
    """Tells of a partition that it had a leader after its plan was made; None: nobody knows of one.

    A journal that can't be read says nothing, and what is said without it holds before an election and after one.
    """
    recovered = Led() if incident.state == End.RECOVERED else None
    try:
        known = outcomes(session, incident)
    except (ApiError, InvalidDocument):
        known = {}

    def of(id: TopicPartition) -> Led | None:
        found = known.get(id)
        if found is None or found.leader is None:
            return recovered
        return Led(found.leader, found.leader_epoch, found.log_end)

    return of


def recorded(session: Session, recovery: PartitionRecovery, digest: str) -> Plan:
    """A plan from the RecoveryRecords of its journal. Raises InvalidDocument if they hold another, ApiError."""
    meta = recovery.meta
    journal = RecordJournal(Loop(session.api), meta.namespace, meta.name, meta.uid, recovery.cluster_id)
    return asyncio.run(journal.plan(digest))
