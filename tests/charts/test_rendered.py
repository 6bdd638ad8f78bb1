"""What the chart makes of values, by the real Helm and without a cluster: accounts, processes and where they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from charts.conftest import DEFINITIONS, OPERATOR, RELEASE
from charts.rendered import (
    EGRESS,
    EVERYTHING,
    FLEET,
    FLEET_NAME,
    HOME,
    INGRESS_FROM,
    MANIFESTS,
    NAME,
    OF_ITS_CONTAINER,
    OF_ITS_POD,
    arguments,
    arguments_of,
    bare,
    manifest,
    names,
    only,
    pod,
    rules,
)
from kafka_recovery.kube.__main__ import app
from kafka_recovery.kube.fleet_main import app as fleet_app
from kafka_recovery.kube.process.liveness import READY
from testbed.helm.helm import Helm, Object

pytestmark = pytest.mark.apiserver


@pytest.mark.parametrize("chart", [OPERATOR, DEFINITIONS], ids=lambda chart: chart.name)
def test_nothing_is_to_be_found_fault_with(charts: Helm, chart: Path) -> None:
    assert "0 chart(s) failed" in charts("lint", "--strict", str(chart))


# The same as by hand


@pytest.mark.parametrize("file", sorted((MANIFESTS / "admission").glob("*.yaml")), ids=lambda file: file.stem)
def test_admission_policies_are_those_of_the_manifests(charts: Helm, file: Path) -> None:
    objects = charts.rendered(OPERATOR)

    for each in manifest(f"admission/{file.name}"):
        assert bare(only(objects, each["kind"], each["metadata"]["name"])) == each


def test_roles_for_people_are_those_of_the_manifests(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR)

    for each in manifest("rbac/people.yaml"):
        ours = only(objects, each["kind"], each["metadata"]["name"])
        assert bare(ours) == bare(each)
        assert each["metadata"].get("labels", {}).items() <= ours["metadata"]["labels"].items()


def test_the_operator_may_do_what_the_manifests_allow(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR)

    suspended = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [NAME], "verbs": ["get"]}
    home = rules(objects, "Role", f"{NAME}-home")
    assert home[0] == suspended
    assert rules(objects, "Role", NAME) + home == rules(manifest("rbac/operator.yaml"), "Role", NAME)


SECRETS = ["kafka-user"]
"""Those that may be read: with Strimzi they have to be named."""


@pytest.mark.parametrize(("part", "role"), [("strimzi", "strimzi"), ("fleet", "rankings")])
def test_more_rights_only_for_who_wants_them(charts: Helm, part: str, role: str) -> None:
    more = rules(manifest(f"rbac/optional/{part}.yaml"), "Role", f"{NAME}-{role}")

    without = rules(charts.rendered(OPERATOR, secretNames=SECRETS), "Role", NAME)

    assert not [rule for rule in more if rule in without]
    wanted = {part: FLEET if part == "fleet" else {"enabled": True}}
    assert rules(charts.rendered(OPERATOR, secretNames=SECRETS, **wanted), "Role", NAME) == without + more


@pytest.mark.parametrize("namespaces", [[], ["*"]])
def test_it_deletes_pods_only_where_that_is_wanted(charts: Helm, namespaces: list[str]) -> None:
    kind, role = ("ClusterRole", f"{NAME}-{HOME}") if namespaces else ("Role", NAME)
    others = {"watchNamespaces": namespaces, "secretNames": SECRETS}
    strimzi = rules(charts.rendered(OPERATOR, **others, strimzi={"enabled": True}), kind, role)
    wanted = {"enabled": True, "holdBack": True}

    given = rules(charts.rendered(OPERATOR, **others, strimzi=wanted), kind, role)

    by_hand = rules(manifest("rbac/optional/hold-back.yaml"), "Role", f"{NAME}-hold-back")
    assert not [rule for rule in strimzi if "delete" in rule["verbs"] and "pods" in rule["resources"]]
    assert given == strimzi + by_hand


def test_it_reads_nodes_only_where_that_is_wanted(charts: Helm) -> None:
    by_hand = rules(manifest("rbac/optional/nodes.yaml"), "ClusterRole", f"{NAME}-nodes")

    without = names(charts.rendered(OPERATOR, secretNames=SECRETS, strimzi={"enabled": True}), "ClusterRole")
    objects = charts.rendered(OPERATOR, secretNames=SECRETS, strimzi={"enabled": True, "nodes": True})

    assert (None, f"{NAME}-nodes-{HOME}") not in without
    assert rules(objects, "ClusterRole", f"{NAME}-nodes-{HOME}") == by_hand
    assert only(objects, "ClusterRoleBinding", f"{NAME}-nodes-{HOME}")["roleRef"]["name"] == f"{NAME}-nodes-{HOME}"


def test_it_reads_the_admission_policies_it_relies_on(charts: Helm) -> None:
    reader = "kafka-recovery-admission-reader"

    ours = rules(charts.rendered(OPERATOR), "ClusterRole", f"{reader}-{HOME}")

    assert ours == rules(manifest("rbac/admission-reader.yaml"), "ClusterRole", reader)


def test_drivers_of_the_fleet_have_an_account_in_every_namespace_that_is_watched(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, fleet=FLEET, watchNamespaces=["a", "b"])

    drivers = "kafka-recovery-fleet"
    by_hand = rules(manifest("rbac/optional/fleet.yaml"), "Role", drivers)
    for namespace in ("a", "b"):
        assert only(objects, "Role", drivers, namespace)["rules"] == by_hand
        (subject,) = only(objects, "RoleBinding", drivers, namespace)["subjects"]
        assert only(objects, "ServiceAccount", subject["name"], subject["namespace"])
        assert subject["namespace"] == namespace
    assert only(objects, "ClusterRole", "kafka-recovery-analyst")


# Where it looks


def test_by_default_it_has_no_rights_outside_its_namespace_but_to_read_its_admission_policies(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR)

    assert {namespace for namespace, _ in names(objects, "Role")} == {HOME}
    assert names(objects, "ClusterRoleBinding") == [(None, f"kafka-recovery-admission-reader-{HOME}")]
    assert f"--namespace={HOME}" in arguments(objects)


def test_other_namespaces_get_a_role_each_and_its_own_only_the_lease(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, watchNamespaces=["a", "b"])

    assert names(objects, "Role") == [("a", NAME), ("b", NAME), (HOME, f"{NAME}-home")]
    for binding in (each for each in objects if each["kind"] == "RoleBinding"):
        assert [(who["name"], who["namespace"]) for who in binding["subjects"]] == [(NAME, HOME)]
    told = [each for each in arguments(objects) if each.startswith("--namespace")]
    assert told == ["--namespace=a", "--namespace=b"]


def test_all_namespaces_take_a_cluster_role(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, watchNamespaces=["*"])

    everywhere = f"{NAME}-{HOME}"
    assert names(objects, "Role") == [(HOME, f"{NAME}-home")]
    assert rules(objects, "ClusterRole", everywhere) == rules(charts.rendered(OPERATOR), "Role", NAME)
    assert only(objects, "ClusterRoleBinding", everywhere)["roleRef"]["name"] == everywhere
    assert "--all-namespaces" in arguments(objects)
    assert not [each for each in arguments(objects) if each.startswith("--namespace")]


@pytest.mark.parametrize("namespaces", [[], ["a"], ["*"]])
def test_secrets_that_are_named_are_the_only_ones_it_may_read(charts: Helm, namespaces: list[str]) -> None:
    objects = charts.rendered(OPERATOR, watchNamespaces=namespaces, secretNames=["kafka-user", "kafka-ca"])

    found = [
        rule
        for each in objects
        if each["kind"] in ("Role", "ClusterRole") and "operator" in each["metadata"]["name"]
        for rule in each["rules"]
        if "secrets" in rule["resources"]
    ]
    assert [(rule["resourceNames"], rule["verbs"]) for rule in found] == [(["kafka-user", "kafka-ca"], ["get"])]


# The process


def test_without_a_word_of_yours_it_only_observes(charts: Helm) -> None:
    assert "--authority=Observe" in arguments(charts.rendered(OPERATOR))


def test_every_option_it_is_started_with_exists(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, **EVERYTHING)
    for name, program in ((NAME, app), (FLEET_NAME, fleet_app)):
        known = {name for option in get_command(program).params for name in option.opts}
        told = {each.partition("=")[0] for each in arguments_of(only(objects, "Deployment", name))}
        assert told <= known


def test_the_process_can_do_nothing_to_its_node(charts: Helm) -> None:
    said = pod(charts.rendered(OPERATOR))
    (container,) = said["containers"]

    assert said["securityContext"]["runAsNonRoot"] is True
    assert said["securityContext"]["runAsUser"] > 0
    assert said["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert [volume["name"] for volume in said["volumes"]] == ["tmp"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & said.keys()


def test_where_the_platform_chooses_the_user_none_is_named(charts: Helm) -> None:
    nobody = {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    said = pod(charts.rendered(OPERATOR, podSecurityContext=nobody))["securityContext"]

    assert said == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_ports_that_are_asked_are_ports_that_answer(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR)
    (container,) = pod(objects)["containers"]

    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert f"--metrics-port={ports['metrics']}" in container["args"]
    asked = container["livenessProbe"]["httpGet"]
    assert f"--liveness=http://:{ports[asked['port']]}{asked['path']}" in container["args"]
    assert container["startupProbe"]["httpGet"] == asked
    assert container["readinessProbe"]["httpGet"] == {"port": asked["port"], "path": READY}


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["defaults", "all"])
def test_nobody_gets_in_but_to_metrics_and_alerts(charts: Helm, values: dict[str, Any]) -> None:
    objects = charts.rendered(OPERATOR, **values)

    (container,) = pod(objects)["containers"]
    allowed = {port["port"] for port in only(objects, "NetworkPolicy")["spec"]["ingress"][0]["ports"]}
    assert allowed == {port["name"] for port in container["ports"]} - {"health"}


def test_the_way_out_is_open_until_somebody_says_where_it_may_go(charts: Helm) -> None:
    """A policy of type Egress without rules would cut it off from every broker."""
    default = only(charts.rendered(OPERATOR), "NetworkPolicy")["spec"]
    assert (default["policyTypes"], default.keys() & {"egress"}) == (["Ingress"], set())
    assert "from" not in default["ingress"][0]

    narrow = only(charts.rendered(OPERATOR, **EVERYTHING), "NetworkPolicy")["spec"]
    assert narrow["policyTypes"] == ["Ingress", "Egress"]
    assert narrow["egress"] == EGRESS
    assert [each["from"] for each in narrow["ingress"]] == [INGRESS_FROM]


def test_what_is_said_of_its_pod_stands_in_its_pod(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, **EVERYTHING)
    template = only(objects, "Deployment")["spec"]["template"]
    (container,) = template["spec"]["containers"]

    assert template["metadata"]["labels"].items() >= {"team": "kafka", "app.kubernetes.io/name": NAME}.items()
    assert template["metadata"]["annotations"] == {"example.com/owner": "kafka"}
    assert {name: template["spec"][name] for name in OF_ITS_POD} == OF_ITS_POD
    assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}, {"name": "mirror"}]
    assert EVERYTHING["extraVolumes"][0] in template["spec"]["volumes"]
    own = ["POD_NAMESPACE", "POD_NAME", "POD_UID", "POD_IP"]
    assert [each["name"] for each in container["env"]] == [*own, "LOGNAME", "AWS_REGION"]
    assert container["envFrom"] == OF_ITS_CONTAINER["extraEnvFrom"]
    assert OF_ITS_CONTAINER["extraVolumeMounts"][0] in container["volumeMounts"]
    assert container["resources"]["limits"] == {"memory": "2Gi"}
    assert only(objects, "ServiceAccount")["metadata"]["annotations"] == {"example.com/role": "evidence"}
    assert (
        template["spec"]["securityContext"].items()
        >= {"fsGroupChangePolicy": "OnRootMismatch", "runAsNonRoot": True}.items()
    )
    assert container["args"][-1] == "--log-level=WARNING", "the last word holds"
    assert container["livenessProbe"].items() >= {"periodSeconds": 20, "timeoutSeconds": 5}.items()
    assert (
        container["securityContext"].items()
        >= {"readOnlyRootFilesystem": True, **EVERYTHING["securityContext"]}.items()
    )
    ours = [each for each in objects if each["metadata"]["name"] != f"{RELEASE}-more"]
    assert len(ours) == len(objects) - 1
    assert all(each["metadata"]["labels"]["example.com/cost"] == "4711" for each in ours)


def test_a_second_release_in_a_namespace_shares_no_name_with_the_first(charts: Helm) -> None:
    """Nor the Lease, or it would stand by for ever."""
    apart: Object = {"admissionPolicies": {"create": False}, "clusterRoles": {"create": False}}
    everything = EVERYTHING | apart | {"watchNamespaces": ["*"]}
    everything["extraObjects"] = []
    everything["fleet"] = {"enabled": False, "resultsPrefixes": []}
    first, second = (charts.rendered(OPERATOR, **(everything | more)) for more in ({}, {"fullnameOverride": "second"}))
    called = [{(each["kind"], each["metadata"]["name"]) for each in objects} for objects in (first, second)]

    assert not called[0] & called[1]
    assert "--name=second" in list(
        only(second, "Deployment", "second")["spec"]["template"]["spec"]["containers"][0]["args"]
    )
    home = rules(second, "Role", "second-home")
    named = {name for rule in home for name in rule.get("resourceNames", ())}
    assert named == {"second", "second-alerts-ipv4", "second-alerts-ipv6"}
    bound = [each["subjects"] for each in second if each["kind"].endswith("RoleBinding")]
    assert {subject["name"] for subjects in bound for subject in subjects} == {"second"}
    assert only(second, "Deployment", "second")["spec"]["template"]["spec"]["serviceAccountName"] == "second"


def test_another_name_of_the_program_is_in_its_labels_too(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, nameOverride="rescuer")
    deployment = only(objects, "Deployment", "rescuer")

    assert deployment["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] == "rescuer"
    assert "--name=rescuer" in arguments_of(deployment)
    assert names(objects, "ClusterRoleBinding") == [(None, f"kafka-recovery-admission-reader-{HOME}-rescuer")]
    assert only(charts.rendered(OPERATOR, nameOverride="rescuer", fullnameOverride="second"), "Deployment", "second")


def test_the_switch_of_a_release_with_another_name_is_the_platform_s(charts: Helm) -> None:
    platform = rules(charts.rendered(OPERATOR, fullnameOverride="second"), "ClusterRole", "kafka-recovery-platform")

    assert [rule["resourceNames"] for rule in platform if "resourceNames" in rule] == [["second"]]


def test_an_account_that_is_there_already_is_only_used(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, serviceAccount={"create": False, "name": "theirs"})

    assert names(objects, "ServiceAccount") == []
    assert pod(objects)["serviceAccountName"] == "theirs"
    bound = [each["subjects"] for each in objects if each["kind"].endswith("RoleBinding")]
    assert {subject["name"] for subjects in bound for subject in subjects} == {"theirs"}


@pytest.mark.parametrize("asked", [False, True])
def test_who_may_edit_a_namespace_may_open_recoveries_only_if_asked_for(charts: Helm, asked: bool) -> None:
    objects = charts.rendered(OPERATOR, clusterRoles={"aggregateToEdit": asked})

    labels = only(objects, "ClusterRole", "kafka-recovery-responder")["metadata"]["labels"]
    assert labels.get("rbac.authorization.k8s.io/aggregate-to-edit") == ("true" if asked else None)


@pytest.mark.parametrize("keep", [True, False])
def test_definitions_stay_unless_somebody_says_otherwise(charts: Helm, keep: bool) -> None:
    said = [each["metadata"].get("annotations") for each in charts.rendered(DEFINITIONS, crds={"keep": keep})]

    assert said == [{"helm.sh/resource-policy": "keep"} if keep else None] * 7


# What runs where


def test_one_that_stands_alone_has_no_disruption_budget(charts: Helm) -> None:
    """It would hold up the drain of its node for ever."""
    assert not names(charts.rendered(OPERATOR), "PodDisruptionBudget")
    assert only(charts.rendered(OPERATOR, replicaCount=2), "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_the_new_one_starts_beside_the_old_one_unless_a_volume_forbids_it(charts: Helm) -> None:
    strategies = [
        only(charts.rendered(OPERATOR, *options), "Deployment")["spec"]["strategy"]
        for options in (
            (),
            ("--set=strategy.type=Recreate",),
            ("--set=strategy.type=Recreate", "--set=strategy.rollingUpdate=null"),
            ("--set=strategy.rollingUpdate.maxSurge=50%",),
        )
    ]

    assert strategies == [
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        {"type": "Recreate"},
        {"type": "Recreate"},
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}},
    ]


def test_an_image_by_digest_needs_no_tag(charts: Helm) -> None:
    digest = "sha256:" + "0123456789abcdef" * 4
    image = {"repository": "example/kafka-recovery-operator", "digest": digest}

    (container,) = pod(charts.rendered(OPERATOR, image=image))["containers"]

    assert container["image"] == f"example/kafka-recovery-operator@{digest}"


def test_accounts_that_may_approve_are_named_in_the_policy(charts: Helm) -> None:
    account = "system:serviceaccount:ci:release"
    given = {"serviceAccountsThatMayApprove": [account]}

    policy = only(
        charts.rendered(OPERATOR, admissionPolicies=given),
        "ValidatingAdmissionPolicy",
        "recovery-approvals.kafka-recovery.dev",
    )

    expressions = {each["name"]: each["expression"] for each in policy["spec"]["variables"]}
    assert expressions["serviceAccountsThatMayApprove"] == f"['{account}']"


def test_what_belongs_to_no_namespace_can_be_left_to_another_release(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, admissionPolicies={"create": False}, clusterRoles={"create": False})

    elsewhere = [each["metadata"]["name"] for each in objects if "namespace" not in each["metadata"]]
    assert set(elsewhere) == {f"kafka-recovery-admission-reader-{HOME}"}
