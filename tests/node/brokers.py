"""Stand-ins for the Pods of Strimzi's brokers: a StatefulSet makes them again, and a real kubelet runs what is in them.

No Kafka runs in them. Brokers that are to look dead crash as soon as they start, the others are Ready.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from testbed.images import PAUSE
from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until
from unit.kube.clusters.strimzi import pod

SET = "prod-brokers"
CLUSTER = {"strimzi.io/cluster": "prod"}

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class BrokerPods:
    """The Pods `prod-brokers-N` of the test's namespace."""

    kubectl: Kubectl

    def start(self, brokers: Collection[int], dead: Collection[int]) -> None:
        """Have one for each broker, and wait until the dead ones have crashed and the others are Ready."""
        self.kubectl.apply(_set(len(brokers), min(brokers), dead))
        wanted = {broker for broker in brokers if broker not in dead}, set(dead)
        wait_until("Pods of brokers run", self._standing, lambda seen: seen == wanted, 120)

    def uids(self) -> dict[str, str]:
        """Of those that are there and are not being stopped, by name."""
        return {
            each["metadata"]["name"]: each["metadata"]["uid"]
            for each in self._all()
            if "deletionTimestamp" not in each["metadata"]
        }

    def refused(self) -> str:
        """What the StatefulSet's controller was told by the API server when it made one again."""
        events = self.kubectl.json("get", "events")["items"]
        return "\n".join(each["message"] for each in events if each["involvedObject"]["name"] == SET)

    def started(self, names: Collection[str]) -> dict[str, str]:
        """Wait until the kubelet has started all of these; their uids."""

        def running() -> dict[str, str]:
            here = {each["metadata"]["name"] for each in self._all() if each["status"]["phase"] == "Running"}
            return {name: uid for name, uid in self.uids().items() if name in here and name in names}

        return wait_until("the Pods are back", running, lambda seen: seen.keys() == set(names), 90)

    def gone(self, names: Collection[str]) -> None:
        """Wait until the kubelet has ended all of these, and nothing is left of them."""
        wait_until(
            "the Pods are gone",
            lambda: {each["metadata"]["name"] for each in self._all()},
            lambda there: not there & set(names),
            60,
        )

    def _all(self) -> list[Object]:
        ((label, value),) = CLUSTER.items()
        return self.kubectl.api.listed("pods", f"{label}={value}")

    def _standing(self) -> tuple[set[int], set[int]]:
        """Who is Ready, and who crashed."""
        said = [
            (int(each["metadata"]["name"].rpartition("-")[2]), container)
            for each in self._all()
            for container in each["status"].get("containerStatuses", ())
        ]
        ready = {broker for broker, container in said if container["ready"]}
        return ready, {broker for broker, container in said if container["restartCount"]} - ready


def _set(replicas: int, first: int, dead: Collection[int]) -> Object:
    """It has no volume: what is tested is whether Pods are there."""
    labels = {name: value for name, value in pod(first)["metadata"]["labels"].items() if name != "strimzi.io/pod-name"}
    crash = "|".join(f"*-{broker}" for broker in sorted(dead)) or "none"
    script = f"case $HOSTNAME in {crash}) exit 1;; esac; trap 'exit 0' TERM; touch /tmp/ready; sleep infinity & wait"
    container = {
        "name": "kafka",
        "image": PAUSE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "readinessProbe": {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 2},
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 2}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": SET},
        "spec": {
            "serviceName": SET,
            "replicas": replicas,
            "ordinals": {"start": first},
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": CLUSTER},
            "template": template,
        },
    }
