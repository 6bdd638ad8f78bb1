"""What kubelets would write of the Pods of brokers and of their nodes: none runs beside this API server."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until
from unit.kube.clusters import strimzi

EACH = 0.5
"""Seconds between two words of a kubelet about its node; a real one's come every five minutes at least."""


class Kubelet:
    """What a kubelet would write of the Pod of a broker and of its node; none runs here."""

    def __init__(self, kubectl: Kubectl, namespace: str, broker: int = 1) -> None:
        self.kubectl, self.broker = kubectl, broker
        self.node = f"node-{broker}-of-{namespace[-50:].lstrip('-')}"  # its end tells namespaces apart
        self.pod, self.claim = f"prod-brokers-{broker}", f"data-0-prod-brokers-{broker}"
        self.boot, self.minutes = "monday", 0

    def make(self) -> None:
        """The Pod is on its node, and its claim is bound."""
        meta = {"name": self.claim, "labels": {"strimzi.io/cluster": "prod"}}
        modes, class_of_none = {"accessModes": ["ReadWriteOnce"]}, {"storageClassName": ""}
        storage = modes | class_of_none | {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": self.node}
        disk = modes | class_of_none | {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/none"}}
        pod = strimzi.pod(self.broker)
        container = {"name": "kafka", "image": "none.example/kafka"}
        volume = {"name": "data-0", "persistentVolumeClaim": {"claimName": self.claim}}
        spec = {"nodeName": self.node, "containers": [container], "volumes": [volume]}
        about = {"name": pod["metadata"]["name"], "labels": pod["metadata"]["labels"]}
        self.kubectl.apply(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node}},
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": self.node}, "spec": disk},
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": storage},
            {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec},
        )
        wait_until(
            "its claim is bound",
            lambda: self.kubectl.api.get("persistentvolumeclaim", self.claim),
            lambda each: each["status"].get("phase") == "Bound",
        )

    def tells_of_the_node(self) -> None:
        """Once more, a minute later."""
        self.minutes += 1
        at = f"{datetime.now(UTC) + timedelta(minutes=self.minutes):%Y-%m-%dT%H:%M:%SZ}"
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": at, "lastTransitionTime": at}
        parts = ("machineID", "systemUUID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion")
        others = dict.fromkeys((*parts, "kubeProxyVersion", "operatingSystem", "architecture"), "")
        info = others | {"bootID": self.boot}
        self.kubectl.api.patch("node", self.node, {"status": {"conditions": [ready], "nodeInfo": info}}, "status")

    def tells_of_the_pod(self, *, ready: bool, **container: Any) -> None:
        said = {"name": "kafka", "image": "", "imageID": "", "ready": ready, "restartCount": 0} | container
        conditions = [{"type": "Ready", "status": str(ready)}]
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": [said]}
        self.kubectl.api.patch("pod", self.pod, {"status": status}, "status")

    def runs(self, container: str, restarts: int = 0) -> None:
        """The container with this id, after so many others."""
        running = {"running": {"startedAt": strimzi.NOON}}
        id = f"containerd://{container}"
        self.tells_of_the_pod(ready=True, state=running, containerID=id, restartCount=restarts)

    def crashes(self) -> None:
        """Killed for want of memory, again and again."""
        killed = {"terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": strimzi.NOON}}
        waits = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
        self.tells_of_the_pod(ready=False, state=waits, lastState=killed, restartCount=7)

    def goes(self) -> None:
        """What lies in no namespace would outlive the test."""
        self.kubectl.api.delete("node", self.node)
        self.kubectl.api.delete("persistentvolume", self.node)


class Kubelets:
    """One for each broker, for the length of a `with` block: each says again and again that its node is well."""

    def __init__(self, kubectl: Kubectl, namespace: str, brokers: Iterable[int]) -> None:
        self._all = {broker: Kubelet(kubectl, namespace, broker) for broker in brokers}
        self._words = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tell, name="kubelets", daemon=True)

    def __getitem__(self, broker: int) -> Kubelet:
        return self._all[broker]

    def __enter__(self) -> Self:
        for broker, kubelet in self._all.items():
            kubelet.make()
            kubelet.runs(f"first-of-{broker}")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for kubelet in self._all.values():
            kubelet.goes()

    def go_on(self, seconds: float) -> None:
        """Until they have said so often that all is well as they do in so many seconds."""
        enough = self._words + round(seconds / EACH)
        wait_until("the kubelets have told enough", lambda: self._words, lambda words: words >= enough, 4 * seconds)

    def _tell(self) -> None:
        while not self._over.wait(EACH):
            for kubelet in self._all.values():
                kubelet.tells_of_the_node()
            self._words += 1
