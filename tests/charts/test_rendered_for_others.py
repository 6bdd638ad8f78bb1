"""What the chart makes of values for who looks at the operator or calls it: webhook, metrics, alerts, dashboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.conftest import OPERATOR, ROOT
from charts.rendered import (
    EVERYTHING,
    FLEET_NAME,
    HOME,
    NAME,
    container_of,
    labels,
    manifest,
    names,
    only,
    pod,
    rules,
)
from kafka_recovery.kube.webhook.endpoint import Endpoint
from testbed.helm.helm import Helm, HelmFailed, Object

pytestmark = pytest.mark.apiserver


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


@pytest.mark.parametrize(("values", "name"), [({}, NAME), (EVERYTHING, NAME), (EVERYTHING, FLEET_NAME)])
def test_what_helm_test_runs_is_a_process_s_own_pod_but_looks_only_and_is_called_by_nobody(
    charts: Helm, values: dict[str, Any], name: str
) -> None:
    """Its volumes would be another Pod's too, or be missing."""
    objects = charts.rendered(OPERATOR, **values)
    assert len(names(objects, "Pod")) == len(names(objects, "Deployment"))
    asks, acts = only(objects, "Pod", f"{name}-check"), only(objects, "Deployment", name)["spec"]["template"]["spec"]
    (ours,), (theirs,) = asks["spec"].pop("containers"), acts.pop("containers")

    assert asks["metadata"]["annotations"] == {"helm.sh/hook": "test"}
    assert ours["args"] == [*theirs["args"], "--check"]
    assert {name: ours[name] for name in ("image", "env", "securityContext", "resources")}.items() <= theirs.items()
    assert not [name for name in ours if name.endswith("Probe") or name == "ports"]
    assert asks["spec"].items() >= {"restartPolicy": "Never", "serviceAccountName": acts["serviceAccountName"]}.items()
    assert [each["name"] for each in asks["spec"]["volumes"]] == ["tmp"]
    assert [each["name"] for each in ours["volumeMounts"]] == ["tmp"]
    selected = [chosen.items() for each in objects for chosen in selectors(each)]
    assert len(selected) >= 2
    assert not [each for each in selected if each <= labels(asks).items()]


def selectors(of: Object) -> list[dict[str, str]]:
    """By which labels an object chooses Pods; a PodMonitor also wants a port, which this one has not."""
    if of["kind"] not in ("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service"):
        return []
    found = of["spec"].get("podSelector") or of["spec"].get("selector") or {}
    return [found.get("matchLabels", found)] if found else []


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
