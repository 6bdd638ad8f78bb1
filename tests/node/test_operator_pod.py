"""The operator as its chart installs it: a Pod of the image on a real kubelet, and a real Kafka outside."""

from __future__ import annotations

import pytest

from apiserver import incidents
from apiserver.incidents import FINALIZER, ORIGINAL, finished, only_recovery, orders, policy, recovered_with_its_orders
from node.conftest import Install
from node.pods import OperatorPod
from testbed.cluster import RealKafka
from testbed.kubernetes.kubectl import Kubectl

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.full, pytest.mark.timeout(600)]


def test_a_pod_of_the_image_recovers_a_kafka_outside(kafka: RealKafka, kubectl: Kubectl, install: Install) -> None:
    operator = install()
    kubectl.apply(policy(), incidents.watched_cluster(kafka))
    incidents.accident(kafka)

    ended = finished(kubectl, only_recovery(kubectl, within=60)["metadata"]["name"])

    recovered_with_its_orders(kafka, ended)
    status = kubectl.json("get", "pod", operator.name)["status"]["containerStatuses"][0]
    assert (status["ready"], status["restartCount"]) == (True, 0)


def test_a_pod_deleted_by_force_in_the_middle_of_a_wave_leaves_a_recovery_that_the_next_one_ends(
    kafka: RealKafka, kubectl: Kubectl, install: Install
) -> None:
    first = install()
    kubectl.apply(policy(), incidents.watched_cluster(kafka))
    incidents.accident(kafka, partitions=120)

    incidents.caught_in_the_middle(kafka, first)
    first.delete_by_force()
    first.gone()
    left = only_recovery(kubectl)
    assert left["metadata"]["finalizers"] == [FINALIZER]
    assert not set(orders(kafka, "orders").values()) <= ORIGINAL, "it was to die while an order was altered"

    ended = finished(kubectl, left["metadata"]["name"], within=180)
    recovered_with_its_orders(kafka, ended)
    assert OperatorPod(kubectl).name != first.name


def test_it_runs_where_only_the_most_restricted_pods_may(kubectl: Kubectl, install: Install, namespace: str) -> None:
    kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")

    operator = install()

    assert kubectl("exec", operator.name, "--", "id", "-u").strip() == "65532"
