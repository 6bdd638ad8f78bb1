"""What a page shows as a policy, a cluster or a recovery is one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.formats.policy_file import load_policy
from kafka_recovery.kube.clusters.strimzi_controllers import PORT
from kafka_recovery.kube.fleet.resource import read_ranking
from kafka_recovery.kube.resources.kinds import (
    CLUSTERS,
    POLICIES,
    RANKINGS,
    RECOVERIES,
    read_cluster,
    read_policy,
    read_recovery,
)
from kafka_recovery.simulator.histories.schedules import VERSION
from testbed.examples import CLUSTER_ID, EXAMPLES, PLACEHOLDER
from unit.docs.commands import CONTINUED
from unit.kube.specs import stored

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
YAML = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
INCIDENT = yaml.safe_load((ROOT / "examples" / "incident" / "partition-recovery.yaml").read_text())
WATCHED = yaml.safe_load((ROOT / "examples" / "base" / "watched-cluster.yaml").read_text())
TYPED = re.compile(r"^kubectl create -n NAMESPACE -f - <<EOF\n(.*?)^EOF$", re.DOTALL | re.MULTILINE)
ASKED = "$(kubectl get watchedcluster NAME -n NAMESPACE -o jsonpath='{.spec.clusterId}')"


def blocks(page: str, word: str) -> list[str]:
    return [block for block in YAML.findall((DOCS / page).read_text()) if re.search(word, block, re.MULTILINE)]


@pytest.mark.parametrize(
    "text", [*blocks("how-to/policies.md", "^rules:"), *blocks("explanation/decision-rules.md", "^rules:")]
)
def test_policies_hold(text: str) -> None:
    assert load_policy(text, "example").rules


def test_seeds_are_of_the_simulator_s_version() -> None:
    shown = {version for page in DOCS.rglob("*.md") for version in re.findall(r"\bv(\d+):\d+", page.read_text())}

    assert shown == {str(VERSION)}, "what is shown there is an older version's: run it again"


@pytest.mark.parametrize("text", [*blocks("how-to/clusters.md", "^kind: W"), *blocks("how-to/strimzi.md", "^kind: W")])
def test_clusters_are_taken(text: str) -> None:
    spec = yaml.safe_load(text)["spec"]

    assert read_cluster(stored(CLUSTERS, spec)).cluster_id == spec["clusterId"]


@pytest.mark.parametrize(("crd", "example"), [("watchedclusters", WATCHED), ("partitionrecoveries", INCIDENT)])
def test_a_cluster_id_that_nobody_wrote_is_refused(crd: str, example: dict[str, Any]) -> None:
    """It can't be changed afterwards: an example that is applied unedited would have to be deleted."""
    (version,) = yaml.safe_load((ROOT / "crds" / f"{crd}.yaml").read_text())["spec"]["versions"]
    field = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["clusterId"]

    assert not re.search(field["pattern"], example["spec"]["clusterId"])
    assert re.search(field["pattern"], "4L6g3nShT-eMCtK--X86sw")


def test_a_recovery_by_hand_is_taken() -> None:
    """The API server gives it a name."""
    spec = INCIDENT["spec"] | {"clusterId": "4L6g3nShT-eMCtK--X86sw"}
    created = stored(RECOVERIES, spec, name=f"{INCIDENT['metadata']['generateName']}x7k2p")

    recovery = read_recovery(created | {key: INCIDENT[key] for key in ("apiVersion", "kind")})

    assert (recovery.cluster_name, recovery.scope) == ("prod", ALL_OFFLINE)


@pytest.mark.parametrize("page", ["KafkaRecoveryOfflinePartitions", "KafkaRecoveryFailed"])
def test_runbooks_type_the_recovery_that_the_example_holds(page: str) -> None:
    (typed,) = TYPED.findall((DOCS / "runbooks" / f"{page}.md").read_text())

    assert ASKED in typed
    filled = typed.replace(ASKED, INCIDENT["spec"]["clusterId"]).replace("NAME", "prod")
    assert yaml.safe_load(filled) == INCIDENT


# Examples for Git

READ = {CLUSTERS: read_cluster, POLICIES: read_policy, RANKINGS: read_ranking}
KINDS = {kind.kind: kind for kind in READ}
MAY_APPROVE = {"lossless", "automatic"}
"""Overlays whose names say that nobody is asked about some election."""
WRITTEN = [
    (file.relative_to(EXAMPLES).as_posix(), each)
    for file in sorted(EXAMPLES.rglob("*.yaml"))
    for each in yaml.safe_load_all(file.read_text())
]
OURS = [(name, each) for name, each in WRITTEN if each.get("kind") in KINDS]
VERSION_NOW = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def found(kind: str, where: str) -> list[dict[str, Any]]:
    return [each for name, each in WRITTEN if each.get("kind") == kind and name.startswith(where)]


@pytest.mark.parametrize("example", [each for _, each in OURS], ids=[f"{name}-{n}" for n, (name, _) in enumerate(OURS)])
def test_an_example_is_taken_once_its_cluster_has_an_id(example: dict[str, Any]) -> None:
    kind = KINDS[example["kind"]]
    spec = yaml.safe_load(yaml.safe_dump(example["spec"]).replace(PLACEHOLDER, CLUSTER_ID))

    assert READ[kind](stored(kind, spec, name=example["metadata"]["name"]))


def test_no_example_acts_or_approves_unless_its_name_says_so() -> None:
    """A base that approves what is proven would begin to elect on the day that somebody names the controllers."""
    clusters, policies = found("WatchedCluster", ""), found("RecoveryPolicy", "")
    overlays = {path.parent.name: path.read_text() for path in EXAMPLES.glob("overlays/*/kustomization.yaml")}

    assert {each["spec"]["authority"] for each in clusters} == {"Observe"}
    assert {rule["approval"] for each in policies for rule in each["spec"]["rules"]} == {"ManualApprove"}
    assert {name for name, text in overlays.items() if "AutoApprove" in text} == MAY_APPROVE
    assert {name for name, text in overlays.items() if "value: Automatic" in text} == MAY_APPROVE


def test_argo_cd_makes_definitions_then_the_operator_then_what_it_watches() -> None:
    waves = {
        each["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"]: each["spec"]["source"]
        for each in found("Application", "argocd/applications/")
    }

    assert [waves[wave].get("chart", waves[wave].get("path")) for wave in sorted(waves)] == [
        *("kafka-recovery-crds", "kafka-recovery-operator"),
        "overlays/approve",
    ]
    (root,) = found("Application", "argocd/root.yaml")
    assert (EXAMPLES / root["spec"]["source"]["path"] / "kustomization.yaml").is_file()


def test_flux_makes_definitions_then_the_operator_then_what_it_watches() -> None:
    releases = {each["metadata"]["name"]: each["spec"] for each in found("HelmRelease", "flux/")}
    synced = {
        each["metadata"]["name"]: each["spec"]
        for each in found("Kustomization", "flux/")
        if each["apiVersion"].startswith("kustomize.toolkit")
    }
    charts = {each["metadata"]["name"]: each["spec"] for each in found("OCIRepository", "flux/")}

    assert releases["kafka-recovery"]["dependsOn"] == [{"name": "kafka-recovery-crds"}]
    assert {each["chartRef"]["name"] for each in releases.values()} == set(charts)
    assert synced["kafka-recovery"]["dependsOn"] == [{"name": "kafka-recovery-operator"}]
    assert synced["kafka-recovery-operator"]["wait"] is True
    assert all((EXAMPLES / each["path"]).is_dir() for each in synced.values())


def test_examples_name_the_version_that_this_is() -> None:
    versions = {each["spec"]["source"].get("targetRevision") for each in found("Application", "argocd/applications/")}
    tags = {each["spec"]["ref"]["tag"] for each in found("OCIRepository", "flux/")}
    images = {each["spec"]["image"].rpartition(":")[2] for each in found("FleetRanking", "fleet/")}

    assert versions - {"main"} == tags == images == {VERSION_NOW}


def test_strimzi_s_user_has_the_rights_that_the_page_lists() -> None:
    """No more, and all that a principal needs which may elect."""
    (user,) = (each for each in found("KafkaUser", "strimzi/") if each["metadata"]["name"] == "kafka-recovery")
    granted = {
        (acl["resource"]["type"], word) for acl in user["spec"]["authorization"]["acls"] for word in acl["operations"]
    }
    listed = re.findall(
        r"^kafka-acls\.sh .*?--(topic|cluster)(.*)$",
        CONTINUED.sub(" ", (DOCS / "how-to" / "acls.md").read_text()),
        re.MULTILINE,
    )

    assert granted == {(kind, word) for kind, rest in listed for word in re.findall(r"--operation (\w+)", rest)}
    component = EXAMPLES / "components" / "strimzi" / "kustomization.yaml"
    assert f"user: {user['metadata']['name']}" in component.read_text()


def test_who_reads_strimzi_s_controllers_has_no_other_right_and_its_port_is_opened_to_the_operator_alone() -> None:
    (user,) = (each for each in found("KafkaUser", "strimzi/") if "controllers" in each["metadata"]["name"])
    (policy,) = found("NetworkPolicy", "strimzi/")
    (rule,) = policy["spec"]["ingress"]
    (peer,) = rule["from"]

    assert user["spec"]["authentication"] == {"type": "tls-external"}
    assert user["spec"]["authorization"]["acls"] == [{"resource": {"type": "cluster"}, "operations": ["ClusterAction"]}]
    assert policy["spec"]["podSelector"]["matchLabels"]["strimzi.io/controller-role"] == "true"
    assert rule["ports"] == [{"protocol": "TCP", "port": PORT}]
    assert peer["podSelector"] == {"matchLabels": {"app.kubernetes.io/name": "kafka-recovery-operator"}}
