"""The operator on a Kafka that is only played: it needs no Java, and it is recovered all the same."""

from __future__ import annotations

import pytest

from apiserver.incidents import finished, only_recovery, policy, told, watched_cluster
from kafka_recovery.domain.ids import TopicPartition
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
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
