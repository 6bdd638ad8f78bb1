"""The operator on a Kafka that is only played: it needs no Java, and it is recovered all the same."""

from __future__ import annotations

from functools import partial

import pytest

from apiserver.incidents import finished, only_recovery, policy, reason, told, watched_cluster
from kafka_recovery.domain.ids import TopicPartition
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until
from unit.simulator.play.playing import played_incident

pytestmark = [pytest.mark.apiserver, pytest.mark.usefixtures("operator")]

PASSWORD = "as they say"
ORDERS = TopicPartition("orders", 0)


def test_the_operator_recovers_a_played_incident_as_a_user_with_a_password(
    kubectl: Kubectl, operator: OperatorProcess
) -> None:
    """Broker 3 has more of what was acknowledged than broker 2, which stands first."""
    kubectl("create", "secret", "generic", "kafka", f"--from-literal=password={PASSWORD}")
    sasl = {
        "mechanism": "SCRAM-SHA-512", "username": "ann", "passwordSecretRef": {"name": "kafka", "key": "password"}
    }  # fmt: skip
    with played_incident("behind", {"ann": PASSWORD}) as cluster:
        kubectl.apply(policy(), watched_cluster(cluster, sasl=sasl))

        ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"])

        state = cluster.do(lambda: cluster.kafka.truth.state(ORDERS))
    assert ended["status"]["outcome"] == "Recovered", told(ended)
    assert (state.leader, state.replicas) == (3, (1, 2, 3))


def test_who_names_a_kafka_first_and_does_not_lead_there_keeps_nobody_from_it(kubectl: Kubectl) -> None:
    """Any namespace's writer of WatchedClusters may name any Kafka."""
    with played_incident("behind") as played:
        kubectl.apply(policy(), watched_cluster(played, "first", bootstrapServers=["127.0.0.1:9"]))
        first = partial(kubectl.api.get, "watchedcluster", "first")
        wait_until("it is looked at", first, lambda each: "conditions" in each.get("status", {}))
        kubectl.apply(watched_cluster(played))

        ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"])
        answered = wait_until("it is told so", first, lambda each: reason(each) == "DuplicateCluster")

    assert (ended["status"]["outcome"], ended["spec"]["clusterRef"]["name"]) == ("Recovered", "prod")
    assert "prod, which was seen to lead there" in str(answered["status"]["conditions"])
    assert "DuplicateCluster" not in str(kubectl.api.get("watchedcluster", "prod")["status"]["conditions"])
