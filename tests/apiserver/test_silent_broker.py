"""What docs/how-to/silent-broker.md has a person type, typed against a real API server and its controllers, by kubectl.

Strimzi's own operator does not run here: a Deployment of its name stands for it. Nor do kubelets.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import WaitedInVain, wait_until

pytestmark = pytest.mark.apiserver

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "silent-broker.md").read_text()
CODE = re.compile(r"`(kubectl [^`]+)`|^(kubectl .+)$", re.MULTILINE)
COMMANDS = ["".join(found) for found in CODE.findall(PAGE)]
CLAIM = "data-0-prod-brokers-1"
CONTAINERS = [{"name": "kafka", "image": "none.example/kafka"}]


def page(begins: str, **instead: str) -> list[str]:
    """The one command of the page that begins so, as words behind `kubectl`. `instead`: of a name in capitals."""
    found = {each for each in COMMANDS if each.startswith(f"kubectl {begins}")}
    assert len(found) == 1, found
    text = re.split(r" [|>] ", found.pop())[0]
    for name, value in instead.items():
        text = re.sub(rf"\b{name}\b", value, text)
    return shlex.split(text, comments=True)[1:]


def uid(kubectl: Kubectl, kind: str, name: str) -> str:
    return str(kubectl.api.get(kind, name)["metadata"]["uid"]) if kubectl.api.has(kind, name) else ""


def test_a_pod_of_a_stateful_set_comes_back_if_it_is_only_deleted_and_stays_away_as_the_page_has_it(
    kubectl: Kubectl,
) -> None:
    storage = {"resources": {"requests": {"storage": "1Gi"}}}
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", **storage},
    }
    labels = {"app": "kafka"}
    spec = {
        "replicas": 3,
        "serviceName": "kafka",
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}},
        "volumeClaimTemplates": [claim],
    }
    given = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "kafka"}, "spec": spec}
    kubectl.apply(given)
    first = wait_until("the Pod is made", lambda: uid(kubectl, "pod", "kafka-1"), bool)
    kubectl("delete", "pod", "kafka-1")
    wait_until("it is made again", lambda: uid(kubectl, "pod", "kafka-1"), lambda now: now not in ("", first))
    disk = uid(kubectl, "persistentvolumeclaim", "data-kafka-1")

    assert "whenDeleted: Retain" in kubectl(*page("get statefulset kafka -o yaml | grep"))
    saved = yaml.safe_load(kubectl(*page("get statefulset kafka -o yaml >")))
    kubectl(*page("delete statefulset"))
    kubectl(*page("delete pod kafka-1"))

    with pytest.raises(WaitedInVain):
        wait_until("it is made again", lambda: uid(kubectl, "pod", "kafka-1"), bool, patience=3)
    assert uid(kubectl, "pod", "kafka-0"), "the others stay"
    assert uid(kubectl, "persistentvolumeclaim", "data-kafka-1") == disk

    for each in ("uid", "resourceVersion"):
        del saved["metadata"][each]
    del saved["status"]
    kubectl("apply", "--filename=-", given=saved)
    wait_until("it is let go again", lambda: uid(kubectl, "pod", "kafka-1"), bool)
    assert uid(kubectl, "persistentvolumeclaim", "data-kafka-1") == disk, "on its own disk"


def test_strimzis_operator_is_found_stopped_and_started_again_and_the_pod_is_gone_meanwhile(
    kubectl: Kubectl, namespace: str
) -> None:
    name, labels = "strimzi-cluster-operator", {"app": "strimzi", "strimzi.io/kind": "cluster-operator"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": CONTAINERS}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    about = {"name": name, "labels": labels}
    kubectl.apply(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": about, "spec": spec},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "prod-brokers-1"},
            "spec": {"containers": CONTAINERS},
        },
    )

    assert namespace in kubectl(*page("get deployment"))
    kubectl(*page(f"scale deployment {name} --replicas 0", STRIMZI=namespace))
    its_own = page("get pod --selector", STRIMZI=namespace)
    wait_until("its own Pod is gone", lambda: kubectl.attempt(*its_own).stderr, lambda told: "No resources" in told)
    kubectl(*page("delete pod prod-brokers-1"))

    assert kubectl.api.get("deployment", name)["spec"]["replicas"] == 0
    assert "NotFound" in kubectl.attempt(*page("get pod prod-brokers-1    ")).stderr
    kubectl(*page(f"scale deployment {name} --replicas 1", STRIMZI=namespace))
    assert kubectl.api.get("deployment", name)["spec"]["replicas"] == 1


@pytest.fixture
def volumes(kubectl: Kubectl, namespace: str) -> Iterator[tuple[str, str]]:
    """The old one, whose claim was deleted, and the empty one that the claim of the same name is bound to now."""
    old, new = f"old-{namespace[-40:].lstrip('-')}", f"new-{namespace[-40:].lstrip('-')}"
    for name in (old, new):
        make(kubectl, name)
        if name == old:
            kubectl("delete", "persistentvolumeclaim", CLAIM)
            wait_until(
                "its claim is gone", lambda: phase(kubectl, "persistentvolume", old), lambda now: now == "Released"
            )
    yield old, new
    for name in (old, new):
        kubectl.api.delete("persistentvolume", name, missing_ok=True)


def make(kubectl: Kubectl, volume: str) -> None:
    modes: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    disk = modes | {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/none"}}
    claim = modes | {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": volume}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": disk},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": claim},
    )
    bound(kubectl)


def bound(kubectl: Kubectl) -> str:
    wait_until("it is bound", lambda: phase(kubectl, "persistentvolumeclaim", CLAIM), lambda now: now == "Bound")
    return str(kubectl.api.get("persistentvolumeclaim", CLAIM)["spec"]["volumeName"])


def phase(kubectl: Kubectl, kind: str, name: str) -> str:
    return str(kubectl.api.get(kind, name).get("status", {}).get("phase", ""))


def test_an_old_volume_is_bound_again_in_place_of_the_empty_one(kubectl: Kubectl, volumes: tuple[str, str]) -> None:
    old, new = volumes
    assert bound(kubectl) == new, "a Pod would start on the empty one"
    assert re.search(rf"^{old} .* Released .*/{CLAIM} ", kubectl("get", "pv"), re.MULTILINE)

    kubectl(*page("patch pv PV -p", PV=old))
    saved = yaml.safe_load(kubectl(*page(f"get pvc {CLAIM} -o yaml")))
    kubectl(*page(f"delete pvc {CLAIM}"))
    kubectl(*page("patch pv PV --type json", PV=old))
    meta = saved["metadata"]
    kept = {
        name: value
        for name, value in meta.get("annotations", {}).items()
        if not name.startswith(("pv.kubernetes.io", "volume.kubernetes.io"))
    }
    again = saved | {
        "metadata": {"name": meta["name"], "annotations": kept},
        "spec": saved["spec"] | {"volumeName": old},
    }
    del again["status"]
    kubectl("apply", "--filename=-", given=again)

    assert bound(kubectl) == old
    assert kubectl.api.get("persistentvolume", old)["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
