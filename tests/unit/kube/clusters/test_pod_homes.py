"""Which container a broker's process runs in, by Pods and Nodes: whatever is odd is not seen."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.kube.clusters.pod_homes import Boot, Lodging, boot_of, lodgings
from unit.kube.clusters.strimzi import NOON, Object, pod
from unit.kube.clusters.test_broker_pods import NO_OBJECTS, claim

B = BrokerId(1)
RUNNING = {"name": "kafka", "ready": True, "state": {"running": {"startedAt": NOON}}, "containerID": "containerd://c1"}


def lodged(container: Object | None = None, spec: Object | None = None, **metadata: Any) -> Object:
    """A Pod of broker 1 that runs on a node."""
    well = pod(B)
    status = well["status"] | {"containerStatuses": [container or RUNNING]}
    meta = well["metadata"] | {"uid": "pod-1"} | metadata
    return well | {"metadata": meta, "spec": {"nodeName": "n2"} | (spec or {}), "status": status}


def its_claim(name: str = "data-0-prod-brokers-1", uid: str | None = "pvc-1") -> Object:
    made = claim(name)
    return made | {"metadata": made["metadata"] | ({"uid": uid} if uid else {})}


def only(*pods: Object, claims: tuple[Object, ...] | None = (its_claim(),)) -> Lodging | None:
    return lodgings("prod", pods, claims).get(B)


def test_a_broker_is_at_home_in_the_running_container_of_its_only_pod() -> None:
    assert only(lodged()) == Lodging("pod-1", "n2", "containerd://c1", "pvc-1")


def test_several_log_directories_have_several_claims() -> None:
    found = only(lodged(), claims=(its_claim(), its_claim("data-1-prod-brokers-1", "pvc-2")))

    assert (found and found.volumes) == "pvc-1, pvc-2"


def test_logs_in_an_empty_dir_are_on_a_volume_of_that_pod_alone() -> None:
    found = only(lodged(spec={"volumes": [{"name": "data-0", "emptyDir": {}}]}), claims=())

    assert (found and found.volumes) == "emptyDir of Pod pod-1"


WANTED = {"volumes": [{"name": "data-1", "persistentVolumeClaim": {"claimName": "data-1-prod-brokers-1"}}]}
ODD: dict[str, tuple[Object, ...]] = {
    "two Pods of one broker": (lodged(), lodged(name="prod-spare-1")),
    "a Pod that is being stopped": (lodged(deletionTimestamp=NOON),),
    "a Pod on no node": (lodged(spec={"nodeName": None}),),
    "a virtual machine of its own": (lodged(spec={"runtimeClassName": "kata"}),),
    "a container that is not Ready": (lodged(RUNNING | {"ready": False}),),
    "a container that waits": (lodged(RUNNING | {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}),),
    "a container without an id": (lodged(RUNNING | {"containerID": None}),),
    "another container that runs": (lodged(RUNNING | {"name": "log-shipper"}),),
    "a Pod without a uid": (lodged(uid=None),),
    "a claim that is not there": (lodged(spec=WANTED),),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_is_odd_is_not_seen(odd: str) -> None:
    assert only(*ODD[odd]) is None


def test_a_pod_that_is_not_ready_is_not_seen() -> None:
    well = lodged()
    assert only(well | {"status": pod(B, ready=False)["status"] | {"containerStatuses": [RUNNING]}}) is None


def node(ready: str = "True", **info: Any) -> Object:
    ready_at = {"type": "Ready", "status": ready, "lastHeartbeatTime": NOON}
    return {"status": {"conditions": [ready_at], "nodeInfo": {"bootID": "monday"} | info}}


def test_a_node_says_its_boot_and_when_its_kubelet_wrote() -> None:
    assert boot_of(node()) == Boot("monday", NOON)


@pytest.mark.parametrize("odd", [node("Unknown"), node(bootID=""), {"status": {}}])
def test_a_node_that_is_not_ready_or_does_not_say_both_is_unknown(odd: Object) -> None:
    assert boot_of(odd) is None


def test_what_is_no_object_is_nobody_s_home() -> None:
    for odd in NO_OBJECTS:
        assert lodgings("prod", [odd], [odd]) == {}
        assert boot_of(odd) is None
