"""`holdBack: pods` on Pods that a real kubelet runs: the operator deletes them, and a StatefulSet makes them again.

The brokers run outside. The members of the ISR are frozen: dead to Kafka, as the Pods that stand for them crash.
"""

from __future__ import annotations

import pytest

from apiserver import incidents
from apiserver.incidents import Object, finished, only_recovery, orders, policy, recovered_with_its_orders
from apiserver.test_strimzi import DEFINITIONS, put, watched
from node.brokers import BrokerPods
from node.conftest import Install
from node.pods import OperatorPod
from testbed.cluster import RealKafka
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from unit.kube.clusters import strimzi

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.full, pytest.mark.timeout(600)]

DEAD = frozenset({1, 2})
WAVES = 120
"""So many partitions that a wave is caught while leaders are elected."""


@pytest.fixture
def operator(kafka: RealKafka, control_plane: ControlPlane, kubectl: Kubectl, install: Install) -> OperatorPod:
    """With the right to delete Pods, a policy that says so, and Strimzi's objects for this Kafka."""
    control_plane.apply_definitions(DEFINITIONS)
    installed = install(strimzi={"enabled": True, "holdBack": True})
    status = strimzi.kafka_status({"plain": kafka.bootstrap}, [strimzi.PLAIN], kafka.cluster_id)
    put(kubectl, strimzi.kafka(strimzi.PLAIN) | {"status": status})
    put(kubectl, strimzi.pool(*kafka.brokers))
    return installed


@pytest.fixture
def pods(kafka: RealKafka, kubectl: Kubectl, operator: OperatorPod) -> BrokerPods:
    """Dead ones, of brokers that died; from then on their Kafka is watched."""
    pods = BrokerPods(kubectl)
    pods.start(kafka.brokers, DEAD)
    incidents.accident(kafka, WAVES)
    held = policy()
    held["spec"]["holdBack"] = "pods"
    kubectl.apply(held, watched(kafka.cluster_id))
    return pods


def caught_holding(
    kafka: RealKafka, operator: OperatorPod, pods: BrokerPods, kubectl: Kubectl
) -> tuple[str, list[str]]:
    """Freeze the operator in a wave; the recovery, and the Pods that are gone and that nobody makes again."""
    before = pods.uids()
    incidents.caught_in_the_middle(kafka, operator)
    recovery = only_recovery(kubectl)
    name, held = recovery["metadata"]["name"], names(recovery)
    assert held, incidents.told(recovery)
    pods.gone(held)
    assert before.keys() - pods.uids().keys() == set(held), "no other Pod was touched"
    assert f"PartitionRecovery {name} holds Pod {held[0]} back" in pods.refused()
    return name, held


def names(recovery: Object) -> list[str]:
    """The Pods that a recovery holds back."""
    return [each["name"] for each in recovery["status"].get("holdBack", {}).get("pods", ())]


def test_dead_brokers_pods_are_deleted_and_refused_while_leaders_are_elected_and_run_again_after_the_end(
    kafka: RealKafka, operator: OperatorPod, kubectl: Kubectl, pods: BrokerPods
) -> None:
    before = pods.uids()
    name, held = caught_holding(kafka, operator, pods, kubectl)

    operator.thaw()
    ended = finished(kubectl, name, within=180)

    recovered_with_its_orders(kafka, ended)
    assert names(ended) == []
    back = pods.started(held)
    assert all(back[each] != before[each] for each in held)


def test_who_aborts_has_the_pods_back_at_once_though_the_operator_stands_still(
    kafka: RealKafka, operator: OperatorPod, kubectl: Kubectl, pods: BrokerPods
) -> None:
    name, held = caught_holding(kafka, operator, pods, kubectl)

    kubectl.api.patch("partitionrecovery", name, {"spec": {"abort": True}})
    pods.started(held)
    assert names(kubectl.api.get("partitionrecovery", name)) == held, "the operator has said nothing yet"

    operator.thaw()
    ended = finished(kubectl, name, within=180)
    assert names(ended) == []
    assert set(orders(kafka, "orders").values()) <= incidents.ORIGINAL


def test_an_operator_that_dies_while_it_holds_pods_leaves_none_held_once_the_next_has_ended_its_recovery(
    kafka: RealKafka, operator: OperatorPod, kubectl: Kubectl, pods: BrokerPods
) -> None:
    name, held = caught_holding(kafka, operator, pods, kubectl)

    operator.delete_by_force()
    operator.gone()
    ended = finished(kubectl, name, within=180)

    recovered_with_its_orders(kafka, ended)
    assert names(ended) == []
    pods.started(held)
    assert OperatorPod(kubectl).name != operator.name
