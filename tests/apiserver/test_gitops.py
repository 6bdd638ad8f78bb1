"""`examples/` on a real API server: applied as Git tools apply them, and judged as they judge, in every state."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver.objects import Asking
from kafka_recovery.kube.resources.fields import SecretKey
from kafka_recovery.kube.resources.kinds import APPROVALS, CLUSTERS, POLICIES, RECOVERIES, read_cluster, read_policy
from kafka_recovery.recovery.supervision import Authority
from testbed import argocd
from testbed.examples import EXAMPLES, PLACEHOLDER, overlay, replaced
from testbed.kstatus import Kstatus, kstatus
from testbed.kubernetes.control_plane import ControlPlane
from testbed.kubernetes.kubectl import Kubectl
from testbed.layout import new_id
from testbed.waiting import wait_until
from unit.kube.recoveries.standings import State, states
from unit.kube.specs import SMALLEST

pytestmark = pytest.mark.apiserver

SCRIPTS = EXAMPLES / "argocd"
STATES = list(states())
AUTHOR = {"approver": "testbed:administrator"}  # whoever asks; the admission policy wants it
OVERLAYS = pytest.mark.parametrize("name", ["observe", "approve", "lossless", "automatic"])


@pytest.fixture
def administrator(control_plane: ControlPlane, namespace: str) -> Asking:
    return Asking(control_plane.client(), namespace)


@pytest.fixture(scope="module")
def anywhere(control_plane: ControlPlane) -> Asking:
    """One namespace for all states."""
    return Asking(control_plane.client(), control_plane.create_namespace("states"))


# The examples are applied


@OVERLAYS
def test_an_overlay_says_how_far_the_operator_may_go(
    name: str, kubectl: Kubectl, namespace: str, administrator: Asking, tmp_path: Path
) -> None:
    kubectl("apply", "-k", str(overlay(tmp_path, name, namespace)))

    cluster = read_cluster(administrator.get(CLUSTERS, "prod"))
    assert cluster.authority is (Authority.AUTOMATIC if name == "lossless" else Authority(name.capitalize()))
    assert read_policy(administrator.get(POLICIES, "prod")).policy.rule_for("anything")
    assert cluster.policy_name == "prod"


@pytest.mark.parametrize("name", ["overlays/observe", "incident/partition-recovery.yaml"])
def test_an_example_that_nobody_edited_is_refused(kubectl: Kubectl, namespace: str, name: str) -> None:
    """Its cluster id could not be changed afterwards."""
    path = EXAMPLES / name
    shipped = kubectl("kustomize", str(path)) if path.is_dir() else path.read_text()
    here = re.sub(r"(?m)^(  namespace:) .*$", rf"\1 {namespace}", shipped)

    refused = kubectl.attempt("create", "--dry-run=server", "-f", "-", given=here)

    assert refused.returncode != 0
    assert "spec.clusterId" in refused.stderr


@OVERLAYS
def test_an_overlay_that_is_applied_again_changes_nothing(
    name: str, kubectl: Kubectl, namespace: str, tmp_path: Path
) -> None:
    folder = str(overlay(tmp_path, name, namespace))
    kubectl("apply", "-k", folder)

    assert [line.rpartition(" ")[2] for line in kubectl("apply", "-k", folder).splitlines()] == ["unchanged"] * 2
    assert kubectl.attempt("diff", "-k", folder).stdout == ""


def test_a_component_adds_passwords_and_tls(
    kubectl: Kubectl, namespace: str, administrator: Asking, tmp_path: Path
) -> None:
    kubectl("apply", "-k", str(overlay(tmp_path, "observe", namespace, components=["sasl-over-tls"])))

    cluster = read_cluster(administrator.get(CLUSTERS, "prod"))
    assert cluster.tls
    assert isinstance(cluster.tls.ca, SecretKey)
    assert cluster.sasl
    assert (cluster.tls.ca.name, cluster.sasl.password.name) == ("kafka-ca", "kafka-recovery-user")


def test_a_component_adds_a_certificate(
    kubectl: Kubectl, namespace: str, administrator: Asking, tmp_path: Path
) -> None:
    kubectl("apply", "-k", str(overlay(tmp_path, "observe", namespace, components=["mtls"])))

    tls = read_cluster(administrator.get(CLUSTERS, "prod")).tls
    assert tls
    assert tls.certificate
    assert tls.certificate.name == "kafka-recovery-client"


def test_a_component_names_a_kafka_of_strimzi_s(
    kubectl: Kubectl, namespace: str, administrator: Asking, tmp_path: Path
) -> None:
    kubectl("apply", "-k", str(overlay(tmp_path, "approve", namespace, components=["strimzi"])))

    spec = administrator.get(CLUSTERS, "prod")["spec"]
    assert spec["strimziRef"] == {"name": "prod", "listener": "tls", "user": "kafka-recovery"}
    assert "bootstrapServers" not in spec


def test_many_clusters_are_under_one_policy(kubectl: Kubectl, namespace: str, administrator: Asking) -> None:
    kubectl("apply", "-f", "-", given=edited(kubectl("kustomize", str(EXAMPLES / "many-clusters")), namespace))

    watched = {name: read_cluster(administrator.get(CLUSTERS, name)) for name in ("prod", "payments", "logs")}
    assert {each.policy_name for each in watched.values()} == {"prod"}
    assert {each.authority for each in watched.values()} == {Authority.OBSERVE}
    assert read_policy(administrator.get(POLICIES, "prod")).policy.rules


def test_people_have_the_rights_that_the_examples_bind(kubectl: Kubectl, namespace: str) -> None:
    kubectl("apply", "-f", str(EXAMPLES.parent / "manifests" / "rbac" / "people.yaml"))
    kubectl("apply", "-f", "-", given=edited(kubectl("kustomize", str(EXAMPLES / "rbac")), namespace))

    def may(group: str, verb: str, what: str) -> bool:
        return kubectl.api.may(verb, what, user="somebody@example.com", groups=[group])

    recoveries = "partitionrecoveries.kafka-recovery.dev"
    wait_until("the roles hold", lambda: may("kafka-owners", "approve", recoveries), bool)
    assert {group: may(group, "approve", recoveries) for group in ("kafka-owners", "kafka-on-call", "platform")} == {
        "kafka-owners": True,
        "kafka-on-call": False,
        "platform": False,
    }
    assert may("kafka-on-call", "create", recoveries)
    assert may("platform", "update", "recoverypolicies.kafka-recovery.dev")
    assert not may("kafka-on-call", "update", "recoverypolicies.kafka-recovery.dev")


def test_a_person_suspends_a_cluster_and_the_next_sync_leaves_it_so(
    kubectl: Kubectl, namespace: str, administrator: Asking, tmp_path: Path
) -> None:
    folder = str(overlay(tmp_path, "automatic", namespace))
    sync = ("apply", "--server-side", "--force-conflicts", "--field-manager=flux", "-k", folder)
    kubectl(*sync)
    administrator.patch(CLUSTERS, "prod", suspend=True)

    kubectl(*sync)

    assert administrator.get(CLUSTERS, "prod")["spec"]["suspend"] is True


def test_a_policy_that_is_pruned_takes_no_recovery_with_it(
    kubectl: Kubectl, namespace: str, administrator: Asking, tmp_path: Path
) -> None:
    kubectl("apply", "-k", str(overlay(tmp_path, "automatic", namespace)))
    administrator.create(RECOVERIES, "incident", SMALLEST[RECOVERIES])

    kubectl("delete", "recoverypolicy,watchedcluster", "--all", "--cascade=foreground")

    left = kubectl.api.listed("partitionrecoveries")
    assert [each["metadata"]["name"] for each in left] == ["incident"]


def test_flux_waits_for_objects_that_its_overlay_has(kubectl: Kubectl) -> None:
    flux = yaml.safe_load_all((EXAMPLES / "flux" / "kafka-recovery.yaml").read_text())
    spec = next(each["spec"] for each in flux if "healthChecks" in each["spec"])

    built = yaml.safe_load_all(kubectl("kustomize", str(EXAMPLES / spec["path"])))

    assert {identity(each) for each in built} == {
        (each["kind"], each["namespace"], each["name"]) for each in spec["healthChecks"]
    }


def test_the_scripts_for_argo_cd_are_added_to_its_settings_and_nothing_else_changes(
    kubectl: Kubectl, namespace: str
) -> None:
    theirs = {"url": "https://argocd.example.com"}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}, "data": theirs}
    kubectl("create", "-f", "-", given=settings)

    ours = kubectl("kustomize", str(SCRIPTS)).replace("namespace: argocd", f"namespace: {namespace}")
    kubectl("apply", "--server-side", "--field-manager=kafka-recovery", "-f", "-", given=ours)

    health = "resource.customizations.health"
    scripts = {
        f"{health}.kafka-recovery.dev_{state.kind.kind}": script(state.kind.kind)
        for state in [*STATES, State(POLICIES, "", {}, "", Kstatus.CURRENT)]
    }
    scripts[f"{health}.argoproj.io_Application"] = script("Application")
    assert kubectl.api.get("configmap", "argocd-cm")["data"] == theirs | scripts


# What tools make of every state, on objects that the API server gave back


@pytest.mark.parametrize("state", STATES, ids=str)
def test_each_state_is_shown_as_it_should_be(state: State, anywhere: Asking) -> None:
    name = str(state).lower().replace(" ", "-")
    anywhere.create(state.kind, name, SMALLEST[state.kind] | (AUTHOR if state.kind == APPROVALS else {}))
    if state.status:
        anywhere.patch_status(state.kind, name, state.status)

    seen = anywhere.get(state.kind, name)

    assert (argocd.health(SCRIPTS, {"status": {}} | seen).status, kstatus(seen)) == (state.argo, state.kstatus)


def test_an_unwell_kafka_never_blocks_a_sync(
    kubectl: Kubectl, namespace: str, administrator: Asking, tmp_path: Path
) -> None:
    kubectl("apply", "-k", str(overlay(tmp_path, "approve", namespace)))
    unwell = next(state for state in STATES if state.name == "has offline partitions")
    administrator.patch_status(CLUSTERS, "prod", unwell.status)
    seen = administrator.get(CLUSTERS, "prod")
    assert condition(seen, "KafkaHealthy") == "False"

    assert (kstatus(seen), argocd.health(SCRIPTS, seen).status) == (Kstatus.CURRENT, "Healthy")
    kubectl("wait", "--for=condition=Ready", "--timeout=1s", "watchedcluster/prod")

    more = [replaced("/spec/limits/partitions", 10)]
    kubectl("apply", "-k", str(overlay(tmp_path, "approve", namespace, policy=more)))
    assert administrator.get(POLICIES, "prod")["spec"]["limits"]["partitions"] == 10


def edited(shipped: str, namespace: str) -> str:
    """As whoever copies an example writes it: for a namespace, with the clusters' ids."""
    ours = re.sub(r"(?m)^(  namespace:) .*$", rf"\1 {namespace}", shipped)
    return re.sub(re.escape(PLACEHOLDER), lambda _: new_id(), ours)


def condition(of: dict[str, Any], kind: str) -> str:
    return next(str(each["status"]) for each in of["status"]["conditions"] if each["type"] == kind)


def identity(of: dict[str, Any]) -> tuple[str, str, str]:
    return of["kind"], of["metadata"]["namespace"], of["metadata"]["name"]


def script(kind: str) -> str:
    return (SCRIPTS / f"{kind.lower()}.lua").read_text()
