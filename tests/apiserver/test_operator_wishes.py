"""Wishes that change while a recovery is under way: a policy, the suspension of the operator, an attestation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from apiserver import incidents
from apiserver.incidents import (
    Object,
    approval,
    awaiting,
    cluster,
    condition,
    finished,
    only_recovery,
    orders,
    plan_digest,
    policy,
    reason,
    recoveries,
    seen,
)
from apiserver.outages import LAST, SURVIVOR, Outages
from testbed.kubernetes.kubectl import Kubectl
from testbed.operator_process import OperatorProcess
from testbed.waiting import wait_until
from unit.kube.specs import ATTESTATION

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

ONE_BY_ONE = {"waveSizes": [1]}


def lies_still(kubectl: Kubectl, name: str, code: str) -> Object:
    """Wait until a recovery does nothing for this reason."""
    return seen(kubectl, name, lambda each: reason(each) == code)


def answered(kubectl: Kubectl, name: str) -> str:
    """Wait until an approval has its answer."""
    said = wait_until(
        f"approval {name} is answered",
        lambda: kubectl.api.get("recoveryapproval", name),
        lambda each: bool(condition(each, "Accepted")),
    )
    return reason(said, "Accepted")


def opened(kubectl: Kubectl) -> str:
    """The name of the only recovery."""
    return str(only_recovery(kubectl)["metadata"]["name"])


class TestPolicy:
    def test_without_its_policy_nothing_is_opened_and_with_it_goes_on(
        self, made: Outages, kubectl: Kubectl, operator: OperatorProcess
    ) -> None:
        kubectl.apply(incidents.watched_cluster(made.kafka))
        told = cluster(kubectl, lambda each: reason(each) == "InvalidReference")
        assert "there is no RecoveryPolicy" in condition(told, "Ready")["message"]
        made.lose(orders=2)
        cluster(kubectl, lambda each: each["status"]["offlinePartitions"] == 2)
        assert recoveries(kubectl) == []

        kubectl.apply(policy())

        assert finished(kubectl, opened(kubectl))["status"]["outcome"] == "Recovered"
        assert reason(cluster(kubectl, lambda each: condition(each, "Ready").get("status") == "True")) == "AsExpected"

    def test_a_policy_made_stricter_between_waves_asks_for_the_rest(
        self, made: Outages, kubectl: Kubectl, operator: OperatorProcess
    ) -> None:
        """Half a minute on a busy machine: eight waves, that there is time between them."""
        kubectl.apply(policy(limits=ONE_BY_ONE), incidents.watched_cluster(made.kafka))
        made.lose(orders=8)
        name = opened(kubectl)
        operator.says("wave 1 of 8")

        kubectl.apply(policy(limits=ONE_BY_ONE, approval="ManualApprove"))

        waiting = awaiting(kubectl, name)
        left = waiting["status"]["partitions"]
        assert 0 < left["recovered"] < 8
        assert set(orders(made.kafka, "orders").values()) == {(LAST, SURVIVOR)}
        assert made.leaders("orders").count(SURVIVOR) == left["recovered"]
        kubectl.apply(approval(waiting))
        assert finished(kubectl, name)["status"]["partitions"]["recovered"] == 8


class TestAuthority:
    def test_one_record_suspends_the_whole_operator(
        self, made: Outages, kubectl: Kubectl, operator: OperatorProcess
    ) -> None:
        switch = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kafka-recovery-operator"}}
        kubectl.apply(switch | {"data": {"suspend": "maintenance until noon"}})
        kubectl.apply(policy(), incidents.watched_cluster(made.kafka))
        made.lose(orders=1)

        held = lies_still(kubectl, opened(kubectl), "Suspended")

        assert "maintenance until noon" in condition(held, "Ready")["message"]
        assert made.leaders("orders") == [None]
        kubectl.apply(switch | {"data": {"suspend": "false"}})
        assert finished(kubectl, held["metadata"]["name"])["status"]["outcome"] == "Recovered"


class TestApprovals:
    def test_a_lost_disk_that_a_person_attests_makes_another_plan_which_is_approved_and_carried_out(
        self, made: Outages, kubectl: Kubectl, operator: OperatorProcess
    ) -> None:
        kubectl.apply(policy(approval="ManualApprove"), incidents.watched_cluster(made.kafka))
        made.lose(orders=1)
        before = awaiting(kubectl, opened(kubectl))
        name, now = before["metadata"]["name"], datetime.now(UTC)
        said = {
            **ATTESTATION,
            "broker": LAST,
            "at": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "expires": f"{now + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
        }

        kubectl.api.patch("partitionrecovery", name, {"spec": {"attestations": [said]}})
        kubectl.apply(approval(before))
        after = seen(
            kubectl, name, lambda each: reason(each) == "AwaitingApproval" and plan_digest(each) != plan_digest(before)
        )

        assert answered(kubectl, f"{name}-approve") == "PlanOutdated"
        assert "attested at" in after["status"]["plan"]["summary"]
        assert f"the disk of broker {LAST} is lost for good (INC-7" in after["status"]["plan"]["summary"]
        kubectl.apply(approval(after) | {"metadata": {"name": "now"}})
        assert finished(kubectl, name)["status"]["outcome"] == "Recovered"
        assert made.leaders("orders") == [SURVIVOR]
