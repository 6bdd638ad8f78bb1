"""The charts on a real API server: coming, changing, going; who may do what; what is said where something is missing.

There is no node, so no Pod runs: the operator is a process of this machine with the account and the arguments that the
chart gives its Pod.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver import test_record_journal as journals
from apiserver.calling import calling
from apiserver.objects import Asking, Refused
from charts.conftest import DEFINITIONS, OPERATOR, RELEASE, Install, define
from charts.rendered import EVERYTHING
from kafka_recovery.kube.resources.admission import APPROVALS_POLICY
from kafka_recovery.kube.resources.kinds import APPROVALS, POLICIES, RECORDS, RECOVERIES
from testbed.helm.helm import Helm, HelmFailed, Object
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.kubernetes.objects import Api, ApiRefused
from testbed.kubernetes.rights import bound
from testbed.previous import previous
from testbed.waiting import wait_until
from unit.kube.specs import APPROVAL, POLICY, RECOVERY

pytestmark = pytest.mark.apiserver

NAME = "kafka-recovery-operator"
OURS = f"app.kubernetes.io/instance={RELEASE}"
KINDS = (
    *("deployments", "serviceaccounts", "roles", "rolebindings", "networkpolicies", "poddisruptionbudgets", "services"),
    *("clusterroles", "clusterrolebindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings"),
)


def there(kubectl: Kubectl) -> set[str]:
    """The release's objects."""
    found = ((kind, each["metadata"]["name"]) for kind in KINDS for each in kubectl.api.listed(kind, OURS))
    return {f"{kind}/{name}" for kind, name in found}


def deployment(kubectl: Kubectl) -> Object:
    return dict(kubectl.api.get("deployment", NAME)["spec"])


def kept(kubectl: Kubectl) -> list[Object]:
    """Recoveries and the records of their journals, word for word."""
    recoveries = kubectl.api.listed("partitionrecoveries")
    return [*recoveries, *kubectl.api.listed("recoveryrecords")]


def arguments(kubectl: Kubectl) -> list[str]:
    return list(deployment(kubectl)["template"]["spec"]["containers"][0]["args"])


Older = Callable[[Path], Path]


@pytest.fixture
def older(tmp_path: Path) -> Older:
    """A chart as it was before its last change; where it has no past, itself under an older version."""

    def before(chart: Path) -> Path:
        if found := previous(chart, tmp_path):
            return found
        copied = shutil.copytree(chart, tmp_path / "older" / chart.name)
        about = copied / "Chart.yaml"
        about.write_text(about.read_text().replace("\nversion: ", "\nversion: 0.0.0-before-"))
        return copied

    return before


@pytest.fixture
def older_definitions(helm: Helm, control_plane: ControlPlane, older: Older) -> Iterator[None]:
    """The API server has the definitions of the chart before; today's at the end, for the tests that come."""
    define(control_plane, helm, older(DEFINITIONS))
    yield
    define(control_plane, helm)


@pytest.fixture
def opened(control_plane: ControlPlane, namespace: str, older_definitions: None) -> Iterator[Object]:
    """A recovery, of which nothing holds the definitions at the end: their deletion waits for finalizers."""
    administrator = Asking(control_plane.client(), namespace)
    yield administrator.create(RECOVERIES, journals.NAME, RECOVERY | {"clusterId": journals.CLUSTER})
    administrator.patch_metadata(RECOVERIES, journals.NAME, finalizers=None)
    for record in administrator.names(RECORDS, ""):
        administrator.patch_metadata(RECORDS, record, finalizers=None)


# Coming, changing, going


async def test_a_release_is_upgraded_from_the_last_charts_rolled_back_and_uninstalled_around_what_was_begun(
    helm: Helm,
    kubectl: Kubectl,
    control_plane: ControlPlane,
    namespace: str,
    install: Install,
    older: Older,
    opened: Object,
) -> None:
    """As docs/how-to/helm.md types it: the definitions first, then the operator with the values it had."""
    install(chart=older(OPERATOR), secretNames=["kafka-user"])
    before, was = there(kubectl), deployment(kubectl)
    define(control_plane, helm)
    async with calling(control_plane.service_account(namespace, NAME)) as api:
        incident = journals.Incident(api, namespace, opened["metadata"]["uid"])
        digest = await incident.begun(journals.plan_of())
        status = {"finished": False, "plan": {"digest": digest}}
        Asking(control_plane.client(), namespace).patch_status(RECOVERIES, journals.NAME, status)
        begun = kept(kubectl)
        assert len(begun) > 3

        install("--reset-then-reuse-values", authority="Approve", replicaCount=2)
        assert "--authority=Approve" in arguments(kubectl)
        assert f"poddisruptionbudgets/{NAME}" in there(kubectl)
        assert ["kafka-user"] in [rule.get("resourceNames") for rule in kubectl.api.get("role", NAME)["rules"]]
        assert kept(kubectl) == begun
        assert [run.digest for run in await incident.journal.unfinished()] == [digest]

    helm("rollback", RELEASE, "1")
    assert there(kubectl) == before
    assert deployment(kubectl)["template"] == was["template"]
    assert kept(kubectl) == begun

    helm("uninstall", RELEASE)
    assert there(kubectl) == set()
    assert kubectl.api.has("crd", "watchedclusters.kafka-recovery.dev")
    assert kept(kubectl) == begun


def test_a_release_that_changes_no_admission_policy_writes_none(
    kubectl: Kubectl, install: Install, tmp_path: Path, defined: None
) -> None:
    """Of one whose spec was changed at any time, each write would make all approvals that wait too old."""
    for account in ("one", "two"):
        install(admissionPolicies={"serviceAccountsThatMayApprove": [f"system:serviceaccount:ci:{account}"]})
    assert kubectl.api.get("validatingadmissionpolicy", APPROVALS_POLICY)["metadata"]["generation"] == 2
    before = versions_of_policies(kubectl)
    newer = shutil.copytree(OPERATOR, tmp_path / OPERATOR.name)
    about = newer / "Chart.yaml"
    about.write_text(re.sub(r"(?m)^(version|appVersion): .*$", r"\1: 99.0.0", about.read_text()))

    install("--reset-then-reuse-values", chart=newer)

    assert "99.0.0" in deployment(kubectl)["template"]["metadata"]["labels"]["helm.sh/chart"]
    assert versions_of_policies(kubectl) == before


def test_a_policy_that_only_lost_an_exception_has_changed_when_it_did(
    kubectl: Kubectl, install: Install, tmp_path: Path, defined: None
) -> None:
    """The API server notes no time where something is only taken away; what was written before was not checked."""
    laxer = shutil.copytree(OPERATOR, tmp_path / OPERATOR.name)
    policy = laxer / "files" / "manifests" / "admission" / "recovery-approvals.yaml"
    exception = "  matchConditions:\n  - {name: nobody, expression: 'false'}\n"
    policy.write_text(policy.read_text().replace("spec:\n", f"spec:\n{exception}", 1))
    install(chart=laxer)
    made = changed_at(kubectl)
    wait_until("another second has come", lambda: datetime.now(UTC) > made + timedelta(seconds=1), bool)

    install("--reset-then-reuse-values")

    assert "matchConditions" not in kubectl.api.get("validatingadmissionpolicy", APPROVALS_POLICY)["spec"]
    assert changed_at(kubectl) > made


def changed_at(kubectl: Kubectl) -> datetime:
    """When somebody wrote the policy of approvals last, as the API server notes it."""
    meta = kubectl.api.get("validatingadmissionpolicy", APPROVALS_POLICY)["metadata"]
    return max(datetime.fromisoformat(each["time"]) for each in meta["managedFields"] if "subresource" not in each)


def versions_of_policies(kubectl: Kubectl) -> dict[tuple[str, str], str]:
    """Of the admission policies of the release and of their bindings."""
    kinds = "validatingadmissionpolicies", "validatingadmissionpolicybindings"
    found = {(kind, each["metadata"]["name"]): each["metadata"] for kind in kinds for each in kubectl.api.listed(kind)}
    return {which: meta["resourceVersion"] for which, meta in found.items() if meta.get("labels")}


def test_an_uninstall_of_the_definitions_leaves_what_was_written_with_them(
    helm: Helm, kubectl: Kubectl, control_plane: ControlPlane, namespace: str
) -> None:
    define(control_plane, helm)
    Asking(control_plane.client(), namespace).create(RECOVERIES, "prod-0123456789", RECOVERY)

    said = helm.of("kube-system", control_plane.administrator())("uninstall", "kafka-recovery-crds")

    assert "kept due to the resource policy" in said
    assert kubectl.api.has("partitionrecovery", "prod-0123456789")


def test_definitions_that_were_applied_by_hand_can_be_taken_over(
    helm: Helm, kubectl: Kubectl, control_plane: ControlPlane
) -> None:
    control_plane.remove_definitions()
    control_plane.apply_definitions(OPERATOR.parents[1] / "crds")

    define(control_plane, helm)

    annotations = kubectl.api.get("crd", "watchedclusters.kafka-recovery.dev")["metadata"]["annotations"]
    assert annotations["meta.helm.sh/release-name"] == "kafka-recovery-crds"


def test_a_second_operator_elsewhere_shares_what_belongs_to_no_namespace(
    helm: Helm, install: Install, control_plane: ControlPlane, defined: None
) -> None:
    install()
    elsewhere = control_plane.create_namespace("second-operator")
    second = helm.of(elsewhere, control_plane.administrator(elsewhere))

    with pytest.raises(HelmFailed, match=r"exists and cannot be imported into the current release"):
        second("install", RELEASE, str(OPERATOR))

    second("install", RELEASE, str(OPERATOR), "--set=admissionPolicies.create=false,clusterRoles.create=false")
    second("uninstall", RELEASE)


# What a namespace under the restricted standard admits


def test_the_restricted_pod_security_standard_admits_its_pod(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, helm: Helm, install: Install, defined: None
) -> None:
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.api.patch("namespace", namespace, {"metadata": {"labels": restricted}})
    install()
    template = deployment(kubectl)["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "probe", **template["metadata"]}}

    assert kubectl.api.create(pod, dry_run=True)

    hook = yaml.safe_load(helm("get", "hooks", RELEASE))
    assert kubectl.api.create(hook, dry_run=True)

    pod["spec"]["containers"][0]["securityContext"]["capabilities"] = {}
    with pytest.raises(ApiRefused, match='violates PodSecurity "restricted'):
        kubectl.api.create(pod, dry_run=True)


# Who may do what


def test_the_operator_may_read_the_secrets_that_are_named_and_approve_nothing(
    control_plane: ControlPlane, namespace: str, install: Install, defined: None
) -> None:
    watched = control_plane.create_namespace("watched")
    install(watchNamespaces=[watched], secretNames=["kafka-user"])
    operator = control_plane.kubectl(control_plane.service_account(namespace, NAME)).api

    def may(verb: str, what: str, where: str, part: str = "") -> bool:
        return operator.at(where).may(verb, what, part)

    assert may("get", "secret/kafka-user", watched)
    assert may("patch", "partitionrecoveries.kafka-recovery.dev", watched, "status")
    assert may("create", "recoveryrecords.kafka-recovery.dev", watched)
    assert may("update", f"leases.coordination.k8s.io/{NAME}", namespace)
    for verb, what, where in (
        ("get", "secret/another", watched),
        ("get", "secret/kafka-user", namespace),
        ("list", "secrets", watched),
        ("create", "recoveryrecords.kafka-recovery.dev", namespace),
        ("create", "configmaps", namespace),
        ("get", "configmaps", watched),
        ("create", "recoveryapprovals.kafka-recovery.dev", watched),
        ("approve", "partitionrecoveries.kafka-recovery.dev", watched),
        ("update", f"leases.coordination.k8s.io/{NAME}", watched),
        ("create", "pods", watched),
    ):
        assert not may(verb, what, where), f"{verb} {what} in {where}"


OURS_TO_WRITE = (
    "recoveryrecords",
    "clusterhistories",
    "recoveryapprovals",
    "recoverypolicies",
    "watchedclusters",
    "watchedclusters/status",
    "partitionrecoveries",
    "partitionrecoveries/status",
    "fleetrankings",
)
READS = ("get", "list", "watch")
WRITES = ("create", "update", "patch", "delete")


def test_neither_of_the_two_accounts_may_do_what_is_the_other_s(
    install: Install, kubectl: Kubectl, control_plane: ControlPlane, namespace: str, defined: None
) -> None:
    """Who takes over the fleet's account elects nobody, and who takes over the other one runs no Pods by it."""
    install(fleet={"enabled": True, "resultsPrefixes": ["s3://fleet/results"]})
    fleet = control_plane.kubectl(control_plane.service_account(namespace, f"{NAME}-fleet")).api
    operator = control_plane.kubectl(control_plane.service_account(namespace, NAME)).api

    def may(who: Api, verb: str, what: str) -> bool:
        kind, _, part = what.partition("/")
        return who.may(verb, kind, part)

    wait_until("its rights hold", lambda: may(fleet, "patch", "fleetrankings/status"), bool)
    wait_until("its rights hold", lambda: may(operator, "get", "fleetrankings"), bool)

    forbidden = [*((verb, what) for what in OURS_TO_WRITE for verb in WRITES)]
    forbidden += [("get", "recoveryrecords"), ("get", "partitionrecoveries"), ("get", "recoveryapprovals")]
    forbidden += [(verb, "secrets") for verb in READS + WRITES]
    forbidden += [(verb, what) for what in ("pods", "roles", "rolebindings", "serviceaccounts") for verb in WRITES]
    forbidden += [("update", "configmaps"), ("patch", "configmaps"), ("impersonate", "serviceaccounts")]
    assert [each for each in forbidden if may(fleet, *each)] == []

    spark = ("sparkapplications.spark.apache.org", "sparkapplications.sparkoperator.k8s.io")
    forbidden = [(verb, what) for what in ("fleetrankings", "fleetrankings/status") for verb in WRITES]
    forbidden += [(verb, what) for what in spark for verb in READS + WRITES]
    forbidden += [(verb, what) for what in ("pods", "recoveryapprovals", "recoverypolicies") for verb in WRITES]
    assert [each for each in forbidden if may(operator, *each)] == []


def test_who_may_edit_a_namespace_opens_recoveries_and_neither_approves_nor_writes_rules(
    control_plane: ControlPlane, namespace: str, kubectl: Kubectl, install: Install, defined: None
) -> None:
    install(clusterRoles={"aggregateToEdit": True})
    kubectl.apply(bound("eve", "edit"))
    eve = Asking(control_plane.client(control_plane.user("eve", namespace=namespace)), namespace)
    wait_until("the roles are aggregated", lambda: _created(eve), bool)

    with pytest.raises(Refused, match="cannot create resource"):
        eve.create(APPROVALS, "mine", APPROVAL | {"approver": "eve"})
    with pytest.raises(Refused, match="cannot create resource"):
        eve.create(POLICIES, "mine", POLICY)


def _created(who: Asking) -> bool:
    try:
        who.create(RECOVERIES, "prod-0123456789", RECOVERY)
    except Refused:
        return False
    return True


# What is missing is said


@pytest.fixture
def notes(helm: Helm) -> Callable[..., str]:
    """What an installation with some values would say in the end; nothing is installed."""

    def said(**values: Any) -> str:
        shown = helm("upgrade", "--install", RELEASE, str(OPERATOR), "--dry-run=server", values=values)
        _, found, said_of_it = shown.partition("\nNOTES:\n")
        assert found
        return said_of_it

    return said


def test_the_notes_say_what_it_can_and_what_it_cannot(notes: Callable[..., str], defined: None) -> None:
    assert "elect anybody. No WatchedCluster, no policy and no approval changes that" in notes()
    assert "elect anybody without a person" in notes(authority="Approve")
    assert "by itself what a policy approves" in notes(authority="Automatic")


def test_the_notes_warn_of_an_image_that_nodes_would_look_for_elsewhere(
    notes: Callable[..., str], defined: None
) -> None:
    warning = "image.repository (kafka-recovery-operator) names no registry"

    assert warning in notes()
    assert "names no registry" not in notes(image={"repository": "registry.example/kafka-recovery-operator"})


def test_the_notes_warn_where_nobody_checks_approvals(install: Install, kubectl: Kubectl, defined: None) -> None:
    assert "AdmissionPolicyMissing" not in install()

    assert "no plan that may lose records is carried out\n(AdmissionPolicyMissing)" in install(
        admissionPolicies={"create": False}
    )
    assert not kubectl.api.has("validatingadmissionpolicy", APPROVALS_POLICY)


def test_the_notes_warn_of_rights_in_all_namespaces(notes: Callable[..., str], defined: None) -> None:
    everywhere: dict[str, Any] = {"watchNamespaces": ["*"]}

    told = notes(**everywhere)
    assert "it acts in every namespace" in told
    assert "may read every Secret" in told
    assert "may write the ConfigMaps" not in told
    told = notes(**everywhere, secretNames=["kafka-user"])
    assert "it acts in every namespace" in told
    assert "may read every Secret" not in told


def test_the_notes_warn_where_the_definitions_are_missing(
    control_plane: ControlPlane, helm: Helm, notes: Callable[..., str]
) -> None:
    warning = "this API server has no definitions of kafka-recovery.dev"
    control_plane.remove_definitions()

    assert warning in notes()

    define(control_plane, helm)
    assert warning not in notes()


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"watchNamespaces": ["*"]}], ids=["defaults", "all", "everywhere"])
def test_every_object_is_one_that_the_api_server_knows(
    charts: Helm, kubectl: Kubectl, namespace: str, values: dict[str, Any]
) -> None:
    """A misspelt field would be dropped without a word."""
    theirs = "PodMonitor", "ServiceMonitor", "PrometheusRule", "Pod"  # whose account must be there
    objects = charts.of(namespace, kubectl.kubeconfig).rendered(OPERATOR, **values)
    known = [each for each in objects if each["kind"] not in theirs]

    assert len(known) >= 15
    assert [each for each in known if not kubectl.api.dry_run(each)] == []
    deployment = next(each for each in known if each["kind"] == "Deployment")
    deployment["spec"]["template"]["spec"]["securityContext"]["runAsRoot"] = True
    assert not kubectl.api.dry_run(deployment)


def test_a_namespace_that_is_to_be_watched_must_be_there(install: Install, defined: None) -> None:
    with pytest.raises(HelmFailed, match=r'namespaces "nowhere" not found'):
        install(watchNamespaces=["nowhere"])


def test_monitors_need_their_definitions(install: Install, defined: None) -> None:
    with pytest.raises(HelmFailed, match=r'no matches for kind "PodMonitor".*\n.*ensure CRDs are installed first'):
        install(monitoring={"podMonitor": {"enabled": True}})
