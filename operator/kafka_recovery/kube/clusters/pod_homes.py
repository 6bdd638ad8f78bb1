"""Which container a broker's process runs in, as Pods and Nodes say: read into `Home`, or into nothing. Pure.

Anything that is odd makes a broker one that is not seen: several Pods of one id, a Pod that is being stopped, one whose
container is not Ready, one in a virtual machine of its own, volumes that are not known, a node that is not Ready.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.pods import BrokerPod, NodeState
from kafka_recovery.kube.clusters.pod_objects import Object, broker_containers, condition, mapping, pods_of, text
from kafka_recovery.kube.clusters.pod_objects import node_state as state_of
from kafka_recovery.kube.clusters.residences import Home


@dataclass(frozen=True, slots=True)
class Boot:
    """A Node that is Ready: its boot's id, and when its kubelet says that it last wrote its status."""

    id: str
    status_at: str


@dataclass(frozen=True, slots=True)
class Lodging:
    """A broker's Pod that may be a `Home`, once its node is read."""

    pod: str
    node: str
    container: str
    volumes: str

    def at(self, boot: Boot) -> Home:
        """On this boot of its node."""
        return Home(self.pod, self.container, self.volumes, boot.id, boot.status_at)


def lodgings(kafka: str, pods: Sequence[object], claims: Iterable[object] | None) -> Mapping[BrokerId, Lodging]:
    """Of the brokers that have one."""
    told = [each for each in pods_of(kafka, pods, claims) if each.name is not None]
    several = {id for id, count in Counter(each.broker for each in told).items() if count > 1}
    raw = {text(mapping(pod.get("metadata")).get("name")): pod for pod in map(mapping, pods)}
    found = {each.broker: _lodging(each, raw[each.name or ""]) for each in told if each.broker not in several}
    return {id: lodging for id, lodging in found.items() if lodging is not None}


def boot_of(node: object) -> Boot | None:
    """None: it is not Ready, or does not say both."""
    info = mapping(mapping(mapping(node).get("status")).get("nodeInfo"))
    boot, status_at = text(info.get("bootID")), text(condition(mapping(node), "Ready").get("lastHeartbeatTime"))
    return Boot(boot, status_at) if boot and status_at and state_of(node) is NodeState.READY else None


def _lodging(pod: BrokerPod, raw: Object) -> Lodging | None:
    """A runtime class may give the Pod a kernel of its own, which may end while the Pod and the node's boot go on."""
    container = _running(raw)
    volumes = _volumes(pod)
    if mapping(raw.get("spec")).get("runtimeClassName") or not (pod.ready and container and volumes):
        return None
    return Lodging(pod.uid, pod.node, container, volumes) if pod.uid and pod.node else None


def _running(raw: Object) -> str:
    """The id of its container, while that runs."""
    for container in broker_containers(mapping(raw.get("status"))):
        if mapping(container.get("state")).get("running") is not None and container.get("ready") is True:
            return text(container.get("containerID"))
    return ""


def _volumes(pod: BrokerPod) -> str:
    """The claims of its logs, or that they end with the Pod; empty: what they are on is not known."""
    uids = [claim.uid for claim in pod.claims or ()]
    if pod.ephemeral:
        return f"emptyDir of Pod {pod.uid}" if not uids else ""
    return ", ".join(map(str, uids)) if all(uids) else ""
