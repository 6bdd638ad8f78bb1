"""The definitions on a real API server: what it takes, what it refuses and how it says so, and what people see."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from apiserver.objects import Asking, Refused
from kafka_recovery.kube.fleet.resource import read_ranking
from kafka_recovery.kube.resources.kinds import (
    APPROVALS,
    CLUSTERS,
    GROUP,
    HISTORIES,
    POLICIES,
    RANKINGS,
    RECORDS,
    RECOVERIES,
    Kind,
    read_approval,
    read_cluster,
    read_policy,
    read_recovery,
)
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from unit.kube.specs import APPROVAL, BAD, CLUSTER, GOOD, POLICY, RANKING, RECOVERY, SMALLEST, Case, changed

pytestmark = pytest.mark.apiserver

READERS = {
    CLUSTERS: read_cluster,
    POLICIES: read_policy,
    RECOVERIES: read_recovery,
    APPROVALS: read_approval,
    RANKINGS: read_ranking,
}
ME = "testbed:administrator"
MINE = APPROVAL | {"approver": ME}
SMALL = SMALLEST | {APPROVALS: MINE}
KINDS = pytest.mark.parametrize("kind", READERS, ids=lambda kind: kind.plural)


@pytest.fixture(scope="module")
def anywhere(control_plane: ControlPlane) -> Asking:
    """The administrator in a namespace for what leaves nothing behind."""
    return Asking(control_plane.client(), control_plane.create_namespace("schemas"))


@pytest.fixture
def administrator(control_plane: ControlPlane, namespace: str) -> Asking:
    return Asking(control_plane.client(), namespace)


# What is taken and refused


@pytest.mark.parametrize("case", GOOD, ids=str)
def test_the_api_server_takes_what_the_model_takes(anywhere: Asking, case: Case) -> None:
    if (case.kind, case.path) == (APPROVALS, "approver"):
        # Schemas come first, then admission, which alone minds that somebody else asks.
        with pytest.raises(Refused, match="nobody approves in the name of another"):
            anywhere.create(case.kind, "good", case.spec, dry_run=True)
        return
    spec = case.spec | ({"approver": ME} if case.kind is APPROVALS else {})
    taken = anywhere.create(case.kind, "good", spec, dry_run=True)

    READERS[case.kind](taken | {"metadata": taken["metadata"] | {"resourceVersion": "1"}})  # a dry run has none


@pytest.mark.parametrize("case", BAD, ids=str)
def test_the_api_server_refuses_what_the_model_refuses(anywhere: Asking, case: Case) -> None:
    with pytest.raises(Refused) as refusal:
        anywhere.create(case.kind, "bad", case.spec, dry_run=True)

    assert refusal.value.code in (400, 422)
    assert case.says in str(refusal.value)


def test_a_refusal_of_a_loss_class_is_refused(anywhere: Asking) -> None:
    with pytest.raises(Refused, match="maxLossClass goes with decision Approve only"):
        anywhere.create(APPROVALS, "no", APPROVAL | {"decision": "Refuse", "maxLossClass": "Unknown"}, dry_run=True)


def test_a_recovery_s_name_fits_into_a_label(anywhere: Asking) -> None:
    anywhere.create(RECOVERIES, "r" * 63, RECOVERY, dry_run=True)
    with pytest.raises(Refused, match=r"metadata.name must have at most 63 characters"):
        anywhere.create(RECOVERIES, "r" * 64, RECOVERY, dry_run=True)


@pytest.mark.parametrize("name", ["r" * 41, "1r", "r.r"])
def test_a_ranking_s_name_fits_into_the_names_of_services(anywhere: Asking, name: str) -> None:
    anywhere.create(RANKINGS, "r" * 40, RANKING, dry_run=True)
    with pytest.raises(Refused, match=r"metadata.name must be at most 40 lower-case letters"):
        anywhere.create(RANKINGS, name, RANKING, dry_run=True)


@KINDS
def test_what_is_left_out_is_filled_in_and_shown_and_means_the_same(administrator: Asking, kind: Kind) -> None:
    stored = administrator.create(kind, "small", SMALL[kind])
    written = stored | {"spec": SMALL[kind]}

    assert READERS[kind](stored | {"status": None}) == READERS[kind](written | {"status": None})


@pytest.mark.parametrize("kind", [CLUSTERS, POLICIES, RECOVERIES, RANKINGS], ids=lambda kind: kind.plural)
def test_a_newborn_object_is_known_to_be_unseen(administrator: Asking, kind: Kind) -> None:
    """Else kstatus, Flux and Argo CD take it for done before the operator has looked."""
    administrator.create(kind, "newborn", SMALL[kind])

    assert administrator.get(kind, "newborn")["status"] == {"observedGeneration": -1}


# What can't be changed


def test_a_cluster_keeps_its_id_and_may_change_the_rest(administrator: Asking) -> None:
    administrator.create(CLUSTERS, "prod", CLUSTER)

    with pytest.raises(Refused, match="clusterId can't be changed; another Kafka cluster is another WatchedCluster"):
        administrator.patch(CLUSTERS, "prod", clusterId="other")
    administrator.patch(CLUSTERS, "prod", bootstrapServers=["other:9092"], authority="Automatic", suspend=True)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("clusterRef", {"name": "other"}),
        ("clusterId", "other"),
        ("scope", {"partitions": [{"topic": "t", "partition": 0}], "allOffline": None}),
        ("rankingRef", {"name": "nightly"}),
    ],
)
def test_a_recovery_can_t_become_another(administrator: Asking, field: str, value: object) -> None:
    administrator.create(RECOVERIES, "r", RECOVERY)

    with pytest.raises(Refused, match=f"{field} can't be changed; make another PartitionRecovery"):
        administrator.patch(RECOVERIES, "r", **{field: value})


@pytest.mark.parametrize("later", [None, {"name": "other"}])
def test_a_ranking_can_t_be_exchanged(administrator: Asking, later: object) -> None:
    administrator.create(RECOVERIES, "r", changed(RECOVERY, "rankingRef", {"name": "nightly"}))

    with pytest.raises(Refused, match="rankingRef can't be changed"):
        administrator.patch(RECOVERIES, "r", rankingRef=later)


def test_a_named_leader_can_t_be_exchanged(administrator: Asking) -> None:
    named = {"partitions": [{"topic": "t", "partition": 0, "designatedLeader": 1}]}
    administrator.create(RECOVERIES, "r", changed(RECOVERY, "scope", named))

    with pytest.raises(Refused, match="scope can't be changed"):
        administrator.patch(
            RECOVERIES, "r", scope={"partitions": [{"topic": "t", "partition": 0, "designatedLeader": 2}]}
        )


def test_suspend_goes_both_ways_and_abort_only_one(administrator: Asking) -> None:
    administrator.create(RECOVERIES, "r", RECOVERY)
    for value in (True, False):
        administrator.patch(RECOVERIES, "r", suspend=value)
    administrator.patch(RECOVERIES, "r", abort=True)

    for taken_back in (False, None):
        with pytest.raises(Refused, match="abort can't be taken back"):
            administrator.patch(RECOVERIES, "r", abort=taken_back)
    administrator.patch(RECOVERIES, "r", suspend=True)


@pytest.mark.parametrize(
    "change", [{"planDigest": "cd" * 32}, {"decision": "Refuse"}, {"reason": "later"}, {"approver": "bob"}], ids=str
)
def test_an_approval_can_t_be_changed_at_all(administrator: Asking, change: dict[str, str]) -> None:
    administrator.create(APPROVALS, "a", MINE)

    with pytest.raises(Refused, match="a RecoveryApproval can't be changed; make another one"):
        administrator.patch(APPROVALS, "a", **change)


def test_a_status_is_no_way_to_change_a_spec(administrator: Asking) -> None:
    administrator.create(RECOVERIES, "r", RECOVERY)
    administrator.patch_status(RECOVERIES, "r", {"observedGeneration": 1, "finished": True})

    recovery = administrator.get(RECOVERIES, "r")
    assert (recovery["metadata"]["generation"], recovery["status"]["finished"]) == (1, True)


# What is large


def test_the_largest_recovery_and_its_field_ownership_fit_into_etcd(administrator: Asking) -> None:
    entries = [{"topic": f"orders-{number // 100:03}", "partition": number % 100} for number in range(20_000)]
    stored = administrator.create(RECOVERIES, "large", changed(RECOVERY, "scope", {"partitions": entries}))

    assert len(json.dumps(stored["metadata"])) < 2000
    assert administrator.patch(RECOVERIES, "large", suspend=True)["spec"]["scope"] == stored["spec"]["scope"]


# What is selected and shown


def test_finished_recoveries_can_be_left_out_by_the_server(administrator: Asking) -> None:
    for name in ("new", "open", "finished"):
        administrator.create(RECOVERIES, name, RECOVERY)
    administrator.patch_status(RECOVERIES, "open", {"finished": False})
    administrator.patch_status(RECOVERIES, "finished", {"finished": True})

    assert administrator.names(RECOVERIES, "status.finished!=true") == ["new", "open"]
    assert administrator.names(RECOVERIES, "status.finished=true") == ["finished"]


def test_approvals_can_be_asked_for_by_recovery(administrator: Asking) -> None:
    administrator.create(APPROVALS, "one", MINE)
    administrator.create(APPROVALS, "other", changed(MINE, "recoveryRef.name", "other"))

    assert administrator.names(APPROVALS, "spec.recoveryRef.name=other") == ["other"]


def condition(kind: str, status: str, reason: str) -> dict[str, object]:
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "status": status, "reason": reason, "message": "…", "lastTransitionTime": now}


def test_what_is_going_on_is_seen_at_eighty_columns(administrator: Asking, kubectl: Kubectl) -> None:
    administrator.create(CLUSTERS, "payments-production", CLUSTER | {"authority": "Automatic", "suspend": True})
    administrator.patch_status(
        CLUSTERS,
        "payments-production",
        {
            "offlinePartitions": 20_000,
            "openRecoveries": 12,
            "conditions": [
                condition("Ready", "True", "AsExpected"),
                condition("KafkaHealthy", "Unknown", "InternalError"),
            ],
        },
    )
    administrator.create(POLICIES, "payments-production", changed(POLICY, "limits.lossBudgetRecords", 100_000))
    administrator.patch_status(
        POLICIES, "payments-production", {"conditions": [condition("Ready", "True", "AsExpected")]}
    )
    name = "payments-0123456789"
    administrator.create(RECOVERIES, name, RECOVERY)
    administrator.patch_status(
        RECOVERIES,
        name,
        {
            "partitions": {"total": 20_000, "recovered": 19_999},
            "plan": {"lossClass": "Lossless"},
            "conditions": [condition("Ready", "False", "AwaitingApproval")],
        },
    )
    administrator.create(APPROVALS, "ann-1", changed(MINE, "recoveryRef.name", name))
    administrator.patch_status(APPROVALS, "ann-1", {"conditions": [condition("Accepted", "True", "AsExpected")]})

    for short in ("wkc", "rpol", "prec", "rappr"):
        shown = kubectl("get", short)
        assert max(map(len, shown.splitlines())) <= 80, shown
    assert "AwaitingApproval   20000   19999" in kubectl("get", "prec")
    assert "Automatic   True    AsExpected   20000     true        " in kubectl("get", "wkc")
    assert kubectl("get", "kafka-recovery").count("payments-") == 4


def test_kubectl_explains_every_kind(kubectl: Kubectl) -> None:
    kinds = {*READERS, RECORDS, HISTORIES}
    named = kubectl("api-resources", "--categories=kafka-recovery", "-o", "name").split()
    assert named == sorted(f"{kind.plural}.{GROUP}" for kind in kinds)
    assert "The broker that is to lead." in kubectl("explain", "prec.spec.scope.partitions.designatedLeader")
    assert "ManualApprove always a person" in " ".join(kubectl("explain", "rpol.spec.rules.approval").split())
    assert "A Kafka cluster that is watched" in kubectl("explain", "wkc")
    assert "status.plan.digest" in kubectl("explain", "rappr.spec.planDigest")
    assert "original assignment orders" in kubectl("explain", "rrec")
    assert "out of sync" in kubectl("explain", "chist")


@KINDS
def test_the_schema_is_sound_to_the_api_server(kubectl: Kubectl, kind: Kind) -> None:
    found = kubectl.api.get("crd", f"{kind.plural}.{GROUP}")
    conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}

    assert conditions["Established"] == conditions["NamesAccepted"] == "True"
    assert conditions.get("NonStructuralSchema", "False") == "False"


def test_a_misspelt_field_is_told_to_who_asks_to_be_told(kubectl: Kubectl) -> None:
    manifest = {
        "apiVersion": "kafka-recovery.dev/v1alpha1",
        "kind": "RecoveryPolicy",
        "metadata": {"name": "p"},
        "spec": {"rules": [{"name": "a", "aproval": "AutoApprove"}]},
    }
    refused = kubectl.attempt("create", "--validate=strict", "-f", "-", given=manifest)

    assert 'unknown field "spec.rules[0].aproval"' in refused.stderr
