"""Recoveries as they stand in the API, their plans from the journal, and whom they wait for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_recovery.cli.kubectl.access import Loop, sound_name
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.running import Refusal
from kafka_recovery.cli.terminal.text import complain
from kafka_recovery.decision.returns import Led
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, RECOVERIES, Kind, PartitionRecovery, read_recovery

OBSERVE_ONLY = "ObserveOnly"
"""The reason of a plan that waits, but not for its approval: the operator may only look."""
DUPLICATE = "DuplicateCluster"
"""The reason of whatever belongs to a WatchedCluster that does not act, because another one has its Kafka."""
SUSPENDED = "Suspended"
"""The reason of whatever is stopped: a recovery, its cluster, or the whole operator."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a status says about its plan: what a person approves, and until when. `expires_at` None: it does not say."""

    digest: str
    expires_at: datetime | None
    needs_approval: bool


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
        digest, expires = plan.get("digest"), plan.get("expiresAt")
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            return None
        return Shown(digest, datetime.fromisoformat(expires) if expires else None, bool(plan.get("needsApproval")))

    def condition(self, kind: str) -> Mapping[str, Any]:
        """One of its conditions; empty if it is not there."""
        conditions: Sequence[Mapping[str, Any]] = self.recovery.status.get("conditions") or ()
        return next((each for each in conditions if each.get("type") == kind), {})

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


def waits_for(incident: Incident, suspended_clusters: Mapping[str, bool]) -> str:
    """Who has to do something next; a dash: nobody."""
    recovery = incident.recovery
    if incident.finished:
        return "-"
    if recovery.abort or recovery.meta.deleting_since:
        altered = FINALIZER in recovery.meta.finalizers
        return "operator, to restore assignment orders" if altered else "operator, to end it"
    if recovery.suspend:
        return "you, to resume it"
    if suspended_clusters.get(recovery.cluster_name):
        return f"you, to resume cluster {recovery.cluster_name}"
    if incident.state == SUSPENDED:
        return "you, to resume the operator"
    if incident.state == DUPLICATE:
        return "you, to delete one of two WatchedClusters"
    if incident.asks and incident.state == OBSERVE_ONLY:
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


def incidents(session: Session) -> list[Incident]:
    """The namespace's recoveries, the youngest first. One that can't be understood is complained of and left out."""
    found = []
    for each in session.api.list_all(RECOVERIES.path(session.namespace)):
        try:
            found.append(Incident(read_recovery(each), each))
        except InvalidDocument as error:
            complain(str(error))
    return sorted(found, key=lambda each: (each.recovery.meta.created_at, each.name), reverse=True)


def clusters(session: Session) -> list[Object]:
    """The namespace's clusters, by name."""
    found = session.api.list_all(CLUSTERS.path(session.namespace))
    return sorted(found, key=lambda each: str(each["metadata"]["name"]))


def plan_of(session: Session, incident: Incident) -> tuple[Shown, Plan]:
    """The plan that its status names, whole and with the digest it says. Raises Refusal if there is none."""
    shown = incident.plan
    if shown is None:
        raise Refusal(ExitCode.BAD_INPUT, f"{incident.name} has no plan yet: {incident.state}: {incident.message}")
    return shown, recorded(session, incident.recovery, shown.digest)


def led(session: Session, incident: Incident) -> Callable[[TopicPartition], Led | None]:
    """Tells of a partition that it had a leader after its plan was made; None: nobody knows of one.

    A journal that can't be read says nothing, and what is said without it holds before an election and after one.
    """
    recovery, recovered = incident.recovery, Led() if incident.state == End.RECOVERED else None
    meta = recovery.meta
    journal = RecordJournal(Loop(session.api), meta.namespace, meta.name, meta.uid, recovery.cluster_id)
    try:
        outcomes = {each.id: each for each in asyncio.run(journal.outcomes())}
    except (ApiError, InvalidDocument):
        outcomes = {}

    def of(id: TopicPartition) -> Led | None:
        found = outcomes.get(id)
        if found is None or found.leader is None:
            return recovered
        return Led(found.leader, found.leader_epoch, found.log_end)

    return of


def recorded(session: Session, recovery: PartitionRecovery, digest: str) -> Plan:
    """A plan from the RecoveryRecords of its journal. Raises InvalidDocument if they hold another, ApiError."""
    meta = recovery.meta
    journal = RecordJournal(Loop(session.api), meta.namespace, meta.name, meta.uid, recovery.cluster_id)
    return asyncio.run(journal.plan(digest))
