"""What the chart makes of values, by the real Helm and without a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from charts.conftest import DEFINITIONS, OPERATOR, RELEASE, ROOT
from kafka_recovery.kube.__main__ import app
from kafka_recovery.kube.fleet_main import app as fleet_app
from kafka_recovery.kube.process.liveness import READY
from kafka_recovery.kube.webhook.endpoint import Endpoint
from testbed.helm.helm import Helm, HelmFailed, Object

pytestmark = pytest.mark.apiserver

MANIFESTS = ROOT / "manifests"
NAME = "kafka-recovery-operator"
HOME = "kafka-recovery"
SPREAD = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
ZONE = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a", "b"]}]}
OF_ITS_POD: Object = {
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [ZONE]}}},
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["10.0.0.10"], "searches": ["kafka.example.com"]},
    "hostAliases": [{"ip": "10.0.3.7", "hostnames": ["broker-1.example.com"]}],
    "terminationGracePeriodSeconds": 60,
    "topologySpreadConstraints": [SPREAD | {"labelSelector": {"matchLabels": {"app.kubernetes.io/name": NAME}}}],
}
OF_ITS_CONTAINER: Object = {
    "extraEnv": [{"name": "AWS_REGION", "value": "eu-west-1"}],
    "extraEnvFrom": [{"secretRef": {"name": "storage"}}],
    "extraVolumeMounts": [{"name": "evidence", "mountPath": "/evidence"}],
    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}},
}
EGRESS = [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 9092, "protocol": "TCP"}]}]
INGRESS_FROM = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
FLEET: Object = {"enabled": True, "resultsPrefixes": ["s3://fleet/results?region=eu-west-1"]}
FLEET_NAME = f"{NAME}-fleet"
EVERYTHING: Object = {
    **OF_ITS_POD,
    **OF_ITS_CONTAINER,
    "extraVolumes": [{"name": "evidence", "persistentVolumeClaim": {"claimName": "evidence"}}],
    "podLabels": {"team": "kafka"},
    "commonLabels": {"example.com/cost": "4711"},
    "podSecurityContext": {"fsGroupChangePolicy": "OnRootMismatch"},
    "extraArgs": ["--log-level=WARNING"],
    "livenessProbe": {"periodSeconds": 20},
    "podAnnotations": {"example.com/owner": "kafka"},
    "serviceAccount": {"annotations": {"example.com/role": "evidence"}},
    "imagePullSecrets": [{"name": "registry"}, {"name": "mirror"}],
    "securityContext": {"seLinuxOptions": {"level": "s0:c123,c456"}},
    "extraObjects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}-more"}}],
    "networkPolicy": {"ingressFrom": INGRESS_FROM, "egress": EGRESS},
    "replicaCount": 2,
    "evidence": {"folder": "/evidence"},
    "strimzi": {"enabled": True, "nodes": True},
    "fleet": FLEET,
    "alertmanager": {
        "enabled": True,
        "tokenSecret": {"name": "alerts-token"},
        "tlsSecret": "alerts-tls",
        "clientCaSecret": "alerts-clients",
    },
    "monitoring": {
        "podMonitor": {"enabled": True, "interval": "15s", "relabelings": [{"action": "labeldrop", "regex": "pod"}]},
        "prometheusRule": {"enabled": True, "runbookUrl": "https://docs.example/runbooks"},
        "dashboard": {"enabled": True},
        "labels": {"release": "prometheus"},
    },
}


def only(objects: list[Object], kind: str, name: str = NAME, namespace: str | None = None) -> Object:
    (found,) = [
        each
        for each in objects
        if (each["kind"], each["metadata"]["name"]) == (kind, name)
        and namespace in (None, each["metadata"].get("namespace"))
    ]
    return found


def names(objects: list[Object], kind: str) -> list[tuple[str | None, str]]:
    found = [each["metadata"] for each in objects if each["kind"] == kind]
    return sorted((meta.get("namespace"), meta["name"]) for meta in found)


def manifest(file: str) -> list[Object]:
    return list(yaml.safe_load_all((MANIFESTS / file).read_text()))


def bare(each: Object) -> Object:
    """Without what only a chart writes."""
    return each | {"metadata": {key: value for key, value in each["metadata"].items() if key != "labels"}}


def rules(objects: list[Object], kind: str, name: str) -> list[Any]:
    return list(only(objects, kind, name)["rules"])


def pod(objects: list[Object]) -> Object:
    return dict(only(objects, "Deployment")["spec"]["template"]["spec"])


def container_of(deployment: Object) -> Object:
    return dict(deployment["spec"]["template"]["spec"]["containers"][0])


def labels(each: Object) -> dict[str, str]:
    return dict(each["metadata"]["labels"])


def arguments(objects: list[Object]) -> list[str]:
    return arguments_of(only(objects, "Deployment"))


def arguments_of(deployment: Object) -> list[str]:
    return list(deployment["spec"]["template"]["spec"]["containers"][0]["args"])


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


@pytest.mark.parametrize(("part", "role"), [("strimzi", "strimzi"), ("fleet", "rankings")])
def test_more_rights_only_for_who_wants_them(charts: Helm, part: str, role: str) -> None:
    more = rules(manifest(f"rbac/optional/{part}.yaml"), "Role", f"{NAME}-{role}")

    without = rules(charts.rendered(OPERATOR), "Role", NAME)

    assert not [rule for rule in more if rule in without]
    assert (
        rules(charts.rendered(OPERATOR, **{part: FLEET if part == "fleet" else {"enabled": True}}), "Role", NAME)
        == without + more
    )


@pytest.mark.parametrize("namespaces", [[], ["*"]])
def test_it_deletes_pods_only_where_that_is_wanted(charts: Helm, namespaces: list[str]) -> None:
    kind, role = ("ClusterRole", f"{NAME}-{HOME}") if namespaces else ("Role", NAME)
    strimzi = rules(charts.rendered(OPERATOR, watchNamespaces=namespaces, strimzi={"enabled": True}), kind, role)
    wanted = {"enabled": True, "holdBack": True}

    given = rules(charts.rendered(OPERATOR, watchNamespaces=namespaces, strimzi=wanted), kind, role)

    by_hand = rules(manifest("rbac/optional/hold-back.yaml"), "Role", f"{NAME}-hold-back")
    assert not [rule for rule in strimzi if "delete" in rule["verbs"] and "pods" in rule["resources"]]
    assert given == strimzi + by_hand


def test_it_reads_nodes_only_where_that_is_wanted(charts: Helm) -> None:
    by_hand = rules(manifest("rbac/optional/nodes.yaml"), "ClusterRole", f"{NAME}-nodes")

    without = names(charts.rendered(OPERATOR, strimzi={"enabled": True}), "ClusterRole")
    objects = charts.rendered(OPERATOR, strimzi={"enabled": True, "nodes": True})

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


# What has fleets ranked


def test_who_asks_no_fleet_has_nothing_of_it(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, monitoring={"serviceMonitor": {"enabled": True}})

    assert not [each for each in objects if "fleet" in each["metadata"]["name"].replace("fleet-rankings.", "")]
    assert "fleetrankings" not in str([each["rules"] for each in objects if each["kind"] == "Role"])


def test_what_reads_object_stores_is_a_process_and_an_account_of_its_own(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, fleet=FLEET)
    elects, ranks = (only(objects, "Deployment", name) for name in (NAME, FLEET_NAME))
    accounts = [each["spec"]["template"]["spec"]["serviceAccountName"] for each in (elects, ranks)]

    assert accounts == [NAME, FLEET_NAME]
    assert only(objects, "ServiceAccount", FLEET_NAME)["automountServiceAccountToken"] is False
    assert "--fleet-results=s3://fleet/results?region=eu-west-1" in arguments_of(ranks)
    assert not [each for each in arguments_of(elects) if "fleet" in each]
    (container,) = ranks["spec"]["template"]["spec"]["containers"]
    assert (container["command"], container["image"]) == (
        ["kafka-recovery-fleet-operator"],
        container_of(elects)["image"],
    )


def test_the_fleet_operator_may_do_what_the_manifests_allow_and_holds_a_lease_of_its_own(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, fleet=FLEET)

    where, home = (rules(objects, "Role", name) for name in (FLEET_NAME, f"{FLEET_NAME}-home"))
    by_hand = rules(manifest("rbac/optional/fleet.yaml"), "Role", FLEET_NAME)
    assert where + home == by_hand
    assert {group for rule in home for group in rule["apiGroups"]} == {"coordination.k8s.io"}
    for name in (FLEET_NAME, f"{FLEET_NAME}-home"):
        assert [who["name"] for who in only(objects, "RoleBinding", name)["subjects"]] == [FLEET_NAME]
    second = charts.rendered(OPERATOR, fleet=FLEET, fullnameOverride="second")
    assert {name for rule in rules(second, "Role", "second-fleet-home") for name in rule.get("resourceNames", ())} == {
        "second-fleet"
    }
    assert "--name=second-fleet" in arguments_of(only(second, "Deployment", "second-fleet"))


def test_no_pod_of_one_is_taken_for_the_other_s(charts: Helm) -> None:
    """Two Deployments whose selectors meet would count each other's Pods."""
    monitored = EVERYTHING | {"monitoring": {"serviceMonitor": {"enabled": True}}}
    objects = charts.rendered(OPERATOR, **(monitored | {"fleet": FLEET | {"replicaCount": 2}}))
    selectors = [
        selector
        for name in (NAME, FLEET_NAME)
        for selector in (
            only(objects, "Deployment", name)["spec"]["selector"]["matchLabels"],
            only(objects, "PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"],
            only(objects, "NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"],
            only(objects, "Service", f"{name}-metrics")["spec"]["selector"],
        )
    ]
    pods = [only(objects, "Deployment", name)["spec"]["template"]["metadata"]["labels"] for name in (NAME, FLEET_NAME)]

    selected = [[selector.items() <= labels.items() for selector in selectors] for labels in pods]
    assert selected == [[True] * 4 + [False] * 4, [False] * 4 + [True] * 4]


def test_one_monitor_sees_both(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, **EVERYTHING)
    wanted = only(objects, "PodMonitor")["spec"]["selector"]["matchLabels"].items()
    for name in (NAME, FLEET_NAME):
        assert wanted <= labels(only(objects, "Deployment", name)["spec"]["template"]).items()

    services = charts.rendered(OPERATOR, **(EVERYTHING | {"monitoring": {"serviceMonitor": {"enabled": True}}}))
    wanted = only(services, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    seen = [
        each["metadata"]["name"] for each in services if each["kind"] == "Service" and wanted <= labels(each).items()
    ]
    assert seen == [f"{NAME}-metrics", f"{FLEET_NAME}-metrics"]


def test_what_is_said_of_the_fleet_operator_alone_stands_in_its_pod_alone(charts: Helm) -> None:
    own: Object = {
        "extraEnvFrom": [{"secretRef": {"name": "bucket"}}],
        "extraVolumes": [{"name": "results", "persistentVolumeClaim": {"claimName": "results"}}],
        "extraVolumeMounts": [{"name": "results", "mountPath": "/results"}],
        "serviceAccount": {"annotations": {"example.com/role": "results"}},
        "resources": {"limits": {"memory": "3Gi"}},
        "extraArgs": ["--log-level=DEBUG"],
    }
    objects = charts.rendered(OPERATOR, fleet=FLEET | own)
    elects, ranks = (only(objects, "Deployment", name) for name in (NAME, FLEET_NAME))

    said = container_of(ranks)
    assert (said["envFrom"], said["resources"]["limits"]) == (own["extraEnvFrom"], {"memory": "3Gi"})
    assert said["args"][-1] == "--log-level=DEBUG"
    assert own["extraVolumes"][0] in ranks["spec"]["template"]["spec"]["volumes"]
    assert only(objects, "ServiceAccount", FLEET_NAME)["metadata"]["annotations"] == {"example.com/role": "results"}
    assert not {"envFrom"} & container_of(elects).keys()
    assert "3Gi" not in str(elects)
    assert "annotations" not in only(objects, "ServiceAccount")["metadata"]


def test_a_name_that_is_the_drivers_is_refused(charts: Helm) -> None:
    with pytest.raises(HelmFailed, match="choose another name"):
        charts.rendered(OPERATOR, fleet=FLEET, fullnameOverride="kafka-recovery")


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


# What others look at


def read_from_secrets(deployment: Object, option: str) -> set[tuple[str, str]]:
    """Files that options of this beginning name, and the Secrets that they are mounted from."""
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    folders = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    secrets = {each["name"]: each["secret"]["secretName"] for each in spec["volumes"] if "secret" in each}
    return {
        (Path(file).name, secrets[folders[str(Path(file).parent)]])
        for name, _, file in (each.partition("=") for each in container["args"])
        if name.startswith(option) and file.startswith("/")
    }


def test_files_that_the_webhook_reads_are_mounted(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, **EVERYTHING)

    assert read_from_secrets(only(objects, "Deployment"), "--webhook-") == {
        ("token", "alerts-token"),
        ("tls.crt", "alerts-tls"),
        ("tls.key", "alerts-tls"),
        ("ca.crt", "alerts-clients"),
    }
    (container,) = pod(objects)["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert f"--webhook-port={ports['alerts']}" in container["args"]


CLIENT: Object = {"cert": {"secret": {"name": "scraper", "key": "tls.crt"}}, "keySecret": {"name": "s", "key": "k"}}
CLOSED: Object = {
    "tlsSecret": "metrics-tls",
    "clientCaSecret": "metrics-clients",
    "tokenSecret": {"name": "metrics-token", "key": "word"},
    "tlsConfig": CLIENT,
}


@pytest.mark.parametrize("name", [NAME, FLEET_NAME])
def test_files_by_which_metrics_are_served_are_mounted(charts: Helm, name: str) -> None:
    objects = charts.rendered(OPERATOR, **(EVERYTHING | {"monitoring": {"metrics": CLOSED}}))

    assert read_from_secrets(only(objects, "Deployment", name), "--metrics-") == {
        ("word", "metrics-token"),
        ("tls.crt", "metrics-tls"),
        ("tls.key", "metrics-tls"),
        ("ca.crt", "metrics-clients"),
    }


@pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor"])
def test_a_monitor_is_let_in(charts: Helm, kind: str) -> None:
    def scraped(**metrics: Any) -> Object:
        given = {"metrics": metrics, f"{kind[0].lower()}{kind[1:]}": {"enabled": True}}
        spec = only(charts.rendered(OPERATOR, monitoring=given), kind)["spec"]
        (end,) = spec.get("podMetricsEndpoints") or spec["endpoints"]
        return dict(end)

    assert not scraped().keys() & {"scheme", "tlsConfig", "authorization"}
    by_ca = {"ca": {"secret": {"name": "metrics-tls", "key": "ca.crt"}}, "serverName": f"{NAME}-metrics.{HOME}.svc"}
    assert scraped(tlsSecret="metrics-tls").items() >= {"scheme": "https", "tlsConfig": by_ca}.items()
    closed = scraped(**CLOSED)
    assert closed["tlsConfig"] == by_ca | CLIENT
    assert closed["authorization"] == {"credentials": {"name": "metrics-token", "key": "word"}}
    with_name = scraped(tlsSecret="metrics-tls", tlsConfig={"serverName": "kafka.test"})
    assert with_name["tlsConfig"] == by_ca | {"serverName": "kafka.test"}


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({"clientCaSecret": "clients"}, "name monitoring.metrics.tlsSecret too"),
        ({"clientCaSecret": "clients", "tlsSecret": "tls"}, "a monitor needs a certificate of that CA"),
    ],
)
def test_metrics_that_nobody_could_scrape_are_refused(charts: Helm, metrics: Object, said: str) -> None:
    with pytest.raises(HelmFailed, match=said):
        charts.rendered(OPERATOR, monitoring={"metrics": metrics, "podMonitor": {"enabled": True}})


@pytest.mark.parametrize("name", [NAME, "second"])
def test_the_service_for_alerts_leads_where_the_holder_of_the_lease_writes_it(charts: Helm, name: str) -> None:
    """A selector would send every second alert to who stands by; this Service's only slices are the holder's."""
    objects = charts.rendered(OPERATOR, **(EVERYTHING | {"fullnameOverride": name}))

    service = only(objects, "Service", f"{name}-alerts")
    container = container_of(only(objects, "Deployment", name))
    given = {
        each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container["env"] if "valueFrom" in each
    }
    environment = {"POD_NAME": "operator-1", "POD_UID": "uid-1"}
    ours = [Endpoint.of(f"{name}-alerts", HOME, environment | {"POD_IP": ip}) for ip in ("10.0.0.1", "fd00::1")]

    assert "selector" not in service["spec"]
    assert f"--webhook-service={service['metadata']['name']}" in container["args"]
    assert given.items() >= {
        ("POD_NAME", "metadata.name"),
        ("POD_UID", "metadata.uid"),
        ("POD_IP", "status.podIP"),
    }
    slices = [each.slice(9095) for each in ours]
    assert [port["name"] for each in slices for port in each["ports"]] == [service["spec"]["ports"][0]["name"]] * 2
    (right,) = [each for each in rules(objects, "Role", f"{name}-home") if "discovery.k8s.io" in each["apiGroups"]]
    assert right["resourceNames"] == [each["metadata"]["name"] for each in slices]


def test_who_hears_no_alerts_may_lead_no_service_anywhere(charts: Helm) -> None:
    (by_hand,) = rules(manifest("rbac/optional/alerts.yaml"), "Role", f"{NAME}-alerts")

    assert by_hand not in rules(charts.rendered(OPERATOR), "Role", f"{NAME}-home")
    assert by_hand in rules(charts.rendered(OPERATOR, **EVERYTHING), "Role", f"{NAME}-home")
    fleets = only(charts.rendered(OPERATOR, **EVERYTHING), "Deployment", FLEET_NAME)
    assert "POD_IP" not in str(container_of(fleets)["env"])


def test_rules_and_dashboard_are_those_of_the_plain_files(charts: Helm) -> None:
    objects = charts.rendered(OPERATOR, **EVERYTHING)

    monitoring = ROOT / "monitoring"
    rules = only(objects, "PrometheusRule")
    assert rules["spec"] == yaml.safe_load((monitoring / "prometheus-rules.yaml").read_text())
    assert rules["metadata"]["labels"]["release"] == "prometheus"
    dashboard = only(objects, "ConfigMap", f"{NAME}-dashboard")
    held = json.loads(dashboard["data"]["kafka-recovery.json"])
    assert held == json.loads((monitoring / "grafana-dashboard.json").read_text())
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_runbooks_are_where_you_say(charts: Helm) -> None:
    given = {"prometheusRule": {"enabled": True, "runbookUrl": "https://runbooks.test/kafka"}}

    groups = only(charts.rendered(OPERATOR, monitoring=given), "PrometheusRule")["spec"]["groups"]

    links = {rule["annotations"]["runbook_url"] for group in groups for rule in group["rules"] if "alert" in rule}
    assert links
    assert not [link for link in links if not link.startswith("https://runbooks.test/kafka/Kafka")]


def test_an_alert_leads_nowhere_rather_than_to_a_page_that_is_not_there(charts: Helm) -> None:
    rules = only(charts.rendered(OPERATOR, monitoring={"prometheusRule": {"enabled": True}}), "PrometheusRule")

    assert "docs.example" not in json.dumps(rules)
    theirs = yaml.safe_load((ROOT / "monitoring" / "prometheus-rules.yaml").read_text())
    for rule in (rule for group in theirs["groups"] for rule in group["rules"] if "alert" in rule):
        del rule["annotations"]["runbook_url"]
    assert rules["spec"] == theirs


@pytest.mark.parametrize("kind", ["PodMonitor", "ServiceMonitor"])
def test_a_monitor_finds_the_metrics_and_leaves_their_labels_alone(charts: Helm, kind: str) -> None:
    """`namespace` is a WatchedCluster's: that of the Pod, which Prometheus adds, must not take its place."""
    given = {"enabled": True, "interval": "15s", "metricRelabelings": [{"action": "labeldrop", "regex": "pod"}]}
    objects = charts.rendered(OPERATOR, monitoring={f"{kind[0].lower()}{kind[1:]}": given})

    spec = only(objects, kind)["spec"]
    (end,) = spec.get("podMetricsEndpoints") or spec["endpoints"]
    assert (end["port"], end["honorLabels"], end["interval"]) == ("metrics", True, "15s")
    assert end["metricRelabelings"] == given["metricRelabelings"]
    whose = (
        only(objects, "Deployment")["spec"]["template"]
        if kind == "PodMonitor"
        else only(objects, "Service", f"{NAME}-metrics")
    )
    assert spec["selector"]["matchLabels"].items() <= whose["metadata"]["labels"].items()


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
