"""Values that are wrong are refused before anything is touched, by their name; so is an API server that is too old."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.conftest import DEFINITIONS, OPERATOR, ROOT
from kafka_recovery.kube.process.starting import duration as understood
from testbed.helm.helm import Helm, HelmFailed

pytestmark = pytest.mark.apiserver


@pytest.mark.parametrize(
    ("alerts", "said"),
    [
        ({}, "nobody would be asked who they are"),
        ({"tlsSecret": "tls"}, "nobody would be asked who they are"),
        ({"clientCaSecret": "clients"}, "name alertmanager.tlsSecret too"),
    ],
)
def test_alerts_of_just_anybody_are_not_heard(charts: Helm, alerts: dict[str, Any], said: str) -> None:
    with pytest.raises(HelmFailed, match=said):
        charts.rendered(OPERATOR, alertmanager=alerts | {"enabled": True})


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"authority": "Elect"}, "at '/authority': value must be one of 'Observe', 'Approve', 'Automatic'"),
        ({"authorty": "Observe"}, "additional properties 'authorty' not allowed"),
        ({"image": {"version": "1"}}, "at '/image': additional properties 'version' not allowed"),
        ({"image": {"tag": "a:b"}}, "at '/image/tag': 'a:b' does not match"),
        ({"image": {"digest": "abc"}}, "at '/image/digest': 'abc' does not match"),
        ({"replicaCount": "two"}, "at '/replicaCount': got string, want integer"),
        ({"leaseDuration": 1}, "at '/leaseDuration': minimum: got 1, want 6"),
        ({"strategy": {"type": "OnDelete"}}, "at '/strategy/type': value must be one of 'RollingUpdate', 'Recreate'"),
        ({"strategy": {"rollingUpdate": {"maxSurge": -1}}}, "at '/strategy/rollingUpdate/maxSurge'"),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
            "at '/strategy/rollingUpdate/maxUnavailable': value must be 'more than 0 where maxSurge is 0'",
        ),
        ({"strategy": None}, "missing property 'strategy'"),
        ({"alertmanager": None}, "missing property 'alertmanager'"),
        ({"alertmanager": {"tokenSecret": None}}, "at '/alertmanager': missing property 'tokenSecret'"),
        ({"monitoring": None}, "missing property 'monitoring'"),
        ({"probe": "soon"}, "at '/probe': 'soon' does not match"),
        ({"probe": "10ms"}, "at '/probe': value must be '50ms or longer'"),
        ({"rescan": "0s"}, "at '/rescan': value must be '50ms or longer'"),
        ({"evidence": {"every": "0h0.04s"}}, "at '/evidence/every': value must be '50ms or longer'"),
        ({"evidence": {"keep": "0h"}}, "at '/evidence/keep': value must be '50ms or longer'"),
        ({"watchNamespaces": ["Prod"]}, "at '/watchNamespaces/0': 'Prod' does not match"),
        ({"watchNamespaces": ["a", "*"]}, "at '/watchNamespaces/1': '*' does not match"),
        ({"watchNamespaces": "a"}, "at '/watchNamespaces': got string, want array"),
        ({"podSecurityContext": {"runAsUser": 0}}, "at '/podSecurityContext/runAsUser': minimum: got 0, want 1"),
        ({"securityContext": {"readOnlyRootFilesystem": False}}, "at '/securityContext/readOnlyRootFilesystem'"),
        ({"securityContext": {"capabilities": {"drop": []}}}, "at '/securityContext/capabilities/drop'"),
        ({"monitoring": {"monitor": "Yes"}}, "at '/monitoring': additional properties 'monitor' not allowed"),
        ({"imagePullSecrets": ["registry"]}, "at '/imagePullSecrets/0': got string, want object"),
        ({"admissionPolicies": {"serviceAccountsThatMayApprove": ["']+['"]}}, "serviceAccountsThatMayApprove/0"),
        ({"extraEnv": {"A": "b"}}, "at '/extraEnv': got object, want array"),
        ({"extraArgs": ["rescan"]}, "at '/extraArgs/0': 'rescan' does not match"),
        ({"fullnameOverride": "Second"}, "at '/fullnameOverride': 'Second' does not match"),
        ({"commonLabels": {"app.kubernetes.io/name": "x"}}, "invalid propertyName 'app.kubernetes.io/name'"),
        ({"podSecurityContext": {"runAsNonRoot": False}}, "at '/podSecurityContext/runAsNonRoot': value must be true"),
        ({"serviceAccount": {"create": False}}, "at '/serviceAccount/name': minLength"),
        ({"terminationGracePeriodSeconds": 5}, "at '/terminationGracePeriodSeconds': minimum: got 5, want 25"),
        (
            {"livenessProbe": {"httpGet": {}}},
            "at '/livenessProbe': additional properties 'httpGet' not allowed",
        ),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_a_wrong_value_is_refused_by_its_name(charts: Helm, values: dict[str, Any], said: str) -> None:
    with pytest.raises(HelmFailed, match=re.escape(said)):
        charts.rendered(OPERATOR, **values)


@pytest.mark.parametrize("duration", ["50ms", "0.05s", "0s1m", "0.5h", "1m30s", "100.5ms"])
def test_durations_that_the_operator_takes_are_taken(charts: Helm, duration: str) -> None:
    assert understood("--probe", duration)
    assert charts.rendered(OPERATOR, probe=duration, rescan=duration, evidence={"every": duration, "keep": duration})


@pytest.mark.parametrize("place", ["s3://KEY:HIDDEN@bucket/evidence", "file:///HIDDEN", "HIDDEN/evidence", "/a HIDDEN"])
def test_evidence_goes_to_a_folder_of_a_mounted_volume_only(charts: Helm, place: str) -> None:
    """What elects leaders speaks to no object store. A URL may hold credentials: none is repeated."""
    said = "at '/evidence/folder': value must be 'a folder of a mounted volume, such as /evidence'"
    with pytest.raises(HelmFailed, match=said) as refused:
        charts.rendered(OPERATOR, evidence={"folder": place})

    assert "HIDDEN" not in str(refused.value)
    assert charts.rendered(OPERATOR, evidence={"folder": "/var/evidence@home?"})


@pytest.mark.parametrize("chart", [OPERATOR, DEFINITIONS], ids=lambda chart: chart.name)
def test_an_api_server_that_is_too_old_is_refused(charts: Helm, chart: Path) -> None:
    said = r"requires kubeVersion: >=1.32.0-0 which is incompatible with Kubernetes v1.31.9"
    with pytest.raises(HelmFailed, match=said):
        charts.rendered(chart, "--kube-version=1.31.9")

    assert charts.rendered(chart, "--kube-version=1.32.0-eks-1")


def test_metrics_are_not_scraped_twice(charts: Helm) -> None:
    both = {"podMonitor": {"enabled": True}, "serviceMonitor": {"enabled": True}}

    with pytest.raises(HelmFailed, match="enable one of them"):
        charts.rendered(OPERATOR, monitoring=both)


def test_definitions_have_no_values_to_get_wrong(charts: Helm) -> None:
    with pytest.raises(HelmFailed, match="additional properties 'install' not allowed"):
        charts.rendered(DEFINITIONS, install=True)


@pytest.mark.parametrize("file", ["docs/how-to/helm.md", "charts/kafka-recovery-operator/README.md"])
def test_every_value_that_is_written_about_is_taken(charts: Helm, file: str) -> None:
    given = re.findall(r"--set[ =](\S+?=[^\s`]+)", (ROOT / file).read_text())

    assert given
    assert charts.rendered(OPERATOR, *(f"--set={each}" for each in given))


def written_for_the_chart() -> Iterator[tuple[str, dict[str, Any]]]:
    """Values in examples: in a file of theirs, in Argo CD's Application, in Flux's HelmRelease."""
    examples = ROOT / "examples"
    yield "helm", yaml.safe_load((examples / "helm" / "production.yaml").read_text())
    argo = yaml.safe_load((examples / "argocd" / "applications" / "operator.yaml").read_text())
    yield "argocd", argo["spec"]["source"]["helm"]["valuesObject"]
    releases = yaml.safe_load_all((examples / "flux" / "operator" / "releases.yaml").read_text())
    yield from (("flux", each["spec"]["values"]) for each in releases if "values" in each["spec"])


@pytest.mark.parametrize("values", [values for _, values in written_for_the_chart()], ids=["helm", "argocd", "flux"])
def test_values_of_examples_are_taken(charts: Helm, values: dict[str, Any]) -> None:
    objects = charts.rendered(OPERATOR, **values)

    assert "PodMonitor" in {each["kind"] for each in objects} or "monitoring" not in values
    (deployment,) = (each for each in objects if each["kind"] == "Deployment")
    assert "--authority=Approve" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
