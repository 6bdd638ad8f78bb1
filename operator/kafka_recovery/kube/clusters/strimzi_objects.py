"""What Strimzi's objects and the Pods of its brokers say, as far as we go by it. Pure.

Read from Strimzi's definitions and code of 1.2 (kafka.strimzi.io/v1; v1beta2 of 0.49 and before has the same fields).
The API server has checked them against their schema; what is no part of the models here is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from kafka_recovery.cluster.security import Mechanism
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.formats.fields import Model, checked, written
from kafka_recovery.kube.clusters.cant_open import CantOpen
from kafka_recovery.kube.resources.fields import CertificateSecret, SaslSpec, SecretKey, StrimziRef
from kafka_recovery.kube.resources.kinds import WatchedCluster
from kafka_recovery.kube.resources.ways_in import Certificates, TlsSpec
from kafka_recovery.kube.watching.waits import LONGEST_WAIT, STRIMZI_AT_WORK, Waits

CLUSTER_LABEL = "strimzi.io/cluster"
KIND_LABEL = "strimzi.io/kind"
BROKER_LABEL = "strimzi.io/broker-role"
CONTROLLER_LABEL = "strimzi.io/controller-role"

OVERDUE = timedelta(seconds=30)
"""A Pod that is deleted is gone at its deletionTimestamp; one that is still there so long after has no kubelet."""

_LOST = frozenset({"DeletionByTaintManager", "DeletionByPodGC"})
"""Reasons of a Pod's condition DisruptionTarget: its node is lost, so nobody stops it in good order."""

_INSIDE = ("internal", "cluster-ip")
"""Types of listeners for clients in the same Kubernetes cluster."""

USER_WHERE = "spec.strimziRef.user"


class StrimziPending(CantOpen):
    """What Strimzi has does not lead into the cluster for the moment.

    The status of a Kafka has no addresses before a reconciliation got so far.
    A later one that fails early takes them away again (seen in KafkaAssemblyOperator), just when Kafka is sick.
    """


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _Metadata(_Part):
    name: str
    labels: dict[str, str] = {}
    creation_timestamp: AwareDatetime | None = None
    deletion_timestamp: AwareDatetime | None = None


class _Condition(_Part):
    type: str = ""
    status: str = ""
    reason: str | None = None


class _Conditions(_Part):
    conditions: list[_Condition] = []

    def holding(self, type: str) -> _Condition | None:
        return next((each for each in self.conditions if each.type == type and each.status == "True"), None)


class _Authentication(_Part):
    type: str


class _Listener(_Part):
    name: str
    type: str
    tls: bool = False
    authentication: _Authentication | None = None


class _Brokers(_Part):
    listeners: list[_Listener] = []


class _KafkaSpec(_Part):
    kafka: _Brokers


class _Reachable(_Part):
    name: str | None = None
    bootstrap_servers: str | None = None
    certificates: list[str] | None = None


class _KafkaStatus(_Part):
    listeners: list[_Reachable] | None = None
    cluster_id: str | None = None


class _Kafka(_Part):
    spec: _KafkaSpec
    status: _KafkaStatus = _KafkaStatus()


class _Rebalance(_Part):
    metadata: _Metadata
    status: _Conditions = _Conditions()


class _Roles(_Part):
    roles: list[str] = []


class _Nodes(_Part):
    node_ids: list[int] | None = None


class _Pool(_Part):
    metadata: _Metadata
    spec: _Roles = _Roles()
    status: _Nodes = _Nodes()


class _Container(_Part):
    restart_count: int = 0


class _PodStatus(_Conditions):
    phase: str = ""
    container_statuses: list[_Container] = []


class _Pod(_Part):
    metadata: _Metadata
    status: _PodStatus = _PodStatus()


# The way in


def way_in(kafka: object, ref: StrimziRef, cluster: WatchedCluster) -> WatchedCluster:
    """The cluster with addresses, CAs and credentials as `spec.strimziRef` and a Kafka object give them.

    Raises CantOpen, InvalidDocument.
    """
    read = _read(_Kafka, kafka, f"Kafka {ref.name}")
    if read.status.cluster_id not in (None, cluster.cluster_id):
        message = f"Kafka {ref.name} has cluster id {read.status.cluster_id}, and spec.clusterId is"
        raise CantOpen("ClusterIdMismatch", f"{message} {cluster.cluster_id}")
    listener = _listener(read.spec.kafka.listeners, ref)
    certificate, sasl = _credentials(listener, ref)
    seen = next((each for each in read.status.listeners or () if each.name == listener.name), _Reachable())
    if not seen.bootstrap_servers:
        message = f"the status of Kafka {ref.name} has no address of listener {listener.name} yet: Strimzi is at it"
        raise StrimziPending("StrimziPending", f"{message}, or could not; see the conditions of the Kafka")
    tls = _tls(listener, seen, ref)
    return replace(
        cluster,
        bootstrap_servers=_addresses(seen.bootstrap_servers, ref),
        tls=replace(tls, certificate=certificate) if tls else None,
        sasl=sasl,
    )


def check_owner(secret: Mapping[str, object], ref: StrimziRef) -> None:
    """Whether a Secret is what Strimzi keeps for a user of just this Kafka: it is sent nowhere else.

    Raises CantOpen. The User Operator labels it so, whatever a KafkaUser's template says.
    """
    metadata = secret.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, Mapping) else None
    said = (labels.get(KIND_LABEL), labels.get(CLUSTER_LABEL)) if isinstance(labels, Mapping) else (None, None)
    if said != ("KafkaUser", ref.name):
        message = f"{USER_WHERE}: Secret {ref.user} is not that of a KafkaUser of Kafka {ref.name}"
        raise CantOpen("InvalidReference", f"{message} (labels {KIND_LABEL} and {CLUSTER_LABEL} say whose it is)")


def _listener(listeners: Iterable[_Listener], ref: StrimziRef) -> _Listener:
    by_name = {each.name: each for each in listeners}
    inside = [each for each in by_name.values() if each.type in _INSIDE]
    if ref.listener:
        found = by_name.get(ref.listener)
    else:
        found = next((each for each in inside if each.name == "tls"), next(iter(inside), None))
    if found is None:
        wanted = f"listener {ref.listener}" if ref.listener else "listener for clients inside Kubernetes"
        message = f"Kafka {ref.name} has no {wanted}; spec.strimziRef.listener may be {' or '.join(by_name) or 'none'}"
        raise CantOpen("InvalidReference", message)
    return found


def _addresses(servers: str, ref: StrimziRef) -> tuple[Address, ...]:
    try:
        return tuple(Address.parse(each) for each in servers.split(","))
    except ValueError as error:
        raise InvalidDocument(f"Kafka {ref.name}: status.listeners: {error}") from error


def _tls(listener: _Listener, seen: _Reachable, ref: StrimziRef) -> TlsSpec | None:
    if not listener.tls:
        return None
    source = f"status of Kafka {ref.name}, listener {listener.name}"
    return TlsSpec(Certificates("\n".join(seen.certificates), source) if seen.certificates else None)


def _credentials(listener: _Listener, ref: StrimziRef) -> tuple[CertificateSecret | None, SaslSpec | None]:
    """What the listener asks for and the user has. The keys are those of the Secrets of Strimzi's User Operator."""
    asked = listener.authentication.type if listener.authentication else None
    if asked not in (None, "tls", "scram-sha-512"):
        message = f"listener {listener.name} asks for {asked} authentication, for which a KafkaUser has nothing"
        raise CantOpen("InvalidReference", f"{message}; use another one, or bootstrapServers with tls and sasl")
    if (asked is None) != (ref.user is None):
        wish = f"asks for {asked} authentication: name a KafkaUser" if asked else "asks nobody who comes: leave it out"
        raise CantOpen("InvalidReference", f"{USER_WHERE}: listener {listener.name} {wish}")
    if asked is None or ref.user is None:
        return None, None
    if asked == "tls":
        return CertificateSecret(name=ref.user, certKey="user.crt", keyKey="user.key"), None
    password = SecretKey(name=ref.user, key="password")
    return None, SaslSpec(mechanism=Mechanism.SCRAM_SHA_512, username=ref.user, passwordSecretRef=password)


# Who is at work


def at_work(pods: Iterable[object], pools: Iterable[object], rebalances: Iterable[object], now: datetime) -> Waits:
    """What goes on in a cluster: `pods` of its brokers, its node pools, its KafkaRebalances. Raises InvalidDocument.

    A roll is seen by its Pods: Strimzi deletes one, and its StrimziPodSet makes it anew. The Kafka says nothing of it,
    since its status is written at the end of a reconciliation only (strimzi/strimzi-kafka-operator#12575).
    """
    known = {broker: pod for each in pods if (broker := _broker(pod := _read(_Pod, each, "Pod"))) is not None}
    restarting = {
        broker: _rolls(f"Pod {pod.metadata.name} of broker {broker} {what}")
        for broker, pod in known.items()
        if (what := _restarting(pod, now))
    }
    for _, node in nodes_with("broker", pools):
        if node not in known:
            restarting[node] = _rolls(f"broker {node} has no Pod at the moment")
    moving = [
        read.metadata.name
        for each in rebalances
        if (read := _read(_Rebalance, each, "KafkaRebalance")).status.holding("Rebalancing")
    ]
    message = f"KafkaRebalance {min(moving)} moves partitions" if moving else ""
    return Waits(restarting, Reason(STRIMZI_AT_WORK, message) if moving else None)


def _restarting(pod: _Pod, now: datetime) -> str | None:
    """What happens to a Pod whose broker comes back by itself; None: it is well, or not known to come back.

    A container that ended and was started again in the same Pod is a crash, not a roll.
    """
    meta, status = pod.metadata, pod.status
    if meta.deletion_timestamp is not None:
        disruption = status.holding("DisruptionTarget")
        lost = disruption is not None and disruption.reason in _LOST
        return None if lost or now > meta.deletion_timestamp + OVERDUE else "is being stopped"
    if status.phase in ("Succeeded", "Failed"):
        return "has ended, and is made again"
    crashed = any(container.restart_count for container in status.container_statuses)
    young = meta.creation_timestamp is not None and now - meta.creation_timestamp <= LONGEST_WAIT
    return "is starting" if young and not crashed and not status.holding("Ready") else None


def _rolls(message: str) -> Reason:
    return Reason(STRIMZI_AT_WORK, message)


def _broker(pod: _Pod) -> BrokerId | None:
    """Strimzi names Pods `<cluster>-<pool>-<node id>`."""
    number = re.search(r"-([0-9]{1,9})$", pod.metadata.name)
    return BrokerId(int(number[1])) if number and pod.metadata.labels.get(BROKER_LABEL) == "true" else None


def nodes_with(role: str, pools: Iterable[object]) -> Iterator[tuple[str, BrokerId]]:
    """The nodes with this role of these KafkaNodePools, each with its pool's name. Raises InvalidDocument."""
    for each in pools:
        pool = _read(_Pool, each, "KafkaNodePool")
        if role in pool.spec.roles:
            yield from ((pool.metadata.name, BrokerId(node)) for node in pool.status.node_ids or ())


def _read(model: type[Model], obj: object, name: str) -> Model:
    read, problems = checked(model, obj)
    if read is None:
        raise InvalidDocument("\n".join(f"{name}: {written(path)}: {problem}" for path, problem in problems))
    return read
