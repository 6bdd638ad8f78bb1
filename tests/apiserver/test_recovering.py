"""The whole operator on a real Kafka and a real API server: each thing that a person may want of it, once.

What else there is to say of each is told in `unit/kube`, in milliseconds.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.request import urlopen

import pytest

from apiserver import incidents
from apiserver.conftest import shown
from apiserver.forked import launched
from apiserver.incidents import approval, awaiting, condition, finished, only_recovery, policy, reason
from apiserver.outages import LAST, SURVIVOR, Outages
from testbed.cluster import RealKafka
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.xdist_group("kafka")]


@pytest.fixture
def operator(account: Path, namespace: str, tmp_path: Path) -> OperatorProcess:
    """As its own service account; a test starts it."""
    options = "--authority=Automatic", "--lease-duration=6"
    return OperatorProcess(account, namespace, tmp_path, *options, launch=launched())


@pytest.fixture
def by_hand(kubectl: Kubectl, kafka: RealKafka) -> Kubectl:
    """A watched Kafka whose every plan a person approves."""
    kubectl.apply(policy(approval="ManualApprove"), incidents.watched_cluster(kafka))
    return kubectl


def measured(operator: OperatorProcess) -> str:
    """What its metrics say now."""
    with urlopen(f"http://127.0.0.1:{operator.metrics_port}/metrics", timeout=5) as answer:
        told: str = answer.read().decode()
    return told


def test_an_incident_opens_by_itself_and_is_recovered_without_a_person_as_its_metrics_tell(
    made: Outages, kubectl: Kubectl, account: Path, namespace: str, tmp_path: Path
) -> None:
    """The program as it is shipped, in a Python of its own, and so half a minute on a busy machine."""
    options = "--authority=Automatic", "--lease-duration=6"
    with shown(OperatorProcess(account, namespace, tmp_path, *options)) as operator:
        operator.says("this process holds the Lease", within=60)
        kubectl.apply(policy(), incidents.watched_cluster(made.kafka))
        made.lose(orders=4)

        ended = finished(kubectl, only_recovery(kubectl)["metadata"]["name"])

        of = f'loss_class="Unknown",name="prod",namespace="{namespace}",outcome="Recovered"'
        counted = f"kafka_recovery_recoveries_total{{{of}}} 1.0"
        told = wait_until("the end is counted, once it is told", lambda: measured(operator), lambda all: counted in all)
    assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
    counts = {where: number for where, number in ended["status"]["partitions"].items() if number}
    assert counts == {"total": 4, "recovered": 4}
    assert made.leaders("orders") == [SURVIVOR] * 4
    assert set(incidents.orders(made.kafka, "orders").values()) == {(LAST, SURVIVOR)}
    assert "finalizers" not in ended["metadata"]
    assert 'kafka_recovery_phase_seconds_count{phase="verify"} 4.0' in told
    assert re.search(r"kafka_recovery_decision_seconds_count [1-9]", told)
    assert 'kafka_recovery_lease_held{program="operator"} 1.0' in told


def test_a_plan_waits_for_a_person_who_is_told_what_to_type_and_is_carried_out_when_they_approve(
    made: Outages, by_hand: Kubectl, operator: OperatorProcess
) -> None:
    with shown(operator):
        made.lose(orders=1)
        waiting = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])
        assert f"kubectl kafka-recovery plan {waiting['metadata']['name']}" in condition(waiting, "Ready")["message"]
        assert made.leaders("orders") == [None]

        by_hand.apply(approval(waiting))

        ended = finished(by_hand, waiting["metadata"]["name"])
    assert ended["status"]["outcome"] == "Recovered", incidents.told(ended)
    assert ended["status"]["approval"]["by"] == "testbed:administrator"
    assert ended["status"]["plan"]["digest"] == incidents.plan_digest(waiting)


def test_an_approval_of_another_plan_does_not_count_and_a_refusal_ends_the_recovery(
    made: Outages, by_hand: Kubectl, operator: OperatorProcess
) -> None:
    with shown(operator):
        made.lose(orders=1)
        waiting = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])

        by_hand.apply(approval(waiting, planDigest="0" * 64))
        said = wait_until(
            "the approval is answered",
            lambda: by_hand.api.listed("recoveryapprovals")[0],
            lambda each: bool(condition(each, "Accepted")),
        )
        by_hand.apply(approval(waiting, decision="Refuse"))
        ended = finished(by_hand, waiting["metadata"]["name"])

    assert reason(said, "Accepted") == "PlanOutdated"
    assert (ended["status"]["outcome"], reason(ended)) == ("RefusedByApprover", "RefusedByApprover")
    assert made.leaders("orders") == [None]


def test_a_recovery_that_waits_is_deleted_at_once(made: Outages, by_hand: Kubectl, operator: OperatorProcess) -> None:
    with shown(operator):
        made.lose(orders=1)
        name = awaiting(by_hand, only_recovery(by_hand)["metadata"]["name"])["metadata"]["name"]

        by_hand("delete", "prec", name, "--timeout=5s", "--cascade=foreground")

        assert made.leaders("orders") == [None]
