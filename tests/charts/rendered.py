"""Everything that values of the chart can say, and what is asked of the objects that it makes of them."""

from __future__ import annotations

from typing import Any

import yaml

from charts.conftest import ROOT
from testbed.helm.helm import Object

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
    "secretNames": ["kafka-user"],
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
    own = "labels", "annotations"
    return each | {"metadata": {key: value for key, value in each["metadata"].items() if key not in own}}


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
