"""Our own path to Kafka is cut, or one of several clusters hangs: nothing is done blindly, nobody else is held up."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from apiserver import incidents
from apiserver.conftest import shown
from apiserver.forked import launched
from apiserver.incidents import (
    Object,
    condition,
    finished,
    only_recovery,
    orders,
    policy,
    recoveries,
)
from apiserver.outages import LAST, SURVIVOR, Outages
from testbed.cluster import RealKafka
from testbed.faults import BlackHole
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until
from testbed.warm import WarmKafka

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers]

PROBE = 1.0
"""Seconds between two looks at a cluster."""
BEAT = 0.5
"""Seconds until a metric shows the last look."""


@pytest.fixture
def kafka(warm: WarmKafka) -> Iterator[RealKafka]:
    """The operator reaches each broker through a proxy, and no other way."""
    with warm.lent(proxied=(1, 2, 3)) as cluster:
        yield cluster


@pytest.fixture
def operator(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator for the test's namespace with full authority."""
    options = ("--authority=Automatic", "--no-lease", f"--probe={PROBE:g}s")
    who = control_plane.administrator(namespace)
    with shown(OperatorProcess(who, namespace, tmp_path, *options, launch=launched())) as process:
        yield process


@contextmanager
def cut_off(kafka: RealKafka) -> Iterator[None]:
    """All of the operator's connections break, and no new one is made; among themselves the brokers are well."""
    for broker in kafka.brokers:
        kafka.proxy(broker).cut()
    try:
        yield
    finally:
        for broker in kafka.brokers:
            kafka.proxy(broker).restore()


def trusted(kubectl: Kubectl, status: str) -> Object:
    """Wait until the WatchedCluster says so of itself."""
    return wait_until(
        f"ViewTrusted is {status}",
        lambda: kubectl.api.get("watchedcluster", "prod"),
        lambda each: condition(each, "ViewTrusted").get("status") == status,
    )


def test_nothing_is_opened_while_our_path_is_cut_and_it_is_afterwards(
    made: Outages, kubectl: Kubectl, operator: OperatorProcess
) -> None:
    """Half a minute on a busy machine: a Kafka behind proxies is started for it."""
    kubectl.apply(policy(), incidents.watched_cluster(made.kafka))
    trusted(kubectl, "True")

    with cut_off(made.kafka):
        trusted(kubectl, "False")
        made.lose(orders=2)
        assert recoveries(kubectl) == []
        assert made.leaders("orders") == [None, None]

    ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"])
    assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
    trusted(kubectl, "True")


def test_a_path_that_is_cut_between_waves_stops_the_rest_and_leaves_no_order_altered_in_the_end(
    made: Outages, kubectl: Kubectl, operator: OperatorProcess
) -> None:
    kubectl.apply(policy(limits={"waveSizes": [1]}), incidents.watched_cluster(made.kafka))
    made.lose(orders=8)
    name = only_recovery(kubectl)["metadata"]["name"]
    operator.says("wave 2 of 8")

    with cut_off(made.kafka):
        trusted(kubectl, "False")
        before = made.leaders("orders")
        assert None in before

    ended = finished(kubectl, name, within=120)
    assert ended["status"]["partitions"]["recovered"] == 8, incidents.told(ended)
    assert set(orders(made.kafka, "orders").values()) == {(LAST, SURVIVOR)}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("well", [1, pytest.param(9, marks=pytest.mark.full)])
def test_one_hung_cluster_of_several_does_not_hold_up_the_others(
    kafka: RealKafka, kubectl: Kubectl, operator: OperatorProcess, well: int
) -> None:
    """Looks on for ten seconds, after which a silent broker is given up."""
    with ExitStack() as stack:
        kafkas = [kafka, *(stack.enter_context(RealKafka(brokers=1, heap=64)) for _ in range(well - 1))]
        hung = stack.enter_context(BlackHole())
        watched = [incidents.watched_cluster(kafka, f"well-{number}") for number, kafka in enumerate(kafkas)]
        silent = incidents.watched_cluster(
            kafkas[0], "hung", clusterId="another-cluster-000001", bootstrapServers=[hung.address]
        )
        kubectl.apply(policy(), *watched, silent)
        wait_until("the others are probed", lambda: probes(operator), lambda found: len(found) == well)
        wait_until(
            "the hung one is told",
            lambda: kubectl.api.get("watchedcluster", "hung"),
            lambda each: condition(each, "Ready").get("status") == "False",
        )

        longest = max(worst_age(operator) for _ in range(100))

    assert longest <= 2 * PROBE + BEAT


def worst_age(operator: OperatorProcess) -> float:
    """Seconds since the last look at the cluster that was looked at least recently; sampled ten times a second."""
    time.sleep(0.1)
    return time.time() - min(probes(operator).values())


def probes(operator: OperatorProcess) -> dict[str, float]:
    """When each cluster that ever answered did so last, by its label."""
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.metrics_port}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    found = (line.rsplit(" ", 1) for line in lines if line.startswith("kafka_recovery_last_probe_timestamp_seconds{"))
    return {series: float(value) for series, value in found}
