"""AutoApproveLossless on Kubernetes: what is proven to lose nothing is recovered with nobody asked, and only that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from apiserver.incidents import (
    Object,
    Watched,
    awaiting,
    condition,
    finished,
    only_recovery,
    policy,
    told,
    watched_cluster,
)
from apiserver.outages import BETTER, LAST, SURVIVOR, Outages
from kafka_recovery.domain.ids import TopicPartition
from testbed.cluster import RealKafka
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until
from unit.simulator.play.playing import played_incident

pytestmark = [pytest.mark.apiserver, pytest.mark.usefixtures("operator")]

ORDERS = TopicPartition("orders", 0)
ALL = [LAST, BETTER, SURVIVOR]


def watched(kafka: Watched, controllers: str) -> Object:
    """With the controllers' listeners, to which everybody may come."""
    return watched_cluster(kafka, controllers={"bootstrapServers": controllers.split(",")})


def history_known(kubectl: Kubectl, reason: str) -> Mapping[str, Any]:
    """Wait until the WatchedCluster says so of the metadata log."""
    return wait_until(
        f"HistoryKnown: {reason}",
        lambda: condition(kubectl.api.get("watchedcluster", "prod"), "HistoryKnown"),
        lambda each: each.get("reason") == reason,
    )


def plan(of: Object) -> Any:
    """Of a recovery's status: how many elections there are, and of which class."""
    return of["status"]["plan"]["elections"], of["status"]["plan"]["lossClass"]


def test_what_kafka_calls_unclean_is_recovered_by_itself_because_the_log_proves_it(
    kubectl: Kubectl, operator: OperatorProcess
) -> None:
    with played_incident("lossless") as cluster:
        kubectl.apply(policy(approval="AutoApproveLossless"), watched(cluster, cluster.server.controllers))

        ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"])

        state = cluster.do(lambda: cluster.kafka.truth.state(ORDERS))
        assert history_known(kubectl, "AsExpected")["status"] == "True"
    assert ended["status"]["outcome"] == "Recovered", told(ended)
    assert plan(ended) == (1, "Lossless")
    assert "by" not in ended["status"].get("approval", {})
    assert state.leader == 2


def test_a_plan_that_waits_for_a_person_is_proven_once_the_log_can_be_read(
    kubectl: Kubectl, operator: OperatorProcess
) -> None:
    """The controllers' listeners were named wrongly."""
    with played_incident("lossless") as cluster:
        kubectl.apply(policy(approval="AutoApproveLossless"), watched(cluster, cluster.bootstrap))
        name = only_recovery(kubectl)["metadata"]["name"]
        waiting = awaiting(kubectl, name)
        assert plan(waiting) == (1, "Unknown")
        assert "is a broker's listener" in history_known(kubectl, "MetadataLogUnavailable")["message"]

        kubectl.apply(watched(cluster, cluster.server.controllers))

        ended = finished(kubectl, name)
    assert ended["status"]["outcome"] == "Recovered", told(ended)
    assert plan(ended) == (1, "Lossless")


@pytest.fixture
def kafka(kafka_without_elr: RealKafka) -> RealKafka:
    return kafka_without_elr


@pytest.mark.brokers
@pytest.mark.xdist_group("kafka")
def test_of_two_topics_of_one_outage_the_proven_one_is_recovered_and_its_lossy_twin_waits(
    made: Outages, kafka: RealKafka, kubectl: Kubectl, operator: OperatorProcess
) -> None:
    """Two of `pair` had to be in sync, and one of `alone`, whose last leader acknowledged by itself."""
    kubectl.apply(policy(approval="AutoApproveLossless"), watched(kafka, kafka.controller_address))
    history_known(kubectl, "AsExpected")
    for topic, minimum in (("pair", 2), ("alone", 1)):
        made.create(topic, [ALL], **{"min.insync.replicas": minimum})
        kafka.produce_to(topic, [0], 1, "both")
    made.freeze(SURVIVOR)
    kafka.produce_to("pair", [0], 1, "two have it")
    made.freeze(BETTER)
    kafka.produce_to("alone", [0], 1, "only the last leader has it")
    made.kafka.freeze(LAST)
    made.kafka.thaw(SURVIVOR)
    made.kafka.thaw(BETTER)
    kafka.wait_until_fenced(LAST)
    kafka.wait_until_unfenced(SURVIVOR, BETTER)

    waiting = awaiting(kubectl, only_recovery(kubectl)["metadata"]["name"])
    assert (made.leaders("pair"), made.leaders("alone")) == ([BETTER], [None])
    told_of = waiting["status"]["partitions"]
    assert (told_of["recovered"], told_of["awaitingApproval"], told_of["offline"]) == (1, 1, 1)
