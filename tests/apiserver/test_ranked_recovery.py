"""From a real incident to evidence, to Spark, and back into a recovery that elects what Spark ranked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from apiserver import incidents
from apiserver.fleet import Fleet
from apiserver.incidents import Start, approval, finished, policy, reason, recovery
from apiserver.outages import BETTER, Outages
from kafka_recovery_spark.session import check_java
from testbed.cluster import RealKafka
from testbed.kubernetes.control_plane import ControlPlane
from testbed.spark_operator import apache

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.timeout(300), pytest.mark.xdist_group("fleet")]

APPLICATIONS = f"{apache.PLURAL}.{apache.GROUP}"


def program(module: str, *words: str) -> None:
    """Run one of our programs to its end."""
    subprocess.run([sys.executable, "-m", module, *words], check=True, timeout=180)


def spark_submit(fleet: Fleet, application: dict[str, Any]) -> None:
    """What the driver would do: the application's own arguments, and the policy that is mounted."""
    policy_file = fleet.results / "policy.json"
    mounted = fleet.kubectl.api.get("configmap", application["metadata"]["name"])["data"]
    policy_file.write_text(mounted[policy_file.name])
    words = [word.replace("/etc/kafka-recovery", str(fleet.results)) for word in application["spec"]["driverArgs"]]
    program("kafka_recovery_spark", *words, "--master", "local[1]")


@pytest.mark.full
def test_what_spark_ranked_is_elected(
    made: Outages, kafka: RealKafka, apache_definition: None, control_plane: ControlPlane, fleet: Fleet, start: Start
) -> None:
    check_java()
    start()
    made.lose(better=True, orders=3)
    made.thaw(BETTER)
    rules = policy(approval="ManualApprove", patience="10m")
    fleet.kubectl.apply(rules, incidents.watched_cluster(kafka))
    evidence = f"file://{fleet.results}/evidence"
    program("kafka_recovery.cli.main", "snapshot", "--to", evidence, "--bootstrap-server", kafka.bootstrap)

    fleet.ask("incident", adapter="Apache")
    application = fleet.active("incident").application
    fleet.until_there(APPLICATIONS, application)
    spark_submit(fleet, fleet.kubectl.api.get(APPLICATIONS, application))
    with apache.ApacheOperator(control_plane.client(), fleet.namespace):
        fleet.until("incident", "Succeeded", "3 partitions of 1 clusters")
    fleet.kubectl.apply(recovery(kafka, rankingRef={"name": "incident"}))
    waiting = incidents.seen(fleet.kubectl, "by-hand", lambda each: reason(each) == "AwaitingApproval")
    assert made.leaders("orders") == [None] * 3
    fleet.kubectl.apply(approval(waiting))
    ended = finished(fleet.kubectl, "by-hand")

    result = Path(fleet.status("incident")["runs"][0]["result"].removeprefix("file://"))
    ranked = {
        row["partition"]: row for row in pq.read_table(result / "ranking").to_pylist() if row["topic"] == "orders"
    }
    assert [ranked[partition]["chosen"] for partition in range(3)] == [BETTER] * 3
    for partition, leader in enumerate(made.leaders("orders")):
        assert leader in ranked[partition]["equals"]
    assert ended["status"]["ranking"]["leaders"] == 3
