"""Somebody with Kubernetes' `edit` in the operator's namespace elects nobody and alters no order.

Once as it is installed: she may write no record. Once where somebody gave her the right, and no policy is there.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver import incidents
from apiserver.incidents import Object, Start, approval, awaiting, finished, plan_digest, policy, reason, recovery, seen
from apiserver.outages import BETTER, SURVIVOR, Outages
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import read
from kafka_recovery.kube.journal.facts import FACT_LABEL
from kafka_recovery.kube.resources.admission import RECORDS_POLICY
from kafka_recovery.kube.resources.kinds import FINALIZER, FROM_INCIDENT
from kafka_recovery.kube.watching.room import NO_ROOM, OTHERS
from testbed.cluster import RealKafka
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.objects import Api, ApiRefused
from testbed.kubernetes.rights import bound, hold, role
from testbed.waiting import wait_until
from unit.kube.journal.forging import APPROVED, BEGUN, bomb, first_wave, forged_fact, turned_round, worse

pytestmark = [pytest.mark.apiserver, pytest.mark.xdist_group("kafka")]

MANIFESTS = Path(__file__).parents[2] / "manifests"
ORDERS = TopicPartition("orders", 0)
RECORDS = "recoveryrecords.kafka-recovery.dev"


@pytest.fixture
def eve(control_plane: ControlPlane, namespace: str, kubectl: Kubectl) -> Kubectl:
    """She has `edit`, with what our roles add to it where they were asked to, once the controller has added it."""
    kubectl.apply(*yaml.safe_load_all((MANIFESTS / "rbac" / "people.yaml").read_text()), bound("eve", "edit"))
    asked = {"rbac.authorization.k8s.io/aggregate-to-edit": "true"}
    kubectl.api.patch("clusterrole", "kafka-recovery-responder", {"metadata": {"labels": asked}})
    hers = control_plane.kubectl(control_plane.user("eve", namespace=namespace))
    hold(hers.api, ("create", "partitionrecoveries.kafka-recovery.dev"))
    return hers


@pytest.fixture
def eve_with_rights(eve: Kubectl, kubectl: Kubectl) -> Kubectl:
    """Somebody gave her a role of their own, which names our kind."""
    kubectl.apply(role("records", ["*"], RECORDS), bound("eve", "records", own=True))
    hold(eve.api, ("create", RECORDS))
    return eve


@contextmanager
def without_the_policy(control_plane: ControlPlane) -> Iterator[None]:
    """Nobody checks who writes journals, for the length of a `with` block."""
    administrator = control_plane.kubectl()
    administrator.api.delete("validatingadmissionpolicybinding", RECORDS_POLICY)
    try:
        yield
    finally:
        administrator.apply(*yaml.safe_load_all((MANIFESTS / "admission" / "recovery-records.yaml").read_text()))


def forged(of: Object, digest: str, **facts: bytes) -> list[Object]:
    """Facts of a recovery as the operator would write them; `_` in a name stands for a dash."""
    meta, cluster_id = of["metadata"], of["spec"]["clusterId"]
    made = [
        forged_fact(digest, name.replace("_", "-"), raw, meta["name"], meta["uid"], cluster_id)
        for name, raw in facts.items()
    ]
    return [_in(meta["namespace"], each) for each in made]


def _in(namespace: str, record: Object) -> Object:
    return record | {"metadata": record["metadata"] | {"namespace": namespace}}


def plan_of(kubectl: Kubectl, shown: Object) -> Plan:
    """What the operator planned: every viewer can read it."""
    digest = plan_digest(shown)
    kept = kubectl.api.get("recoveryrecord", f"{shown['metadata']['name']}-{digest[:16]}-plan")
    return read(Plan, gzip.decompress(base64.b64decode(kept["spec"]["content"])), "plan")


# As it is installed


@pytest.fixture
def forgery(namespace: str) -> Object:
    """A fact of a recovery that never was."""
    return _in(namespace, forged_fact("ab" * 32, "begun", BEGUN, "ghost", "no-such-uid"))


STRIMZI = {
    "": ["pods", "pods/exec", "services", "configmaps", "secrets", "persistentvolumeclaims", "serviceaccounts"],
    "apps": ["deployments", "statefulsets", "replicasets"],
    "policy": ["poddisruptionbudgets"],
    "networking.k8s.io": ["networkpolicies", "ingresses"],
    "rbac.authorization.k8s.io": ["rolebindings"],
    "coordination.k8s.io": ["leases"],
    "kafka.strimzi.io": ["*"],
    "core.strimzi.io": ["*"],
}
"""What runs Kafka in this namespace may do there, as generously as its operator's Roles could be written."""


@pytest.fixture(scope="module")
def strimzi(control_plane: ControlPlane) -> str:
    """A role of an operator of Kafka."""
    rules = [{"apiGroups": [group], "resources": names, "verbs": ["*"]} for group, names in STRIMZI.items()]
    theirs = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "runs-kafka"}}
    control_plane.kubectl().apply(theirs | {"rules": rules})
    return "runs-kafka"


@pytest.mark.usefixtures("strimzi")
@pytest.mark.parametrize("whose", ["edit", "admin", "runs-kafka"])
def test_no_role_of_a_namespace_writes_records_or_approves(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, whose: str
) -> None:
    kubectl.apply(bound("fay", whose))
    hers = control_plane.kubectl(control_plane.user("fay", namespace=namespace)).api
    hold(hers, ("create", "configmaps"))

    may = {
        (verb, kind)
        for kind in (RECORDS, "recoveryapprovals.kafka-recovery.dev")
        for verb in ("create", "update", "patch", "delete")
        if hers.may(verb, kind)
    }

    assert may == set()


def refused(call: Callable[..., object], *arguments: Any, **how: Any) -> bool:
    """Whether the policy did; anything else is an error of the test."""
    try:
        call(*arguments, **how)
    except ApiRefused as no:
        if RECORDS_POLICY not in str(no):
            raise
        return True
    return False


def test_who_has_the_right_all_the_same_writes_and_changes_none(eve_with_rights: Kubectl, forgery: Object) -> None:
    eve = eve_with_rights.api
    wait_until("the policy is at work", lambda: refused(eve.create, forgery, dry_run=True), bool)

    with pytest.raises(ApiRefused, match="eve may not write the status of recoveries in namespace"):
        eve.create(forgery)


def test_nor_are_the_labels_of_one_changed(eve_with_rights: Kubectl, kubectl: Kubectl, forgery: Object) -> None:
    kubectl.api.create(forgery)

    def patched(**metadata: Any) -> object:
        return eve_with_rights.api.patch("recoveryrecord", forgery["metadata"]["name"], {"metadata": metadata})

    assert refused(patched, labels={FACT_LABEL: None})
    assert refused(patched, labels={"kafka-recovery.dev/owned": "true"})
    assert refused(patched, annotations={"a": "b"})


def test_nobody_opens_a_recovery_that_looks_as_if_its_orders_were_altered(eve: Kubectl) -> None:
    """It would hold its Kafka up, for no journal tells what they were."""
    spec = {"clusterRef": {"name": "prod"}, "clusterId": "abc", "scope": {"allOffline": True}}
    held = incidents_recovery({"name": "hers", "finalizers": [FINALIZER]}, spec)
    plain = incidents_recovery({"name": "hers", "finalizers": ["example.com/hers"]}, spec)
    hers = eve.api
    wait_until("the policy is at work", lambda: refused(hers.create, held, dry_run=True), bool)

    with pytest.raises(ApiRefused, match="leave it out"):
        hers.create(held)
    assert not refused(hers.create, plain)
    assert refused(hers.patch, "prec", "hers", {"metadata": {"finalizers": [FINALIZER]}})
    assert not refused(hers.patch, "prec", "hers", {"spec": {"suspend": True}})


def test_nobody_holds_a_watched_cluster_with_the_operator_s_finalizer(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl
) -> None:
    """Only an operator would take it off again."""
    clusters = "watchedclusters.kafka-recovery.dev"
    kubectl.apply(role("clusters", ["create", "patch", "get"], clusters), bound("gus", "clusters", own=True))
    gus = control_plane.kubectl(control_plane.user("gus", namespace=namespace)).api
    spec = {"clusterId": "abc", "bootstrapServers": ["127.0.0.1:1"]}
    plain = {"apiVersion": incidents.API_VERSION, "kind": "WatchedCluster", "metadata": {"name": "his"}, "spec": spec}
    held = plain | {"metadata": {"name": "his", "finalizers": [FINALIZER]}}
    hold(gus, ("create", clusters))

    wait_until("the policy is at work", lambda: refused(gus.create, held, dry_run=True), bool)
    assert not refused(gus.create, plain)
    held_now, let_go = ({"metadata": {"finalizers": each}} for each in ([FINALIZER], None))
    assert refused(gus.patch, "wkc", "his", held_now)
    assert not refused(gus.patch, "wkc", "his", {"spec": {"suspend": True}})

    kubectl.api.patch("wkc", "his", held_now)
    assert not refused(gus.patch, "wkc", "his", let_go), "the emergency way out is whoever's it is"


def test_not_even_an_administrator_changes_what_one_tells(kubectl: Kubectl, forgery: Object) -> None:
    kubectl.api.create(forgery)

    for change in ({"content": "e30="}, {"fact": "finished"}, {"recovery": {"uid": "another"}}):
        with pytest.raises(ApiRefused, match="a RecoveryRecord can't be changed"):
            kubectl.api.patch("recoveryrecord", forgery["metadata"]["name"], {"spec": change})


def test_the_garbage_collector_may_end_what_a_recovery_owned(kubectl: Kubectl, forgery: Object) -> None:
    """Up to half a minute: the collector learns of our kinds when it looks the next time.

    Only then does it see what depends on a recovery that is to leave it behind: a record whose owner never was tells.
    """
    nobody = {"apiVersion": incidents.API_VERSION, "kind": "PartitionRecovery", "name": "nobody", "uid": "no-such-uid"}
    probe = forgery | {"metadata": forgery["metadata"] | {"name": "probe", "ownerReferences": [nobody]}}
    kubectl.api.create(probe)
    wait_until("records are collected", lambda: not kubectl.api.has("rrec", "probe"), bool, 90)
    spec = {"clusterRef": {"name": "prod"}, "clusterId": "abc", "scope": {"allOffline": True}}
    meta = {"name": "ghost"}
    uid = kubectl.api.create(incidents_recovery(meta, spec))["metadata"]["uid"]
    owner = {"apiVersion": incidents.API_VERSION, "kind": "PartitionRecovery", "name": "ghost", "uid": uid}
    owned = forgery | {"metadata": forgery["metadata"] | {"ownerReferences": [owner]}}
    kubectl.api.create(owned)
    name = forgery["metadata"]["name"]

    kubectl("delete", "partitionrecovery", "ghost", "--cascade=orphan", "--wait=false")
    wait_until("the owner is gone", lambda: not kubectl.api.has("prec", "ghost"), bool, 90)
    assert "ownerReferences" not in kubectl.api.get("recoveryrecord", name)["metadata"]


def incidents_recovery(meta: Object, spec: Object) -> Object:
    return {"apiVersion": incidents.API_VERSION, "kind": "PartitionRecovery", "metadata": meta, "spec": spec}


def test_nor_does_she_write_what_a_recovery_s_status_says(eve: Kubectl, kubectl: Kubectl) -> None:
    """That is what the operator believes, whoever writes records."""
    spec = {"clusterRef": {"name": "prod"}, "clusterId": "abc", "scope": {"allOffline": True}}
    begun = {"begun": {"recoveryUid": "x", "plans": ["ab" * 32]}}
    eve.api.create(incidents_recovery({"name": "hers"}, spec) | {"status": begun})

    eve.api.patch("partitionrecovery", "hers", {"status": {"begun": {"plans": ["cd" * 32]}}})

    assert "begun" not in kubectl.api.get("partitionrecovery", "hers").get("status", {})
    ours = "partitionrecoveries.kafka-recovery.dev"
    assert [eve.api.may(verb, ours, "status") for verb in ("patch", "update")] == [False, False]


# With the policy, on a real Kafka


@pytest.mark.brokers
def test_however_many_recoveries_she_opens_the_operator_opens_its_own(
    made: Outages, kubectl: Kubectl, eve: Kubectl, start: Start
) -> None:
    """Up to a minute: an outage of a real Kafka, after a large and some small recoveries of hers."""
    kubectl.apply(incidents.watched_cluster(made.kafka), policy(approval="AutoApprove"))
    start("--no-lease")
    large, *small = (f"hers-{number}" for number in range(1 + 1 + 3))

    def opens(name: str, partitions: int) -> None:
        invented = [{"topic": name, "partition": index} for index in range(partitions)]
        eve.api.create(recovery(made.kafka, name, scope={"partitions": invented}, suspend=True))

    def waiting() -> set[str]:
        return {name for name in small if reason(kubectl.api.get("prec", name)) == NO_ROOM}

    opens(large, OTHERS.partitions - 1)
    seen(kubectl, large, lambda each: reason(each) == "Suspended", 120)
    for name in small:
        opens(name, 1)
    refused_ones = wait_until("all but one wait for room", waiting, lambda names: len(names) == 3, 120)

    made.lose(orders=1)
    (own,) = wait_until("the operator's own is open", lambda: incidents_own(kubectl), bool)
    ended = finished(kubectl, own["metadata"]["name"])
    assert (ended["status"]["outcome"], ended["status"][FROM_INCIDENT]) == ("Recovered", True)
    assert waiting() == refused_ones

    ends = next(name for name in small if name not in refused_ones)
    eve.api.patch("prec", ends, {"spec": {"abort": True}})
    wait_until("one of them has room", waiting, lambda names: len(names) == 2)


def incidents_own(kubectl: Kubectl) -> list[Object]:
    """What the operator opened, without hers, which are large."""
    return kubectl.api.listed("partitionrecoveries", "app.kubernetes.io/managed-by")


# Without the policy, on a real Kafka


def looked_at(kubectl: Kubectl, shown: Object) -> None:
    """The operator met what was forged, and says so."""
    said = seen(kubectl, shown["metadata"]["name"], lambda each: reason(each) == "PlanNotShown")
    assert incidents.condition(said, "Stalled")["status"] == "True"


@pytest.mark.brokers
def test_whatever_she_writes_where_nobody_checks_it_nobody_is_elected_and_no_order_changes(
    made: Outages, control_plane: ControlPlane, kubectl: Kubectl, eve_with_rights: Kubectl, namespace: str, start: Start
) -> None:
    """All of her ways one after another, for an outage of a real Kafka takes longer than each: a minute and more.

    A forged approval and beginning of the plan that is shown; a forged plan by which the shorter log would lead; a
    journal of a recovery that never was, whose "original" order is another one; a fact that unpacks to 200 MiB. Then
    a person clears it away and approves.
    """
    kubectl.apply(incidents.watched_cluster(made.kafka), policy(approval="ManualApprove"))
    eve = eve_with_rights.api
    made.lose(better=True, orders=1)
    made.thaw(BETTER)
    before = incidents.orders(made.kafka, "orders")
    operator = start("--no-lease")
    kubectl.apply(recovery(made.kafka))
    shown = awaiting(kubectl, "by-hand")
    plan = plan_of(kubectl, shown)
    assert plan.elections[ORDERS].leader == BETTER

    def untouched() -> bool:
        return made.leaders("orders") == [None] and incidents.orders(made.kafka, "orders") == before

    with without_the_policy(control_plane):
        mine = forged(shown, plan_digest(shown), approval=APPROVED, begun=BEGUN)
        wait_until("the policy is gone", lambda: not refused(eve.create, mine[0], dry_run=True), bool)
        made_by_her(mine, eve)
        eve.patch("prec", "by-hand", {"spec": {"suspend": True}})
        seen(kubectl, "by-hand", lambda each: reason(each) != "AwaitingApproval")
        eve.patch("prec", "by-hand", {"spec": {"suspend": False}})
        looked_at(kubectl, shown)
        assert untouched()

        more = [*another_plan(shown, plan), *a_ghost(shown, plan), *a_bomb(made.kafka, namespace)]
        made_by_her(more, eve)
        mine += more
        operator.kill()
        operator.start()
        operator.says("the operator leaves PartitionRecovery ghost (deleted) to you (AdmissionPolicyMissing", 60)
        looked_at(kubectl, shown)
        assert untouched()
        wait_until("it answers, as the kubelet waits for a minute of probes", operator.is_alive, bool)

    kubectl("delete", *(f"recoveryrecord/{each['metadata']['name']}" for each in mine))
    again = awaiting(kubectl, "by-hand", 90)
    assert untouched()
    kubectl.apply(approval(again))
    assert finished(kubectl, "by-hand")["status"]["outcome"] == "Recovered"
    assert made.leaders("orders") == [BETTER]


def made_by_her(objects: list[Object], eve: Api) -> None:
    for each in objects:
        eve.create(each)


def another_plan(shown: Object, plan: Plan) -> list[Object]:
    """By which the shorter log would lead, approved and begun."""
    digest, raw = worse(plan, SURVIVOR, ORDERS)
    return forged(shown, digest, plan=raw, approval=APPROVED, begun=BEGUN, wave_0001_started=first_wave(ORDERS))


def a_ghost(shown: Object, plan: Plan) -> list[Object]:
    """The journal of a recovery that never was."""
    digest, raw = turned_round(plan)
    ghost = shown | {"metadata": shown["metadata"] | {"name": "ghost", "uid": "no-such-uid"}}
    return forged(ghost, digest, plan=raw, begun=BEGUN, wave_0001_started=first_wave(ORDERS))


def a_bomb(kafka: RealKafka, namespace: str) -> list[Object]:
    """The same, of which nothing can be read in little memory."""
    plan, uid = "cd" * 32, "of-nobody"
    wave, begun = bomb("huge", "wave-0001-started", plan, uid), forged_fact(plan, "begun", BEGUN, "huge", uid)
    return [_of_this(each, kafka, namespace) for each in (wave, begun)]


def _of_this(record: Object, kafka: RealKafka, namespace: str) -> Object:
    """A forged fact about a recovery of this Kafka."""
    meta, spec = record["metadata"], record["spec"] | {"clusterId": kafka.cluster_id}
    labels = {**meta["labels"], "kafka-recovery.dev/cluster-id": kafka.cluster_id}
    return record | {"metadata": meta | {"labels": labels, "namespace": namespace}, "spec": spec}
