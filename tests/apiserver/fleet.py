"""Questions to a fleet in a test's namespace, and what is seen of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubernetes.client import CoreV1Api

from kafka_recovery.fleet.manifest import NAME, Output, written
from kafka_recovery.kube.fleet.pods import DRIVER_CONTAINER
from kafka_recovery.kube.fleet.resource import read_ranking
from kafka_recovery.kube.fleet.runs import Active, remembered
from kafka_recovery.kube.resources.kinds import API_VERSION
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until
from unit.fleet.rankings import Ranked, parquet
from unit.kube.fleet.asked import manifest

CHOSEN = Ranked("orders", 0, [3])


@dataclass(frozen=True, slots=True)
class Fleet:
    """A namespace with a fleet operator, a policy, and a folder for results that both see."""

    kubectl: Kubectl
    namespace: str
    results: Path
    core: CoreV1Api
    process: OperatorProcess

    def ask(self, name: str, **spec: Any) -> None:
        """Somebody creates a FleetRanking."""
        places = {"evidence": f"file://{self.results}/evidence", "results": f"file://{self.results}/results"}
        given = {"task": "Rank", "policyRef": {"name": "prod"}, "storage": places, "image": "localhost/none:1"}
        meta = {"name": name, "namespace": self.namespace}
        self.kubectl.apply({"apiVersion": API_VERSION, "kind": "FleetRanking", "metadata": meta, "spec": given | spec})

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.kubectl.api.get("frank", name)["status"]
        return status

    def until(self, name: str, reason: str, message: str = "") -> dict[str, Any]:
        """Waits until Ready has this reason, and these words in its message; returns the status."""

        def look() -> tuple[str, str, dict[str, Any]]:
            status = self.status(name)
            ready: dict[str, str] = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), {})
            return ready.get("reason", ""), ready.get("message", ""), status

        return wait_until(f"{name} is {reason}", look, lambda seen: seen[0] == reason and message in seen[1], 120)[2]

    def active(self, name: str) -> Active:
        found = wait_until(f"{name} runs", lambda: remembered(self.status(name)).active, lambda seen: seen is not None)
        assert found
        return found

    def kubelet_says(self, name: str, phase: str, **state: Any) -> None:
        """Of the driver of the attempt under way, once spark-submit has made its Pod."""
        pod = f"{self.active(name).application}-driver"
        self.until_there("pod", pod)
        started = {"startedAt": "2026-11-21T12:00:00Z"}
        told = {kind: {**(started if kind != "waiting" else {}), **fields} for kind, fields in state.items()}
        container = {
            "name": DRIVER_CONTAINER,
            "image": "x",
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": told,
        }
        body = {"status": {"phase": phase, "containerStatuses": [container]}}
        self.core.patch_namespaced_pod_status(pod, self.namespace, body)

    def until_there(self, kind: str, name: str) -> None:
        """A submission takes a while."""
        wait_until(f"{name} is there", lambda: self._has(kind, name), bool, 120)

    def until_gone(self, kind: str, name: str) -> None:
        """A garbage collector takes half a minute until it knows a new kind."""
        wait_until(f"{name} is gone", lambda: not self._has(kind, name), bool, 120)

    def _has(self, kind: str, name: str) -> bool:
        return self.kubectl.api.has(kind, name)

    def write_result(self, name: str, chosen: Ranked = CHOSEN) -> None:
        """What the job would write: whom it chose for a partition of cluster one, and the manifest last."""
        asked, attempt = read_ranking(self.kubectl.api.get("frank", name)), self.active(name)
        folder = Path(attempt.result.removeprefix("file://"))
        (folder / "ranking").mkdir(parents=True)
        file, raw = "ranking/part-0.parquet", parquet([chosen])
        (folder / file).write_bytes(raw)
        outputs = (Output(file, 1, hashlib.sha256(raw).hexdigest()),)
        (folder / NAME).write_bytes(written(manifest(asked, attempt, outputs=outputs)))
