"""Why nothing happens to a recovery for now, whatever a person says about its plan."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from kafka_recovery.cli.kubectl.access import Loop
from kafka_recovery.cli.kubectl.reading import SUSPENDED, Incident
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.kube.machinery.api import ApiError, NotFound
from kafka_recovery.kube.recoveries.status import OBSERVE_ONLY
from kafka_recovery.kube.resources.kinds import CLUSTERS
from kafka_recovery.kube.resources.operator_switch import SWITCH, read_switch
from kafka_recovery.recovery.supervision import Authority


def stops(session: Session, incident: Incident) -> list[str]:
    """Who has stopped it, and how it is let go on; what of this the person may not read is left out."""
    cluster, found = incident.recovery.cluster_name, []
    if incident.recovery.suspend:
        found.append(f"{incident.name} is suspended; {_unsuspend(session, incident.name)}")
    spec = _cluster_spec(session, cluster)
    if spec is None:
        found.append(f"there is no WatchedCluster {cluster}; create it")
    elif spec.get("suspend"):
        found.append(f"cluster {cluster} is suspended; {_unsuspend(session, f'--cluster {cluster}')}")
    if _switch_is_suspended(session):
        found.append(f"the operator of namespace {session.namespace} is suspended; {_unsuspend(session, '--operator')}")
    if not found and incident.state == SUSPENDED:
        found.append(f"it is suspended: {incident.message}")
    return found


def bounds(session: Session, incident: Incident) -> list[str]:
    """Why a yes alone elects nobody, though nothing is suspended."""
    if cluster_observes(session, incident):
        return [f"authority of cluster {incident.recovery.cluster_name} is Observe; raise its spec.authority"]
    if incident.state == OBSERVE_ONLY:
        return ["authority of the operator is Observe; raise its --authority"]
    return []


def cluster_observes(session: Session, incident: Incident) -> bool:
    """Whether the recovery's cluster is only observed, whatever the operator may do."""
    spec = _cluster_spec(session, incident.recovery.cluster_name)
    return spec is not None and spec.get("authority", Authority.OBSERVE) == Authority.OBSERVE


def policy_of(session: Session, incident: Incident) -> str:
    """The name of the RecoveryPolicy that its cluster goes by; empty: it can't be read."""
    spec = _cluster_spec(session, incident.recovery.cluster_name) or {}
    return str((spec.get("policyRef") or {}).get("name") or "")


def _unsuspend(session: Session, what: str) -> str:
    return f"to let it go on: {session.command(f'unsuspend {what}')}"


def _cluster_spec(session: Session, name: str) -> dict[str, Any] | None:
    """None: there is no such cluster. One that may not be read says nothing against anything."""
    try:
        spec: dict[str, Any] = session.api.get(CLUSTERS.path(session.namespace, name)).get("spec") or {}
    except NotFound:
        return None
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return {"authority": str(Authority.APPROVE)}
    return spec


def _switch_is_suspended(session: Session) -> bool:
    """Of the operator beside the recovery; one that runs elsewhere tells in the recovery's status."""
    try:
        switch = asyncio.run(read_switch(Loop(session.api), (session.namespace, SWITCH), Authority.AUTOMATIC))
    except ApiError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return False
    return switch.suspended is not None
