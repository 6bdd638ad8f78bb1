"""What keeps a WatchedCluster from being opened, and what has to be known before it is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Self

from kafka_recovery.cluster.errors import InvalidConfiguration
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.cant_open import CantOpen
from kafka_recovery.kube.clusters.same_kafka import SameKafka
from kafka_recovery.kube.journal.shown_plans import Named
from kafka_recovery.kube.machinery.api import Api, ApiError, Object
from kafka_recovery.kube.resources.kinds import FINALIZER, RECOVERIES, WatchedCluster, read_recovery
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.watching.outages import Outage, outages_left

NOT_OPEN = (InvalidDocument, CantOpen, InvalidConfiguration)
"""Each has a reason that a person has to mend, or that passes."""


def why_not_open(problem: Exception) -> Reason:
    """Why a cluster can't be opened. Raises what is over by itself: an API server that does not answer now."""
    if isinstance(problem, InvalidDocument):
        return Reason("InvalidSpec", str(problem))
    if isinstance(problem, CantOpen | InvalidConfiguration):
        return problem.reason
    if isinstance(problem, ApiError) and problem.status == HTTPStatus.FORBIDDEN:
        return Reason("Forbidden", f"the operator lacks a right here, see manifests/rbac: {problem.message}")
    if isinstance(problem, ApiError) and problem.status == HTTPStatus.BAD_REQUEST:
        return Reason(
            "ApiMissing", f"the API server refuses the operator's request ({problem.message}): are the CRDs older?"
        )
    raise problem


@dataclass(frozen=True, slots=True)
class Earlier:
    """What counts of a recovery that is there before its cluster is opened; its partitions may be 20,000.

    `may_have_altered` orders: our finalizer alone does not say so, for whoever may create recoveries can write it. The
    status that names what was begun is the operator's. `will_be_taken_up` by the cluster that is opened: one with an
    invalid spec has no partitions, and holds nobody back. `left`: what it left without a leader.
    """

    key: Key
    cluster: Key
    created_at: datetime
    may_have_altered: bool
    will_be_taken_up: bool
    left: frozenset[Outage]

    @classmethod
    def of(cls, recovery: Object, opened: Key) -> Self:
        """From the object; to read all of its partitions takes a while, so only those of the cluster `opened` are."""
        meta, spec, status = recovery["metadata"], recovery["spec"], recovery.get("status", {})
        begun = FINALIZER in meta.get("finalizers", ()) and Named.by(status, meta["uid"]).begun
        is_open = not status.get("finished")
        cluster = meta["namespace"], spec["clusterRef"]["name"]
        return cls(
            key=(meta["namespace"], meta["name"]),
            cluster=cluster,
            created_at=datetime.fromisoformat(meta["creationTimestamp"]),
            may_have_altered=is_open and bool(begun),
            will_be_taken_up=is_open and cluster == opened and _is_readable(recovery),
            left=outages_left(status),
        )

    def name_in(self, namespace: str) -> str:
        """What it is called there: one of another namespace by both of its names."""
        return self.key[1] if self.key[0] == namespace else "/".join(self.key)


async def earlier_recoveries(api: Api, opened: WatchedCluster, namespaces: Collection[str]) -> list[Earlier]:
    """Recoveries of a Kafka, whichever WatchedCluster they name: the open ones, and those that left something."""
    key = opened.meta.namespace, opened.meta.name

    def kept(recovery: Object) -> Earlier | None:
        return Earlier.of(recovery, key) if recovery["spec"]["clusterId"] == opened.cluster_id else None

    found: list[Earlier | None] = []
    for namespace in sorted(namespaces):
        params = {"fieldSelector": "status.outcome!=Recovered"}
        found += await api.list_kept(RECOVERIES.path(namespace), kept, params=params)
    return [each for each in found if each is not None]


def untaken_of(key: Key, recoveries: Sequence[Earlier]) -> dict[str, datetime]:
    """The open ones of this WatchedCluster, by when they were made.

    Raises CantOpen while one of another WatchedCluster of the same Kafka may have altered orders: a plan made
    here would take them for the original ones.
    """
    for each in recoveries:
        if each.cluster != key and each.may_have_altered:
            name = f"PartitionRecovery {'/'.join(each.key)} of WatchedCluster {each.cluster[1]}"
            message = f"{name}, which has the same clusterId, may have altered orders"
            raise CantOpen(
                "DuplicateCluster", f"{message}: let that one act until it has ended, or delete the recovery"
            )
    return {each.key[1]: each.created_at for each in recoveries if each.will_be_taken_up}


def begun_of(key: Key, recoveries: Sequence[Earlier]) -> frozenset[str]:
    """The open ones of this WatchedCluster that may have altered orders."""
    return frozenset(each.key[1] for each in recoveries if each.cluster == key and each.may_have_altered)


def _is_readable(recovery: Object) -> bool:
    try:
        read_recovery(recovery)
    except InvalidDocument:
        return False
    return True


def why_only_restores(spec: WatchedCluster, same: SameKafka) -> Reason | None:
    """Why nothing more is begun with a cluster: it is being deleted, or one of several that nobody has confirmed."""
    if spec.meta.deleting_since is None:
        return same.only_looks((spec.meta.namespace, spec.meta.name))
    return Reason("WatchedClusterDeleted", "it is being deleted: altered orders are restored, no more")
