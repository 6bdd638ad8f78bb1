"""What keeps a WatchedCluster from being opened, and what has to be known before it is."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from http import HTTPStatus

from kafka_recovery.cluster.errors import InvalidConfiguration
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.cant_open import CantOpen
from kafka_recovery.kube.journal.shown_plans import Named
from kafka_recovery.kube.machinery.api import ApiError, Object
from kafka_recovery.kube.resources.kinds import FINALIZER, WatchedCluster, read_recovery
from kafka_recovery.kube.resources.objects import Key

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
            "ApiRequestRejected",
            f"the API server refuses the operator's request ({problem.message}): are the CRDs older?",
        )
    raise problem


def untaken_of(key: Key, recoveries: Iterable[Object]) -> dict[str, datetime]:
    """The open ones of this WatchedCluster, by when they were made.

    Raises CantOpen while one of another WatchedCluster of the same Kafka may have altered orders: a plan made
    here would take them for the original ones. Our finalizer alone does not say so: whoever may create recoveries can
    write it. The status that names what was begun is the operator's.
    """
    ours: dict[str, datetime] = {}
    for each in recoveries:
        meta = each["metadata"]
        of = meta["namespace"], each["spec"]["clusterRef"]["name"]
        if each.get("status", {}).get("finished"):
            continue
        if of == key and _is_readable(each):
            ours[meta["name"]] = datetime.fromisoformat(meta["creationTimestamp"])
        elif of != key and _may_have_altered(each):
            name = f"PartitionRecovery {meta['namespace']}/{meta['name']}"
            message = f"{name} of WatchedCluster {of[1]}, which has the same clusterId, may have altered orders"
            raise CantOpen(
                "DuplicateCluster", f"{message}: let that one act until it has ended, or delete the recovery"
            )
    return ours


def begun_of(key: Key, recoveries: Iterable[Object]) -> frozenset[str]:
    """The open ones of this WatchedCluster that may have altered orders."""
    mine = [each for each in recoveries if (each["metadata"]["namespace"], each["spec"]["clusterRef"]["name"]) == key]
    return frozenset(each["metadata"]["name"] for each in mine if _may_have_altered(each))


def _may_have_altered(recovery: Object) -> bool:
    meta, status = recovery["metadata"], recovery.get("status", {})
    begun = FINALIZER in meta.get("finalizers", ()) and Named.by(status, meta["uid"]).begun
    return bool(begun) and not status.get("finished")


def _is_readable(recovery: Object) -> bool:
    """Whether it will ever be taken up: one with an invalid spec has no partitions, and holds nobody back."""
    try:
        read_recovery(recovery)
    except InvalidDocument:
        return False
    return True


def why_only_restores(spec: WatchedCluster) -> Reason | None:
    """Why nothing more is begun with a cluster that is being deleted."""
    if spec.meta.deleting_since is None:
        return None
    return Reason("WatchedClusterDeleted", "it is being deleted: altered orders are restored, no more")
