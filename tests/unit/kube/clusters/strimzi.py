"""Objects as Strimzi 1.2 writes them, with the fields that we go by."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

Object = dict[str, Any]

GROUP = "kafka.strimzi.io"
NOON = "2026-11-21T12:00:00Z"
CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

PLAIN: Object = {"name": "plain", "port": 9092, "type": "internal", "tls": False}
TLS: Object = {"name": "tls", "port": 9093, "type": "internal", "tls": True, "authentication": {"type": "tls"}}
SCRAM: Object = {
    "name": "scram",
    "port": 9094,
    "type": "internal",
    "tls": True,
    "authentication": {"type": "scram-sha-512"},
}
OUTSIDE: Object = {"name": "external", "port": 9095, "type": "loadbalancer", "tls": True}


def kafka(*listeners: Object, name: str = "prod", version: str = "v1", cluster_id: str | None = "abc") -> Object:
    """A Kafka that is up: its status has the address of each listener."""
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Kafka",
        "metadata": {"name": name},
        "spec": {"kafka": {"version": "4.1.0", "listeners": list(listeners)}},
        "status": kafka_status({each["name"]: _address(each, name) for each in listeners}, listeners, cluster_id),
    }


def kafka_status(
    addresses: Mapping[str, str], listeners: Sequence[Object], cluster_id: str | None, ca: str = CA
) -> Object:
    status: Object = {
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": NOON}],
        "observedGeneration": 1,
        "listeners": [_reachable(each, addresses[each["name"]], ca) for each in listeners],
        "kafkaVersion": "4.1.0",
    }
    return status | ({"clusterId": cluster_id} if cluster_id else {})


def in_trouble(obj: Object) -> Object:
    """The same after a reconciliation that failed before it came to the listeners."""
    failed = {"type": "NotReady", "status": "True", "reason": "FatalProblem", "message": "Pod prod-brokers-1 ..."}
    kept = {key: value for key, value in obj["status"].items() if key != "listeners"}
    return obj | {"status": kept | {"conditions": [failed]}}


def secret(name: str, **data: str) -> Object:
    """A Secret with these texts."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "data": encoded}


def user_secret(name: str = "kafka-recovery", cluster: str = "prod", **data: str) -> Object:
    """What the User Operator keeps for a KafkaUser."""
    labels = {
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/managed-by": "strimzi-user-operator",
        "strimzi.io/cluster": cluster,
        "strimzi.io/kind": "KafkaUser",
    }
    return secret(name, **data) | {"metadata": {"name": name, "labels": labels}}


def pool(*ids: int, cluster: str = "prod", name: str = "brokers", roles: Sequence[str] = ("broker",)) -> Object:
    """A KafkaNodePool whose nodes have got their ids."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "KafkaNodePool",
        "metadata": {"name": name, "labels": {"strimzi.io/cluster": cluster}},
        "spec": {"replicas": len(ids), "roles": list(roles)},
        "status": {"nodeIds": list(ids), "roles": list(roles), "replicas": len(ids)},
    }


def rebalance(state: str, name: str = "full", cluster: str = "prod") -> Object:
    """A KafkaRebalance: its state is the type of a condition."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "KafkaRebalance",
        "metadata": {"name": name, "labels": {"strimzi.io/cluster": cluster}},
        "spec": {},
        "status": {"conditions": [{"type": state, "status": "True", "lastTransitionTime": NOON}]},
    }


def pod(
    id: int,
    *,
    ready: bool = True,
    phase: str = "Running",
    restarts: int = 0,
    created: str = "2026-11-20T12:00:00Z",
    deleted: str | None = None,
    disrupted: str | None = None,
    cluster: str = "prod",
    broker: bool = True,
) -> Object:
    """A Pod of a broker, a day old. `deleted`: when its grace ends. `disrupted`: why, by Kubernetes."""
    conditions: list[Object] = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": NOON}]
    if disrupted:
        conditions.append({"type": "DisruptionTarget", "status": "True", "reason": disrupted})
    labels = {
        "strimzi.io/cluster": cluster,
        "strimzi.io/kind": "Kafka",
        "strimzi.io/name": f"{cluster}-kafka",
        "strimzi.io/pod-name": f"{cluster}-brokers-{id}",
        "strimzi.io/pool-name": "brokers",
        "strimzi.io/broker-role": str(broker).lower(),
        "strimzi.io/controller-role": "false",
    }
    metadata: Object = {"name": f"{cluster}-brokers-{id}", "labels": labels, "creationTimestamp": created}
    if deleted:
        metadata |= {"deletionTimestamp": deleted, "deletionGracePeriodSeconds": 30}
    container = {"name": "kafka", "ready": ready, "restartCount": restarts}
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status}


def _address(listener: Object, name: str) -> str:
    if listener["type"] == "internal":
        return f"{name}-kafka-bootstrap.kafka.svc:{listener['port']}"
    return f"a.example:{listener['port']},b.example:{listener['port']}"


def _reachable(listener: Object, address: str, ca: str) -> Object:
    places = [each.rsplit(":", 1) for each in address.split(",")]
    addresses = [{"host": host, "port": int(port)} for host, port in places]
    certificates = {"certificates": [ca]} if listener["tls"] else {}
    return {"name": listener["name"], "addresses": addresses, "bootstrapServers": address} | certificates
