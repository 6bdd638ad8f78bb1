"""Plans that are deleted, replaced or somebody else's, and recoveries that come back from a backup."""

from __future__ import annotations

import base64
import gzip
import hashlib

import pytest

from apiserver.incidents import (
    Object,
    Start,
    accident,
    approval,
    awaiting,
    caught_in_the_middle,
    condition,
    finished,
    only_recovery,
    plan_digest,
    policy,
    reason,
    recovered_with_its_orders,
    seen,
    watched_cluster,
)
from testbed.cluster import RealKafka
from testbed.kubernetes.kubectl import Kubectl
from testbed.waiting import wait_until

pytestmark = [pytest.mark.apiserver, pytest.mark.brokers, pytest.mark.timeout(300), pytest.mark.xdist_group("kafka")]

QUARANTINED = 120.0
"""Seconds in which a recovery is over whose requests had to be waited out."""
UID = "kafka-recovery.dev/recovery-uid"


def test_a_run_whose_plan_is_not_what_it_was_stalls_until_that_is_restored(
    kafka: RealKafka, kubectl: Kubectl, start: Start
) -> None:
    """Half a minute: four starts, and twelve waves in the end."""
    accident(kafka)
    operator = start("--no-lease")
    kubectl.apply(policy(limits={"waveSizes": [1]}), watched_cluster(kafka))
    caught_in_the_middle(kafka, operator)
    operator.kill()
    name = only_recovery(kubectl)["metadata"]["name"]
    plan = plan_of(kubectl)
    before = kafka.describe("orders")

    for damaged, said in ((None, "it is missing"), (replaced(plan), "replaced"), (of_another(plan), "uid 00000000")):
        tear_out(kubectl, plan)
        if damaged:
            kubectl.api.create(damaged)
        operator.start()
        stalled = seen(kubectl, name, lambda each, said=said: said in condition(each, "Stalled")["message"])
        operator.kill()
        assert condition(stalled, "Stalled")["status"] == "True"
        assert reason(stalled) == "JournalDamaged"
        assert plan["metadata"]["name"] in condition(stalled, "Stalled")["message"]

    assert kafka.describe("orders") == before
    tear_out(kubectl, plan)
    kubectl.api.create(plan)
    operator.start()
    recovered_with_its_orders(kafka, finished(kubectl, name, within=QUARANTINED))


def test_a_recovery_from_a_backup_asks_for_approval_again(kafka: RealKafka, kubectl: Kubectl, start: Start) -> None:
    accident(kafka)
    operator = start("--no-lease")
    kubectl.apply(policy(approval="ManualApprove"), watched_cluster(kafka))
    old = awaiting(kubectl, only_recovery(kubectl)["metadata"]["name"])
    name = old["metadata"]["name"]
    operator.kill()
    kubectl.apply(approval(old))
    kubectl("delete", "prec", name)
    kubectl("create", "-f", "-", given=anew(old))
    kubectl("replace", "--subresource=status", "-f", "-", given=anew(old))

    operator.start()

    said = wait_until(
        "the old approval is answered",
        lambda: kubectl.api.listed("recoveryapprovals")[0],
        lambda each: bool(condition(each, "Accepted")),
    )
    assert reason(said, "Accepted") == "PlanOutdated"
    asking = seen(
        kubectl, name, lambda each: reason(each) == "AwaitingApproval" and plan_digest(each) != plan_digest(old)
    )
    assert {state.leader for state in kafka.describe("orders").values()} == {None}
    kubectl("delete", "rappr", "--all")
    kubectl.apply(approval(asking))
    recovered_with_its_orders(kafka, finished(kubectl, name))


def plan_of(kubectl: Kubectl) -> Object:
    """The RecoveryRecord of the only plan, as a backup holds it."""
    [found] = kubectl.api.listed("recoveryrecords", "kafka-recovery.dev/fact=plan")
    return anew(found)


def tear_out(kubectl: Kubectl, record: Object) -> None:
    """Delete a record, and take off by hand what holds it, if it is there at all."""
    name = record["metadata"]["name"]
    if kubectl.api.has("recoveryrecord", name):
        kubectl.api.patch("recoveryrecord", name, {"metadata": {"finalizers": None}})
        kubectl.api.delete("recoveryrecord", name)


def anew(of: Object) -> Object:
    """An object that can be created again."""
    kept = {field: of["metadata"][field] for field in ("name", "labels") if field in of["metadata"]}
    return of | {"metadata": kept}


def replaced(plan: Object) -> Object:
    """Somebody's own words in its place, whole in themselves."""
    raw = b"{}"
    content = base64.b64encode(gzip.compress(raw)).decode()
    return plan | {"spec": plan["spec"] | {"content": content, "sha256": hashlib.sha256(raw).hexdigest()}}


def of_another(plan: Object) -> Object:
    """The same plan, of a recovery that had this name earlier."""
    uid = "00000000-0000-0000-0000-000000000000"
    labels = plan["metadata"]["labels"] | {UID: uid}
    whose = plan["spec"]["recovery"] | {"uid": uid}
    return plan | {"metadata": plan["metadata"] | {"labels": labels}, "spec": plan["spec"] | {"recovery": whose}}
