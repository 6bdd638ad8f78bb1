"""The whole operator on a Kafka of Strimzi's: a broker is killed and starts again in its Pod, and that proves enough.

Real are Kafka, the API server, the operator and the rights that we ship. No kubelet runs: the test writes what one
would of Pods and nodes, and the operator knows where a process lives after ten seconds in place of five minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver.forked import launched
from apiserver.incidents import (
    Object,
    Start,
    awaiting,
    condition,
    finished,
    only_recovery,
    plan_digest,
    policy,
    reason,
    seen,
    told,
)
from apiserver.kubelets import Kubelets
from apiserver.test_pods import allow
from apiserver.test_strimzi import DEFINITIONS, put, watched
from brokers.acknowledged import Acknowledged, acknowledging
from testbed.cluster import RealKafka
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until
from unit.kube.clusters import strimzi
from unit.kube.clusters.strimzi import PLAIN, kafka_status, pool

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

LAST, KILLED, BEHIND = 1, 2, 3
SETTLED = 10.0


@pytest.fixture
def kafka(kafka_without_elr: RealKafka) -> RealKafka:
    """Nothing else than its Pod says that a killed broker is intact."""
    return kafka_without_elr


@pytest.fixture
def kubelets(
    kafka: RealKafka, control_plane: ControlPlane, kubectl: Kubectl, namespace: str, account: Path
) -> Iterator[Kubelets]:
    """Strimzi's objects, as far as they are looked at, and a Pod on a node of its own for each broker."""
    control_plane.apply_definitions(DEFINITIONS)
    for part in ("strimzi", "nodes"):
        allow(kubectl, namespace, part)
    addresses = {"plain": kafka.bootstrap}
    put(kubectl, strimzi.kafka(PLAIN) | {"status": kafka_status(addresses, [PLAIN], kafka.cluster_id)})
    put(kubectl, pool(*kafka.brokers))
    with Kubelets(kubectl, namespace, kafka.brokers) as found:
        yield found


def cluster_of(kafka: RealKafka) -> Object:
    """The WatchedCluster: brokers as Strimzi says, and the controllers' own listener."""
    found = watched(kafka.cluster_id)
    found["spec"]["controllers"] = {"bootstrapServers": [kafka.controller_address]}
    return found


def restarts_are_seen(kubectl: Kubectl) -> None:
    wait_until(
        "where brokers live is looked at",
        lambda: condition(kubectl.api.get("watchedcluster", "prod"), "HistoryKnown"),
        lambda said: "was seen to start again in its Pod" in said.get("message", ""),
    )


def killed_one_after_the_other(kafka: RealKafka, kubelets: Kubelets) -> Acknowledged:
    """One lags behind, the next is killed, and then the last of the ISR: all that was acknowledged both had."""
    with acknowledging(kafka.bootstrap, ["orders"]) as acknowledged:
        acknowledged.wait_for_more("orders")
        kafka.freeze(BEHIND)
        kafka.wait_until_fenced(BEHIND)
        acknowledged.wait_for_more("orders", 500)
        kafka.kill(KILLED)
        kubelets[KILLED].crashes()
        kafka.wait_until_fenced(KILLED)
        kafka.kill(LAST)
        kubelets[LAST].crashes()
        kafka.thaw(BEHIND)
        kafka.wait_until_unfenced(BEHIND)
        kafka.wait_until_fenced(LAST)
    return acknowledged


@pytest.fixture
def acknowledged(kafka: RealKafka, kubelets: Kubelets, kubectl: Kubectl, start: Start) -> Acknowledged:
    """The operator has seen for a while where brokers live; then two of them are killed."""
    rules = policy(approval="AutoApproveLossless", evidence={"deadline": "1s", "attempts": 1, "maxAge": "5s"})
    kubectl.apply(rules, cluster_of(kafka))
    start(launch=launched(settled=SETTLED))
    kafka.create_topic("orders", [[LAST, KILLED, BEHIND]], min_insync_replicas=2)
    restarts_are_seen(kubectl)
    kubelets.go_on(1.5 * SETTLED)
    return killed_one_after_the_other(kafka, kubelets)


def asked_about(kubectl: Kubectl) -> str:
    """The recovery, once its plan waits for a person: nothing is proven of whom it would elect."""
    name = str(only_recovery(kubectl)["metadata"]["name"])
    assert awaiting(kubectl, name)["status"]["plan"]["lossClass"] == "Unknown"
    return name


def starts_again(kafka: RealKafka, kubelets: Kubelets) -> None:
    kafka.start(KILLED)
    kubelets[KILLED].runs(f"second-of-{KILLED}", restarts=8)
    kafka.wait_until_unfenced(KILLED)


def test_a_broker_that_starts_again_in_its_pod_is_elected_with_nobody_asked_and_has_all_that_was_acknowledged(
    kafka: RealKafka, kubelets: Kubelets, acknowledged: Acknowledged, kubectl: Kubectl
) -> None:
    """Before it is back a person is asked: the copy that is behind may lack anything.

    Takes 60 s: sessions have to run out, and two processes of the broker to be seen for ten seconds each.
    """
    name = asked_about(kubectl)

    starts_again(kafka, kubelets)
    ended = finished(kubectl, name, within=120)

    assert ended["status"]["outcome"] == "Recovered", told(ended)
    assert (ended["status"]["plan"]["lossClass"], ended["status"].get("approval")) == ("Lossless", None), told(ended)
    assert kafka.describe("orders")[0].leader == KILLED
    kept = set(kafka.consume("orders", 0))
    assert [value for value in acknowledged.values["orders"] if value not in kept] == []


@pytest.mark.full
def test_one_that_starts_on_another_boot_of_its_node_is_asked_about(
    kafka: RealKafka, kubelets: Kubelets, acknowledged: Acknowledged, kubectl: Kubectl
) -> None:
    """What was not on its disk yet is gone then, and nobody can tell what that was. Takes 60 s, as the other one."""
    name = asked_about(kubectl)
    of_the_one_behind = plan_digest(awaiting(kubectl, name))

    kubelets[KILLED].boot = "tuesday"
    starts_again(kafka, kubelets)
    seen(kubectl, name, lambda each: reason(each) == "AwaitingApproval" and plan_digest(each) != of_the_one_behind)
    kubelets.go_on(2 * SETTLED)

    assert awaiting(kubectl, name)["status"]["plan"]["lossClass"] == "Unknown"
    assert kafka.describe("orders")[0].leader is None
