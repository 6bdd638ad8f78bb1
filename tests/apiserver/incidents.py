"""What tests of the whole operator share: a Kafka to lose brokers of, and objects that say what is wanted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from testbed.cluster import RealKafka
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until

API_VERSION = "kafka-recovery.dev/v1alpha1"
FINALIZER = "kafka-recovery.dev/assignment-order"
SURVIVOR = 3
ORIGINAL = frozenset({(1, 2, 3), (2, 1, 3)})
"""Assignments of a topic of which only broker 3 survives; in an altered order it is the first."""

EVIDENCE = {"deadline": "1s", "attempts": 1}
"""A frozen broker is waited for that long at every look."""

Object = dict[str, Any]
Start = Callable[..., OperatorProcess]
"""Starts an operator with options and a `lease` in seconds."""


class Watched(Protocol):
    """A Kafka, real or played."""

    @property
    def cluster_id(self) -> str:
        """Its id."""
        ...

    @property
    def bootstrap(self) -> str:
        """Where its brokers listen."""
        ...


def watched_cluster(kafka: Watched, name: str = "prod", **spec: Any) -> Object:
    """A WatchedCluster for this Kafka, with policy `prod` and full authority."""
    wanted = {
        "clusterId": kafka.cluster_id,
        "bootstrapServers": kafka.bootstrap.split(","),
        "policyRef": {"name": "prod"},
        "authority": "Automatic",
    }
    return _object("WatchedCluster", name, wanted | spec)


def policy(name: str = "prod", limits: Mapping[str, Any] | None = None, **rule: Any) -> Object:
    """A RecoveryPolicy of one rule for all topics, without patience, however many brokers are down."""
    rules = [{"name": "everything", "approval": "AutoApprove", "patience": "0s", "evidence": EVIDENCE} | rule]
    return _object("RecoveryPolicy", name, {"rules": rules, "limits": {"brokersDownPercent": 100} | dict(limits or {})})


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
    return kubectl.api.listed("partitionrecoveries")


def only_recovery(kubectl: Kubectl, within: float = 60) -> Object:
    """Wait until there is one, and only one."""
    return wait_until("there is one recovery", lambda: recoveries(kubectl), lambda found: len(found) == 1, within)[0]


def finished(kubectl: Kubectl, name: str, within: float = 60) -> Object:
    """Wait until a recovery has ended."""
    return seen(kubectl, name, lambda each: bool(each.get("status", {}).get("finished")), within)


def awaiting(kubectl: Kubectl, name: str, within: float = 60) -> Object:
    """Wait until a recovery waits for a person."""
    return seen(kubectl, name, lambda each: reason(each) == "AwaitingApproval", within)


def cluster(kubectl: Kubectl, good: Callable[[Object], bool], within: float = 30) -> Object:
    """Wait until the WatchedCluster is as it should be."""
    return wait_until(
        "the WatchedCluster is as expected", lambda: kubectl.api.get("watchedcluster", "prod"), good, within
    )


def seen(kubectl: Kubectl, name: str, good: Any, within: float = 60) -> Object:
    """Wait until a recovery is as it should be; what it was like last is told if that never happens, status first."""
    return wait_until(
        f"PartitionRecovery {name} is as expected",
        lambda: {"status": {}} | kubectl.api.get("partitionrecovery", name),
        good,
        within,
    )


def orders(kafka: RealKafka, topic: str) -> dict[int, tuple[int, ...]]:
    """The assignment of each partition, in its order."""
    return {index: tuple(state.replicas) for index, state in kafka.describe(topic).items()}


def accident(kafka: RealKafka, partitions: int = 12) -> None:
    """All of topic `orders` is offline; broker 3 has all of it. The others are frozen: to Kafka they are dead."""
    every = range(partitions)
    kafka.create_topic("orders", [(1, 2, 3) if number % 2 == 0 else (2, 1, 3) for number in every])
    kafka.produce_to("orders", every, 1, "common")
    for broker in kafka.brokers:
        kafka.wait_for_log_ends(broker, "orders", dict.fromkeys(every, 1))
    kafka.freeze(SURVIVOR)
    kafka.wait_until_fenced(SURVIVOR)
    for broker in (1, 2):
        kafka.freeze(broker)
    kafka.thaw(SURVIVOR)
    kafka.wait_until_unfenced(SURVIVOR)
    kafka.wait_until_fenced(1, 2)
    kafka.wait_for("orders", lambda state: state.leader is None)


def recovered_with_its_orders(kafka: RealKafka, ended: Object) -> None:
    """The end that every fault of the operator must lead to."""
    assert ended["status"]["outcome"] == "Recovered", told(ended)
    assert {state.leader for state in kafka.describe("orders").values()} == {SURVIVOR}
    assert set(orders(kafka, "orders").values()) <= ORIGINAL
    assert "finalizers" not in ended["metadata"]
    assert ended["status"]["plan"]["lossClass"], "how much may be lost must be told, whoever carried it out"


class Freezable(Protocol):
    """An operator, whatever it runs in."""

    def freeze(self) -> None:
        """It stands still."""
        ...

    def thaw(self) -> None:
        """It goes on."""
        ...


def caught_in_the_middle(kafka: RealKafka, operator: Freezable, topic: str = "orders") -> None:
    """Freeze the operator at a moment when an assignment order is altered."""

    def altered() -> bool:
        return not set(orders(kafka, topic).values()) <= ORIGINAL

    while True:
        wait_until("an order is altered", altered, bool, passes=True)
        operator.freeze()
        time.sleep(0.5)  # what it had sent before takes effect
        if altered():
            return
        operator.thaw()


def journal(kubectl: Kubectl, uid: str) -> list[str]:
    """The records of a recovery's journal."""
    found = kubectl.api.listed("recoveryrecords", f"kafka-recovery.dev/recovery-uid={uid}")
    return sorted(each["metadata"]["name"] for each in found)


def plan_digest(of: Object) -> str:
    """The digest that its status shows."""
    return str(of["status"]["plan"]["digest"])


def told(of: Object) -> str:
    """A status, for a person who reads a failed test."""
    return json.dumps(of.get("status", {}), indent=1)


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}
