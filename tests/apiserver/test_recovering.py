"""The whole operator on a real Kafka and a real API server: incidents, approvals, restarts, deletions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from apiserver import incidents
from apiserver.incidents import approval, awaiting, condition, finished, only_recovery, orders, policy, reason, seen
from testbed.cluster import RealKafka
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers]

FINALIZER = "kafka-recovery.dev/assignment-order"
SURVIVOR = 3


@pytest.fixture
def operator(account: Path, namespace: str, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator for the test's namespace with full authority, as its own service account."""
    process = OperatorProcess(account, namespace, tmp_path, "--authority=Automatic", "--lease-duration=6")
    with process:
        yield process


@pytest.fixture
def by_hand(kubectl: Kubectl, kafka: RealKafka) -> Kubectl:
    """A watched Kafka whose every plan a person approves."""
    kubectl.apply(policy(approval="ManualApprove"), incidents.watched_cluster(kafka))
    return kubectl


def test_an_incident_opens_by_itself_and_is_recovered_without_a_person(
    kafka: RealKafka, kubectl: Kubectl, operator: OperatorProcess
) -> None:
    kubectl.apply(policy(), incidents.watched_cluster(kafka))
    kafka.offline_partition("orders", {SURVIVOR: 25}, partitions=4)

    ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"])

    assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
    assert ended["status"]["partitions"] == {"total": 4, "recovered": 4, "refused": 0, "failed": 0, "waiting": 0}
    assert {state.leader for state in kafka.describe("orders").values()} == {SURVIVOR}
    assert set(orders(kafka, "orders").values()) == {(1, 2, 3)}
    assert "finalizers" not in ended["metadata"]


def test_what_happened_can_be_read_from_the_metrics(
    kafka: RealKafka, kubectl: Kubectl, operator: OperatorProcess, namespace: str
) -> None:
    kubectl.apply(policy(), incidents.watched_cluster(kafka))
    kafka.offline_partition("orders", {SURVIVOR: 25}, partitions=4)
    finished(kubectl, only_recovery(kubectl)["metadata"]["name"])

    with urlopen(f"http://127.0.0.1:{operator.metrics_port}/metrics", timeout=5) as answer:
        told = answer.read().decode()

    cluster = f'cluster="{namespace}/prod"'
    assert f'kafka_recovery_recoveries_total{{{cluster},loss_class="Unknown",outcome="Recovered"}} 1.0' in told
    assert 'kafka_recovery_phase_seconds_count{phase="verify"} 4.0' in told
    assert re.search(r"kafka_recovery_decision_seconds_count [1-9]", told)
    assert "kafka_recovery_lease_held 1.0" in told


def test_one_operator_can_watch_every_namespace(
    kafka: RealKafka, kubectl: Kubectl, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    elsewhere = control_plane.create_namespace("home-of-the-operator")
    options = "--all-namespaces", "--authority=Automatic", "--lease-duration=6"
    kubectl.apply(policy(), incidents.watched_cluster(kafka))

    with OperatorProcess(control_plane.administrator(), elsewhere, tmp_path, *options):
        watched = wait_until(
            "the cluster is watched",
            lambda: kubectl.json("get", "watchedcluster", "prod"),
            lambda each: condition(each, "Ready").get("status") == "True",
        )

    assert reason(watched, "KafkaHealthy") == "AllLed"


def test_a_plan_waits_for_a_person_and_tells_them_what_to_type(
    kafka: RealKafka, by_hand: Kubectl, operator: OperatorProcess
) -> None:
    kafka.offline_partition("orders", {SURVIVOR: 25})

    waiting = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])

    assert f"kubectl kafka-recovery plan {waiting['metadata']['name']}" in condition(waiting, "Ready")["message"]
    assert kafka.describe("orders")[0].leader is None


def test_an_approved_plan_is_carried_out(kafka: RealKafka, by_hand: Kubectl, operator: OperatorProcess) -> None:
    kafka.offline_partition("orders", {SURVIVOR: 25})
    waiting = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])

    by_hand.apply(approval(waiting))

    ended = finished(by_hand, waiting["metadata"]["name"])
    assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
    assert ended["status"]["approval"]["by"] == "testbed:administrator"
    assert ended["status"]["plan"]["digest"] == incidents.plan_digest(waiting)


def test_a_refused_plan_ends_the_recovery_and_nothing_is_elected(
    kafka: RealKafka, by_hand: Kubectl, operator: OperatorProcess
) -> None:
    kafka.offline_partition("orders", {SURVIVOR: 25})
    waiting = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])

    by_hand.apply(approval(waiting, decision="Refuse"))

    ended = finished(by_hand, waiting["metadata"]["name"])
    assert (ended["status"]["outcome"], reason(ended)) == ("Refused", "ApprovalRefused")
    assert kafka.describe("orders")[0].leader is None


def test_an_approval_of_another_plan_does_not_count_and_says_so(
    kafka: RealKafka, by_hand: Kubectl, operator: OperatorProcess
) -> None:
    kafka.offline_partition("orders", {SURVIVOR: 25})
    waiting = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])

    by_hand.apply(approval(waiting, planDigest="0" * 64))

    said = wait_until(
        "the approval is answered",
        lambda: by_hand.json("get", "recoveryapprovals")["items"][0],
        lambda each: bool(condition(each, "Accepted")),
    )
    assert reason(said, "Accepted") == "OtherPlan"
    assert kafka.describe("orders")[0].leader is None


def test_a_restart_keeps_the_plan_that_a_person_is_reading(
    kafka: RealKafka, by_hand: Kubectl, operator: OperatorProcess
) -> None:
    kafka.offline_partition("orders", {SURVIVOR: 25})
    waiting = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])

    operator.kill()
    by_hand.apply(approval(waiting))
    operator.start()

    ended = finished(by_hand, waiting["metadata"]["name"])
    assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
    assert ended["status"]["plan"]["digest"] == incidents.plan_digest(waiting)


def test_an_operator_that_observes_shows_its_plan_and_carries_none_out(
    kafka: RealKafka, kubectl: Kubectl, operator: OperatorProcess
) -> None:
    kubectl.apply(policy(), incidents.watched_cluster(kafka, authority="Observe"))
    kafka.offline_partition("orders", {SURVIVOR: 25})
    shown = seen(kubectl, only_recovery(kubectl)["metadata"]["name"], lambda each: reason(each) == "ObserveOnly")

    kubectl.apply(approval(shown))
    said = wait_until(
        "the approval is answered",
        lambda: kubectl.json("get", "recoveryapprovals")["items"][0],
        lambda each: bool(condition(each, "Accepted")),
    )

    assert reason(said, "Accepted") == "ObserveOnly"
    assert kafka.describe("orders")[0].leader is None
    kubectl.apply(incidents.watched_cluster(kafka, authority="Approve"))
    assert finished(kubectl, shown["metadata"]["name"])["status"]["outcome"] == "Recovered"


def test_a_suspended_recovery_waits_and_goes_on_when_resumed(
    kafka: RealKafka, by_hand: Kubectl, operator: OperatorProcess
) -> None:
    kafka.offline_partition("orders", {SURVIVOR: 25})
    name = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])["metadata"]["name"]

    by_hand("patch", "prec", name, "--type=merge", "-p", '{"spec": {"suspend": true}}')
    held = seen(by_hand, name, lambda each: reason(each) == "Suspended")
    by_hand.apply(approval(held))
    by_hand("patch", "prec", name, "--type=merge", "-p", '{"spec": {"suspend": false}}')

    assert finished(by_hand, name)["status"]["outcome"] == "Recovered"


def test_an_aborted_recovery_ends_and_changes_nothing(
    kafka: RealKafka, by_hand: Kubectl, operator: OperatorProcess
) -> None:
    kafka.offline_partition("orders", {SURVIVOR: 25})
    name = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])["metadata"]["name"]

    by_hand("patch", "prec", name, "--type=merge", "-p", '{"spec": {"abort": true}}')

    assert finished(by_hand, name)["status"]["outcome"] == "Aborted"
    assert kafka.describe("orders")[0].leader is None


def test_a_recovery_that_waits_is_deleted_at_once(
    kafka: RealKafka, by_hand: Kubectl, operator: OperatorProcess
) -> None:
    kafka.offline_partition("orders", {SURVIVOR: 25})
    name = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])["metadata"]["name"]

    by_hand("delete", "prec", name, "--timeout=5s", "--cascade=foreground")

    assert kafka.describe("orders")[0].leader is None


@pytest.mark.parametrize("moment", ["wave 1 of", "wave 2 of"])
def test_a_killed_operator_is_gone_on_with_where_it_stopped(
    kafka: RealKafka, kubectl: Kubectl, operator: OperatorProcess, moment: str
) -> None:
    kubectl.apply(policy(limits={"waveSizes": [1, 2]}), incidents.watched_cluster(kafka))
    kafka.offline_partition("orders", {SURVIVOR: 25}, partitions=12)
    operator.says(moment)

    operator.kill()
    operator.start()

    ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"], within=120)
    assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
    assert set(orders(kafka, "orders").values()) == {(1, 2, 3)}
    assert "finalizers" not in ended["metadata"]
