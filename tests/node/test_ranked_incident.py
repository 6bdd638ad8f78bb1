"""A real incident to evidence, Spark's Pods on a real node, and back into a recovery that elects what Spark ranked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from apiserver import incidents
from apiserver.incidents import approval, finished, policy, reason, recovery, seen
from node.conftest import Install
from testbed import images
from testbed.cluster import RealKafka
from testbed.images import FLEET_JOB, OPERATOR
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.real_node.machine import OUTSIDE
from testbed.real_node.node import RealNode
from testbed.spark_operator import distribution, kubeflow
from testbed.waiting import wait_until

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.full, pytest.mark.timeout(900)]

LONGER, LATER = 2, 3
"""Survivors: one has the longer log, the other led after it and has the higher last epoch."""

PARTITIONS = 3
USER = 65532
CLAIM = "fleet"
PLACE = "/fleet"
VOLUME = {"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}}
MOUNT = {"name": CLAIM, "mountPath": PLACE}
SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
SPARK = {
    # There is no DNS here: neither the API server nor the driver has a name.
    "spark.kubernetes.driver.master": f"https://{OUTSIDE}:443",
    "spark.kubernetes.executor.useDriverPodIP": "true",
    # It shares two cores with a Kafka.
    "spark.kubernetes.driver.request.cores": "100m",
    "spark.kubernetes.executor.request.cores": "100m",
    "spark.driver.extraJavaOptions": f"{SMALL} -XX:-DontCompileHugeMethods",
    "spark.executor.extraJavaOptions": SMALL,
    "spark.ui.enabled": "false",
}


@pytest.fixture
def storage(control_plane: ControlPlane, kubectl: Kubectl, namespace: str, tmp_path: Path) -> Iterator[Path]:
    """A folder of this machine that Pods have as a volume."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    os.chown(folder, USER, USER)
    size, access = {"storage": "1Gi"}, ["ReadWriteMany"]
    volume = {
        "capacity": size,
        "accessModes": access,
        "hostPath": {"path": str(folder)},
        "claimRef": {"name": CLAIM, "namespace": namespace},
        "storageClassName": "",
        "persistentVolumeReclaimPolicy": "Retain",
    }
    claim = {"accessModes": access, "resources": {"requests": size}, "storageClassName": "", "volumeName": namespace}
    kubectl.apply(
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": namespace}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": claim},
    )
    yield folder
    kubectl("delete", "pv", namespace, "--wait=false")


@pytest.fixture
def spark(
    real_node: RealNode, control_plane: ControlPlane, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> Iterator[None]:
    """The job's image on the node, and Kubeflow's controller in the namespace."""
    real_node.add_image(images.archive(FLEET_JOB))
    definitions = str(distribution.fetch().definitions)
    kubectl("create", "-f", definitions)
    kubectl("wait", "--for=condition=Established", "--timeout=50s", "-f", definitions)
    kubectl("apply", "--server-side", "-f", str(kubeflow.RIGHTS))
    folder = tmp_path / "kubeflow"
    folder.mkdir()
    who = control_plane.service_account(namespace, kubeflow.ACCOUNT)
    with kubeflow.KubeflowOperator(who, namespace, folder):
        yield
    print((folder / "console.log").read_text()[-4000:])  # for whoever reads a failed test
    kubectl("delete", "-f", definitions, "--wait=false")


def snapshot(kubectl: Kubectl, kafka: RealKafka) -> None:
    """`kafka-recovery snapshot` in a Pod, to its end."""
    words = ["snapshot", "--bootstrap-server", kafka.bootstrap, "--to", f"file://{PLACE}/evidence"]
    container = {
        "name": "snapshot",
        "image": OPERATOR.reference,
        "imagePullPolicy": "Never",
        "command": ["kafka-recovery", *words],
        "volumeMounts": [MOUNT],
    }
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [VOLUME]}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "snapshot"}, "spec": spec})
    ended = wait_until(
        "the snapshot is made",
        lambda: kubectl.json("get", "pod", "snapshot")["status"]["phase"],
        lambda phase: phase in ("Succeeded", "Failed"),
        120,
    )
    assert ended == "Succeeded", kubectl("logs", "snapshot")


def ranking(**spec: Any) -> dict[str, Any]:
    """Who could lead what, by one small executor."""
    wanted = {
        "task": "Rank",
        "policyRef": {"name": "prod"},
        "storage": {
            "evidence": f"file://{PLACE}/evidence",
            "results": f"file://{PLACE}/results",
            "volumeClaim": {"name": CLAIM, "mountPath": PLACE},
        },
        "image": FLEET_JOB.reference,
        "adapter": "Kubeflow",
        "resources": {"driver": {"memory": "600m"}, "executor": {"memory": "600m"}, "executors": 1},
        "sparkConf": SPARK,
        "timeout": "10m",
        "retries": 0,
    }
    meta = {"name": "incident"}
    return {"apiVersion": incidents.API_VERSION, "kind": "FleetRanking", "metadata": meta, "spec": wanted | spec}


def answered(kubectl: Kubectl) -> incidents.Object:
    """Wait until the run has ended, well."""
    ended = wait_until(
        "the fleet is ranked",
        lambda: dict(kubectl.json("get", "fleetranking", "incident")),
        lambda each: bool(each.get("status", {}).get("runs")),
        600,
    )
    assert reason(ended) == "Succeeded", incidents.told(ended)
    return ended


def test_what_spark_ranked_on_a_real_node_is_elected(
    kafka: RealKafka, storage: Path, spark: None, kubectl: Kubectl, install: Install
) -> None:
    install(
        fleet={
            "enabled": True,
            "resultsPrefixes": [f"file://{PLACE}/results"],
            "extraVolumes": [VOLUME],
            "extraVolumeMounts": [MOUNT],
        },
    )
    rules = policy(approval="ManualApprove", candidateOrder="LongestLog", patience="10m")
    kubectl.apply(rules, incidents.watched_cluster(kafka))
    kafka.offline_partition("orders", {LONGER: 27, LATER: 15}, partitions=PARTITIONS)

    snapshot(kubectl, kafka)
    kubectl.apply(ranking())
    answer = answered(kubectl)
    kubectl.apply(recovery(kafka, rankingRef={"name": "incident"}))
    waiting = seen(kubectl, "by-hand", lambda each: reason(each) == "AwaitingApproval")
    assert {state.leader for state in kafka.describe("orders").values()} == {None}
    kubectl.apply(approval(waiting))
    ended = finished(kubectl, "by-hand")

    run = answer["status"]["runs"][0]
    ranked = pq.read_table(storage / run["result"].removeprefix(f"file://{PLACE}/") / "ranking").to_pylist()
    chosen = {(row["topic"], row["partition"]): row["chosen"] for row in ranked if row["verdict"] == "Elect"}
    assert chosen == {("orders", partition): LONGER for partition in range(PARTITIONS)}
    assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
    assert ended["status"]["ranking"]["run"] == run["name"]
    assert ended["status"]["ranking"]["leaders"] == PARTITIONS
    elected = {("orders", partition): state.leader for partition, state in kafka.describe("orders").items()}
    assert elected == chosen
