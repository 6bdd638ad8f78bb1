"""What a person ended is not taken up again behind his back: not now, not after a restart, not in other company."""

from __future__ import annotations

import pytest

from apiserver.incidents import (
    Start,
    accident,
    awaiting,
    finished,
    only_recovery,
    policy,
    recoveries,
    recovery,
    told,
    watched_cluster,
)
from testbed.cluster import RealKafka
from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.xdist_group("kafka")]


def test_an_aborted_incident_is_left_alone_though_the_operator_restarts_and_the_set_of_partitions_changes(
    kafka: RealKafka, kubectl: Kubectl, start: Start
) -> None:
    """Half a minute: three starts, each of which goes through all partitions first."""
    kafka.create_topic("payments", [[1, 2]])
    accident(kafka, 3)
    kubectl.apply(policy(approval="ManualApprove"), watched_cluster(kafka))
    operator = start("--no-lease")
    name = only_recovery(kubectl)["metadata"]["name"]
    awaiting(kubectl, name)
    _abort(kubectl, name)
    ended = finished(kubectl, name)
    assert sum(len(group["partitions"]) for group in ended["status"]["leftOffline"]) == 4, told(ended)

    operator.kill()
    kafka.delete_topic("payments")
    kubectl.apply(policy(approval="AutoApprove"))
    operator.start()
    _seen_offline(kubectl, 3)
    kubectl.apply(recovery(kafka, "by-hand", suspend=True))
    wait_until(
        "it is held", lambda: kubectl.api.get("prec", "by-hand").get("status", {}).get("observedGeneration"), bool
    )
    assert {each["metadata"]["name"] for each in recoveries(kubectl)} == {name, "by-hand"}

    _abort(kubectl, "by-hand")
    finished(kubectl, "by-hand")
    kubectl("delete", "prec", name)
    operator.kill()
    operator.start()
    _seen_offline(kubectl, 3)
    kubectl.apply(recovery(kafka, "wanted"))
    assert finished(kubectl, "wanted")["status"]["outcome"] == "Recovered"
    assert {each["metadata"]["name"] for each in recoveries(kubectl)} == {"by-hand", "wanted"}


def _abort(kubectl: Kubectl, name: str) -> None:
    kubectl.api.patch("prec", name, {"spec": {"abort": True}})


def _seen_offline(kubectl: Kubectl, count: int) -> None:
    """The operator that runs now has gone through all partitions, and told what it saw."""
    before = kubectl.api.get("wkc", "prod")["status"].get("lastProbe")
    wait_until(
        f"{count} partitions are seen offline",
        lambda: kubectl.api.get("wkc", "prod")["status"],
        lambda status: status.get("offlinePartitions") == count and status.get("lastProbe") != before,
        60,
    )
