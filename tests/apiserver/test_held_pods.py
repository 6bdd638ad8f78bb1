"""Pods that an unfinished recovery holds back: manifests/admission/held-pods.yaml, on a real API server."""

from __future__ import annotations

import time
from typing import Any

import pytest
from kubernetes.client import ApiException, CoreV1Api

from apiserver.objects import Asking, Refused
from apiserver.test_admission import documents, person
from kafka_recovery.kube.resources.kinds import RECOVERIES
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until
from unit.kube.specs import RECOVERY

pytestmark = pytest.mark.apiserver

PARTITIONS = "prod-0123456789"
POD = "prod-brokers-4"
BROKER = {"strimzi.io/cluster": "prod", "strimzi.io/broker-role": "true"}


@pytest.fixture(scope="module")
def guarded(control_plane: ControlPlane) -> ControlPlane:
    """A control plane where the policy is at work, and that knows the example roles."""
    control_plane.kubectl().apply(*documents("rbac/people.yaml", ""))
    home = control_plane.create_namespace("probed")
    hold(Asking(control_plane.client(), home), PARTITIONS, POD)
    wait_until("Pods are checked", lambda: refusal(control_plane, home, POD), bool)
    return control_plane


@pytest.fixture
def admin(guarded: ControlPlane, namespace: str) -> Asking:
    return Asking(guarded.client(), namespace)


def hold(who: Asking, recovery: str, *pods: str) -> None:
    """As the operator does it: a recovery whose status names these Pods."""
    if recovery not in who.names(RECOVERIES, ""):
        who.create(RECOVERIES, recovery, RECOVERY)
    names(who, recovery, *pods)


def names(who: Asking, recovery: str, *pods: str) -> None:
    held = [{"name": pod, "broker": int(pod.rpartition("-")[2])} for pod in pods]
    who.patch_status(RECOVERIES, recovery, {"holdBack": {"pods": held}})


def refusal(home: ControlPlane, namespace: str, pod: str, *, labels: dict[str, str] | None = None) -> str:
    """What the API server says to the creation of a Pod; empty: it would create it."""
    body: Any = {
        "metadata": {"name": pod, "labels": labels or BROKER},
        "spec": {"containers": [{"name": "kafka", "image": "none.example/kafka"}]},
    }
    try:
        CoreV1Api(home.client()).create_namespaced_pod(namespace, body, dry_run="All")
    except ApiException as no:
        return str(no.body)
    return ""


def is_held(home: ControlPlane, namespace: str, pod: str) -> None:
    wait_until(f"{pod} is held", lambda: refusal(home, namespace, pod), bool, 10)


def is_free(home: ControlPlane, namespace: str, pod: str) -> None:
    wait_until(f"{pod} is let go", lambda: refusal(home, namespace, pod), lambda said: not said, 10)


def test_a_held_pod_is_created_by_nobody_and_the_refusal_says_by_whom_and_how_to_let_it_go(
    guarded: ControlPlane, namespace: str, admin: Asking
) -> None:
    hold(admin, PARTITIONS, POD)
    is_held(guarded, namespace, POD)

    said = refusal(guarded, namespace, POD)
    assert "PartitionRecovery prod-0123456789 holds Pod prod-brokers-4 back" in said
    assert f"kubectl patch partitionrecovery prod-0123456789 --namespace {namespace} --type merge" in said
    assert not refusal(guarded, namespace, "prod-brokers-5")
    assert not refusal(guarded, namespace, POD, labels={"app": "another"})
    assert not refusal(guarded, guarded.create_namespace("elsewhere"), POD)


def test_two_recoveries_hold_each_their_own(guarded: ControlPlane, namespace: str, admin: Asking) -> None:
    hold(admin, PARTITIONS, POD)
    hold(admin, "prod-2", "prod-brokers-5")

    for pod in (POD, "prod-brokers-5"):
        is_held(guarded, namespace, pod)
    assert not refusal(guarded, namespace, "prod-brokers-6")
    names(admin, PARTITIONS)
    is_free(guarded, namespace, POD)
    assert "prod-2 holds" in refusal(guarded, namespace, "prod-brokers-5")


@pytest.mark.parametrize(
    "ends",
    [
        lambda who: names(who, PARTITIONS),
        lambda who: who.patch_status(RECOVERIES, PARTITIONS, {"finished": True}),
        lambda who: who.patch(RECOVERIES, PARTITIONS, abort=True),
    ],
    ids=["let go", "finished", "aborted"],
)
def test_a_pod_is_let_go_at_once_by_what_the_recovery_says(
    guarded: ControlPlane, namespace: str, admin: Asking, ends: Any
) -> None:
    hold(admin, PARTITIONS, POD)
    is_held(guarded, namespace, POD)

    ends(admin)

    is_free(guarded, namespace, POD)


def test_a_recovery_that_is_deleted_holds_nothing_even_before_the_operator_lets_it_go(
    guarded: ControlPlane, namespace: str, admin: Asking, kubectl: Kubectl
) -> None:
    hold(admin, PARTITIONS, POD)
    admin.patch_metadata(RECOVERIES, PARTITIONS, finalizers=["kafka-recovery.dev/assignment-order"])
    is_held(guarded, namespace, POD)

    kubectl.api.delete("partitionrecovery", PARTITIONS)

    is_free(guarded, namespace, POD)


def test_a_suspended_recovery_goes_on_holding(guarded: ControlPlane, namespace: str, admin: Asking) -> None:
    hold(admin, PARTITIONS, POD)
    is_held(guarded, namespace, POD)

    admin.patch(RECOVERIES, PARTITIONS, suspend=True)

    time.sleep(1)
    assert refusal(guarded, namespace, POD)


def test_who_may_open_recoveries_holds_no_pod_by_that(guarded: ControlPlane, namespace: str) -> None:
    eve = person(guarded, namespace, "eve", "responder")
    eve.create(RECOVERIES, PARTITIONS, RECOVERY)

    with pytest.raises(Refused, match="cannot patch resource"):
        names(eve, PARTITIONS, POD)
    assert not refusal(guarded, namespace, POD)


def test_only_with_a_role_of_its_own_may_the_operator_delete_pods_and_never_make_one(
    guarded: ControlPlane, namespace: str
) -> None:
    admin = guarded.kubectl(guarded.administrator(namespace))
    admin.apply(*documents("rbac/operator.yaml", namespace), *documents("rbac/optional/strimzi.yaml", namespace))
    operator = f"system:serviceaccount:{namespace}:kafka-recovery-operator"
    wait_until("it may look", lambda: admin.api.may("list", "pods", user=operator), bool)
    assert not admin.api.may("delete", "pods", user=operator)

    admin.apply(*documents("rbac/optional/hold-back.yaml", namespace))

    wait_until("it may", lambda: admin.api.may("delete", "pods", user=operator), bool)
    for more in ("create", "patch", "deletecollection"):
        assert not admin.api.may(more, "pods", user=operator)


def test_without_our_definitions_every_pod_is_created(guarded: ControlPlane, namespace: str, kubectl: Kubectl) -> None:
    """The policy is asked about all Pods of all namespaces: what it can't find must not stop a cluster."""
    (policy, binding) = documents("admission/held-pods.yaml", "")
    for each in (policy, binding):
        each["metadata"]["name"] = "unserved.kafka-recovery.dev"
    policy["spec"]["paramKind"]["kind"] = "Unserved"
    binding["spec"]["policyName"] = "unserved.kafka-recovery.dev"
    kubectl.apply(policy, binding)
    try:
        for _ in range(20):
            assert not refusal(guarded, namespace, POD)
            time.sleep(0.2)
    finally:
        for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding"):
            kubectl.api.delete(kind, "unserved.kafka-recovery.dev")
