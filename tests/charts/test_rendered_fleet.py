"""What the chart makes of values where fleets are ranked, by the real Helm and without a cluster."""

from __future__ import annotations

import pytest

from charts.conftest import OPERATOR
from charts.rendered import (
    EVERYTHING,
    FLEET,
    FLEET_NAME,
    NAME,
    arguments_of,
    container_of,
    labels,
    manifest,
    only,
    rules,
)
from testbed.helm.helm import Helm, HelmFailed, Object

pytestmark = pytest.mark.apiserver


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
