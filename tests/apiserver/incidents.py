"""What tests of the whole operator share: a Kafka to lose brokers of, and objects that say what is wanted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from testbed.cluster import RealKafka
from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until

API_VERSION = "kafka-recovery.dev/v1alpha1"

Object = dict[str, Any]


def watched_cluster(kafka: RealKafka, name: str = "prod", **spec: Any) -> Object:
    """A WatchedCluster for this Kafka, with policy `prod` and full authority."""
    wanted = {
        "clusterId": kafka.cluster_id,
        "bootstrapServers": kafka.bootstrap.split(","),
        "policyRef": {"name": "prod"},
        "authority": "Automatic",
    }
    return _object("WatchedCluster", name, wanted | spec)


def policy(name: str = "prod", limits: Mapping[str, Any] | None = None, **rule: Any) -> Object:
    """A RecoveryPolicy of one rule for all topics, without patience."""
    rules = [{"name": "everything", "approval": "AutoApprove", "patience": "0s"} | rule]
    return _object("RecoveryPolicy", name, {"rules": rules} | ({"limits": dict(limits)} if limits else {}))


def recovery(kafka: RealKafka, name: str = "by-hand", cluster: str = "prod", **spec: Any) -> Object:
    """A PartitionRecovery as a person opens one, of all that is offline."""
    wanted = {"clusterRef": {"name": cluster}, "clusterId": kafka.cluster_id, "scope": {"allOffline": True}}
    return _object("PartitionRecovery", name, wanted | spec)


def approval(of: Object, approver: str = "testbed:administrator", decision: str = "Approve", **spec: Any) -> Object:
    """What a person says to the plan that a recovery's status shows."""
    meta = of["metadata"]
    wanted = {
        "recoveryRef": {"name": meta["name"], "uid": meta["uid"]},
        "planDigest": of["status"]["plan"]["digest"],
        "decision": decision,
        "approver": approver,
    }
    return _object("RecoveryApproval", f"{meta['name']}-{decision.lower()}", wanted | spec)


def condition(of: Object, kind: str) -> Mapping[str, Any]:
    """One condition of an object; empty if it is not there."""
    found: list[Mapping[str, Any]] = of.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == kind), {})


def reason(of: Object, kind: str = "Ready") -> str:
    """The word that says why."""
    return str(condition(of, kind).get("reason", ""))


def recoveries(kubectl: Kubectl) -> list[Object]:
    """All of the namespace."""
    found: list[Object] = kubectl.json("get", "partitionrecoveries")["items"]
    return found


def only_recovery(kubectl: Kubectl, within: float = 30) -> Object:
    """Wait until there is one, and only one."""
    return wait_until("there is one recovery", lambda: recoveries(kubectl), lambda found: len(found) == 1, within)[0]


def finished(kubectl: Kubectl, name: str, within: float = 60) -> Object:
    """Wait until a recovery has ended."""
    return seen(kubectl, name, lambda each: bool(each.get("status", {}).get("finished")), within)


def awaiting(kubectl: Kubectl, name: str, within: float = 60) -> Object:
    """Wait until a recovery waits for a person."""
    return seen(kubectl, name, lambda each: reason(each) == "AwaitingApproval", within)


def seen(kubectl: Kubectl, name: str, good: Any, within: float = 60) -> Object:
    """Wait until a recovery is as it should be; what it was like last is told if that never happens."""
    return wait_until(
        f"PartitionRecovery {name} is as expected",
        lambda: kubectl.json("get", "partitionrecovery", name),
        good,
        within,
    )


def orders(kafka: RealKafka, topic: str) -> dict[int, tuple[int, ...]]:
    """The assignment of each partition, in its order."""
    return {index: tuple(state.replicas) for index, state in kafka.describe(topic).items()}


def plan_digest(of: Object) -> str:
    """The digest that its status shows."""
    return str(of["status"]["plan"]["digest"])


def told(of: Object) -> str:
    """A status, for a person who reads a failed test."""
    return json.dumps(of.get("status", {}), indent=1)


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
