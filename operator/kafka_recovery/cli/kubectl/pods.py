"""Where the brokers run that are away: Pod, node and volume claims of each, as far as whoever reads may see them.

Of clusters that Strimzi runs. It is what the operator saw for the plan, read once more at this moment. Whoever may edit
the namespace writes what a Pod is named, labelled and given: all of it is shown, and nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from http import HTTPStatus

from rich.console import Group, RenderableType

from kafka_recovery.cli.kubectl.reading import Incident
from kafka_recovery.cli.kubectl.troubles import Session
from kafka_recovery.cli.terminal.render import lines, table
from kafka_recovery.decision.kubectl import Kubectl
from kafka_recovery.decision.moments import began
from kafka_recovery.decision.pods import claims, dangers, node, remedy, state
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.pods import BrokerPod, NodeState
from kafka_recovery.kube.clusters.broker_pods import silent
from kafka_recovery.kube.clusters.pod_objects import node_state, pods_of
from kafka_recovery.kube.clusters.strimzi_objects import BROKER_LABEL, CLUSTER_LABEL
from kafka_recovery.kube.machinery.api import ApiError, NotFound, Object
from kafka_recovery.kube.recoveries.hold_back import named_by


def where_they_run(
    session: Session, incident: Incident, cluster: Object | None, plan: Plan
) -> Iterator[RenderableType]:
    """One line a broker that is away, and below what it says of its disk; nothing where nobody knows its Pods."""
    absent = silent(plan.evidence)
    strimzi = ((cluster or {}).get("spec") or {}).get("strimziRef") or {}
    if not absent or not strimzi.get("name"):
        return
    try:
        found = list(_seen(session, str(strimzi["name"]), absent))
    except ApiError as error:
        named = ", ".join(map(str, sorted(absent)))
        yield lines(f"Where the brokers run that are away ({named}) can't be told: {error.message}", "")
        return
    opened, kubectl = incident.recovery.meta.created_at, reaching(session, incident)
    at = min(opened, began(plan.evidence.partitions) or opened)
    told = [f"Broker {pod.broker}: {each}" for pod in found for each in remedy(pod, at, kubectl)]
    yield Group(
        lines("Where the brokers run that are away, at this moment:"),
        table("Broker", "Pod", "State", "Node", "Volume claims", rows=map(_row, found)),
        lines(*dangers(found, at, kubectl), *told, ""),
    )


def reaching(session: Session, incident: Incident) -> Kubectl:
    """What reaches the same place without this plugin, and what the operator does there by itself."""
    return replace(session.kubectl, held=frozenset(named_by(incident.recovery.status)))


def _seen(session: Session, strimzi: str, brokers: Collection[BrokerId]) -> Iterator[BrokerPod]:
    """Raises ApiError where Pods or claims may not be listed."""
    core, mine = f"/api/v1/namespaces/{session.namespace}", f"{CLUSTER_LABEL}={strimzi}"
    pods = session.api.list_all(f"{core}/pods", {"labelSelector": f"{mine},{BROKER_LABEL}=true"})
    its = session.api.list_all(f"{core}/persistentvolumeclaims", {"labelSelector": mine})
    for pod in pods_of(strimzi, pods, its, of=brokers):
        if pod.broker in brokers:
            yield replace(pod, node_state=_node_state(session, pod.node)) if pod.node else pod


def _node_state(session: Session, name: str) -> NodeState:
    try:
        return node_state(session.api.get(f"/api/v1/nodes/{name}"))
    except NotFound:
        return NodeState.GONE
    except ValueError:  # no name of a node
        return NodeState.UNKNOWN
    except ApiError as error:
        if error.status == HTTPStatus.FORBIDDEN:
            return NodeState.UNKNOWN
        raise


def _row(pod: BrokerPod) -> tuple[object, ...]:
    if pod.name is None:
        return pod.broker, "none", "-", "none", claims(pod)
    return pod.broker, pod.name, state(pod), node(pod) or "none", claims(pod)
