"""Our custom resources: where the API keeps them, and what they say once every field of theirs was checked.

    recovery = read_recovery(await api.get(RECOVERIES.path("kafka", "orders-1")))
    if recovery.abort: ...

Every `read_…` raises InvalidDocument with a line for each problem that names object, field and value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any

from kafka_recovery.cluster.drivers import Driver, Kip1275
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.election import ALL_OFFLINE, Scope
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument, canonical, digest_of_canonical
from kafka_recovery.formats.fields import Model, Problem, checked, checked_as_known, written
from kafka_recovery.formats.policy_file import policy_as_known
from kafka_recovery.kube.resources.fields import (
    ApprovalSpec,
    ClusterSpec,
    Envelope,
    History,
    RecoveryReference,
    RecoverySpec,
    SaslSpec,
    ScopeFields,
    StrimziRef,
)
from kafka_recovery.kube.resources.fields import Word as Word  # part of what a RecoveryApproval says
from kafka_recovery.kube.resources.unknown import NONE, UnknownFields
from kafka_recovery.kube.resources.ways_in import ControllersSpec, TlsSpec, addresses_of, controllers_of, tls_of
from kafka_recovery.recovery.supervision import Authority

GROUP = "kafka-recovery.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

FINALIZER = f"{GROUP}/assignment-order"
"""Stands on a PartitionRecovery only while assignment orders of its plans are altered."""


WATCHED_BY = "watchedBy"
"""The field of a WatchedCluster's status that says where the Lease lies of the operator that watches it."""

FROM_INCIDENT = "fromIncident"
"""The field of a PartitionRecovery's status by which the operator knows those that it opened itself."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of ours, and its paths in the API."""

    kind: str
    plural: str

    def path(self, namespace: str | None, name: str | None = None, sub: str | None = None) -> str:
        """The object's path, or the collection's without a name; `namespace` None: the collection of all namespaces."""
        if name is not None and namespace is None:
            raise ValueError(f"{self.kind} {name}: an object stands in a namespace")
        place = () if namespace is None else ("namespaces", namespace)
        return "/".join(part for part in ("/apis", API_VERSION, *place, self.plural, name, sub) if part is not None)


def collections(kinds: Iterable[Kind], namespaces: Sequence[str]) -> Sequence[str]:
    """Paths of these kinds in each of the namespaces; none: in all of them together."""
    return [kind.path(namespace) for kind in kinds for namespace in (namespaces or (None,))]


CLUSTERS = Kind("WatchedCluster", "watchedclusters")
POLICIES = Kind("RecoveryPolicy", "recoverypolicies")
RECOVERIES = Kind("PartitionRecovery", "partitionrecoveries")
APPROVALS = Kind("RecoveryApproval", "recoveryapprovals")
RANKINGS = Kind("FleetRanking", "fleetrankings")
RECORDS = Kind("RecoveryRecord", "recoveryrecords")
HISTORIES = Kind("ClusterHistory", "clusterhistories")

UNFINISHED = "status.finished!=true"
"""Selects the PartitionRecoveries that are not over (a field selector)."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Which object this is, and which version of it. `deleting_since`: it is gone once its finalizers are."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    created_at: datetime
    deleting_since: datetime | None = None
    finalizers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WatchedCluster:
    """A Kafka cluster, how to get in, and how far the operator may go there. `tls` None: plain text.

    `strimzi`: what stands here instead of addresses, `tls` and `sasl`; those are then read from Strimzi's objects.
    `controllers` None: no election is proven to lose nothing; a Reason: why Strimzi's objects don't lead to them.
    """

    meta: Meta
    cluster_id: str
    bootstrap_servers: tuple[Address, ...]
    tls: TlsSpec | None = None
    sasl: SaslSpec | None = None
    policy_name: str | None = None
    authority: Authority = Authority.OBSERVE
    suspend: bool = False
    history: History = field(default_factory=History)
    strimzi: StrimziRef | None = None
    kip_1275: Kip1275 = field(default_factory=Kip1275)
    controllers: ControllersSpec | Reason | None = None
    unknown: UnknownFields = NONE
    watched_by: tuple[str, str] | None = None
    """Namespace and name of the Lease whose holder watches it, by its status."""
    confirmed: bool = False
    """Whether the Kafka behind it has said that it is the one of `cluster_id`, by its status."""


@dataclass(frozen=True, slots=True)
class RecoveryPolicy:
    """Rules from Git. `digest`: SHA-256 of the policy's canonical JSON; the same rules have the same one.

    `spec`: what it was read from, as far as that is known here.
    """

    meta: Meta
    policy: Policy
    digest: str
    unknown: UnknownFields = NONE
    spec: Mapping[str, Any] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class PartitionRecovery:
    """An incident. `designated`: next leaders that a person named. `status` is as it was read, unchecked.

    `ranking_name`: the FleetRanking whose leaders are designated as well. `attestations`: what people say of brokers.
    """

    meta: Meta
    cluster_name: str
    cluster_id: str
    scope: Scope
    designated: Mapping[TopicPartition, BrokerId] = field(default_factory=dict)
    ranking_name: str | None = None
    attestations: tuple[Attestation, ...] = ()
    suspend: bool = False
    abort: bool = False
    status: Mapping[str, Any] = field(default_factory=dict)
    unknown: UnknownFields = NONE

    @property
    def is_from_incident(self) -> bool:
        """Whether the operator opened it."""
        return self.status.get(FROM_INCIDENT) is True


@dataclass(frozen=True, slots=True)
class RecoveryApproval:
    """What a person said about one plan of one recovery. `max_loss_class`: the worst loss that was agreed to."""

    meta: Meta
    recovery_name: str
    recovery_uid: str
    plan_digest: str
    decision: Word
    approver: str
    max_loss_class: LossClass | None = None
    reason: str = ""
    answered: bool = False
    """Whether its status says already if it counts."""
    unknown: UnknownFields = NONE


@dataclass(frozen=True, slots=True)
class UnreadableApproval:
    """One that says yes and can't be read: it alone counts for nothing. `recovery_uid`: of which it may be."""

    meta: Meta
    why: str
    recovery_uid: str = ""
    answered: bool = False


def strictest(*authorities: Authority) -> Authority:
    """What holds where several have a say."""
    return min(authorities, key=list(Authority).index)


def read_cluster(obj: object) -> WatchedCluster:
    """A WatchedCluster from an object of the API."""
    meta, envelope, name = unwrapped(obj, CLUSTERS)
    spec, unknown = checked_spec(ClusterSpec, envelope, name)
    return WatchedCluster(
        meta,
        cluster_id=spec.cluster_id,
        bootstrap_servers=addresses_of(spec.bootstrap_servers or ()),
        strimzi=spec.strimzi_ref,
        tls=tls_of(spec.tls),
        sasl=spec.sasl,
        policy_name=spec.policy_ref.name if spec.policy_ref else None,
        authority=spec.authority or Authority.OBSERVE,
        suspend=bool(spec.suspend),
        kip_1275=Kip1275(spec.driver or Driver.AUTO, spec.replica_log_info_api_key),
        history=spec.history,
        controllers=controllers_of(spec.controllers) if spec.controllers else None,
        unknown=unknown,
        watched_by=watched_by(envelope.status),
        confirmed=(envelope.status or {}).get("clusterId") == spec.cluster_id,
    )


def watched_by(status: object) -> tuple[str, str] | None:
    """Namespace and name of the Lease whose holder watches a WatchedCluster; None: nobody's, as far as can be read."""
    told = status.get(WATCHED_BY) if isinstance(status, Mapping) else None
    place = told if isinstance(told, Mapping) else {}
    namespace, name = place.get("namespace"), place.get("name")
    return (namespace, name) if isinstance(namespace, str) and isinstance(name, str) else None


def read_policy(obj: object) -> RecoveryPolicy:
    """A RecoveryPolicy from an object of the API; its spec is checked as policy files are, but for unknown fields."""
    meta, envelope, name = unwrapped(obj, POLICIES)
    policy, spec, found = policy_as_known(envelope.spec, name, ("spec",))
    return RecoveryPolicy(meta, policy, digest_of_canonical(canonical(policy)), UnknownFields.of(found), spec)


def read_recovery(obj: object) -> PartitionRecovery:
    """A PartitionRecovery from an object of the API."""
    meta, envelope, name = unwrapped(obj, RECOVERIES)
    spec, unknown = checked_spec(RecoverySpec, envelope, name)
    scope, designated = _scope(spec.scope, name)
    return PartitionRecovery(
        meta,
        cluster_name=spec.cluster_ref.name,
        cluster_id=spec.cluster_id,
        scope=scope,
        designated=designated,
        ranking_name=spec.ranking_ref.name if spec.ranking_ref else None,
        attestations=tuple(each.read() for each in sorted(spec.attestations or (), key=attrgetter("broker"))),
        suspend=bool(spec.suspend),
        abort=bool(spec.abort),
        status=envelope.status or {},
        unknown=unknown,
    )


def read_approval(obj: object) -> RecoveryApproval:
    """A RecoveryApproval from an object of the API."""
    meta, envelope, name = unwrapped(obj, APPROVALS)
    spec, unknown = checked_spec(ApprovalSpec, envelope, name)
    return RecoveryApproval(
        meta,
        recovery_name=spec.recovery_ref.name,
        recovery_uid=spec.recovery_ref.uid,
        plan_digest=spec.plan_digest,
        decision=spec.decision,
        approver=spec.approver,
        max_loss_class=spec.max_loss_class,
        reason=spec.reason or "",
        answered=_is_answered(envelope),
        unknown=unknown,
    )


def heard(obj: object) -> RecoveryApproval | UnreadableApproval:
    """An approval from an object of the API, whatever it says. Raises InvalidDocument if it is no object at all.

    Who says no is heard also where the rest can't be read: to stop is always safe.
    """
    try:
        return read_approval(obj)
    except InvalidDocument as why:
        meta, envelope, _ = unwrapped(obj, APPROVALS)
        spec = envelope.spec if isinstance(envelope.spec, Mapping) else {}
        of, _ = checked(RecoveryReference, spec.get("recoveryRef"))
        if of and spec.get("decision") == Word.REFUSE:
            by = str(spec.get("approver") or "an approver")
            return RecoveryApproval(meta, of.name, of.uid, "", Word.REFUSE, by, answered=_is_answered(envelope))
        return UnreadableApproval(meta, str(why), of.uid if of else "", _is_answered(envelope))


def _is_answered(envelope: Envelope) -> bool:
    return bool((envelope.status or {}).get("conditions"))


def unwrapped(obj: object, kind: Kind) -> tuple[Meta, Envelope, str]:
    """Who an object of the API is, what it holds, and what messages call it. Raises InvalidDocument."""
    name = f"{kind.kind} {_called(obj)}"
    envelope, problems = checked(Envelope, obj)
    for seen, right, where in _written_kind(envelope, kind):
        if seen not in (None, right):
            problems.append(((where,), f"is {seen!r}; a {kind.kind} is {right!r}"))
    if envelope is None or problems:
        raise _refusal(name, problems)
    metadata = envelope.metadata
    meta = Meta(
        metadata.namespace,
        metadata.name,
        metadata.uid,
        metadata.generation,
        metadata.resource_version,
        metadata.creation_timestamp,
        metadata.deletion_timestamp,
        tuple(metadata.finalizers),
    )
    return meta, envelope, name


def _written_kind(envelope: Envelope | None, kind: Kind) -> Sequence[tuple[str | None, str, str]]:
    if envelope is None:
        return ()
    return (envelope.api_version, API_VERSION, "apiVersion"), (envelope.kind, kind.kind, "kind")


def _called(obj: object) -> str:
    """Namespace and name as far as they can be read: what is wrong may be these."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    parts = [metadata.get(part) for part in ("namespace", "name")] if isinstance(metadata, Mapping) else []
    sound = [part for part in parts if isinstance(part, str) and re.fullmatch(r"[a-z0-9.-]{1,253}", part)]
    return "/".join(sound) or "without a name"


def checked_spec(model: type[Model], envelope: Envelope, name: str) -> tuple[Model, UnknownFields]:
    """The spec by its model, and what stands there besides. Raises InvalidDocument with a line for each problem."""
    spec, problems, found = checked_as_known(model, envelope.spec, ("spec",))
    if spec is None:
        raise _refusal(name, problems)
    return spec, UnknownFields.of(found)


def _refusal(name: str, problems: Sequence[Problem]) -> InvalidDocument:
    return InvalidDocument("\n".join(f"{name}: {written(path)}: {problem}" for path, problem in problems))


def _scope(fields: ScopeFields, name: str) -> tuple[Scope, dict[TopicPartition, BrokerId]]:
    if not fields.partitions:
        return ALL_OFFLINE, {}
    first: dict[TopicPartition, int] = {}
    designated: dict[TopicPartition, BrokerId] = {}
    problems: list[Problem] = []
    for index, entry in enumerate(fields.partitions):
        id = TopicPartition(entry.topic, entry.partition)
        if first.setdefault(id, index) != index:
            # The schema can't say it: uniqueness of so many entries costs more than the API server grants a rule.
            problem = f"{id} is named twice, first at spec.scope.partitions[{first[id]}]"
            problems.append((("spec", "scope", "partitions", index), problem))
        if entry.designated_leader is not None:
            designated[id] = BrokerId(entry.designated_leader)
    if problems:
        raise _refusal(name, problems)
    return Scope(tuple(first)), designated
