"""What a page shows as a policy, a cluster or a recovery is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.formats.policy_file import load_policy
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES, read_cluster, read_recovery
from unit.kube.specs import stored

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
YAML = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
INCIDENT = yaml.safe_load((ROOT / "examples" / "incident" / "partition-recovery.yaml").read_text())
TYPED = re.compile(r"^kubectl create -n NAMESPACE -f - <<EOF\n(.*?)^EOF$", re.DOTALL | re.MULTILINE)
ASKED = "$(kubectl get watchedcluster NAME -n NAMESPACE -o jsonpath='{.spec.clusterId}')"


def blocks(page: str, word: str) -> list[str]:
    return [block for block in YAML.findall((DOCS / page).read_text()) if re.search(word, block, re.MULTILINE)]


@pytest.mark.parametrize("text", [*blocks("policies.md", "^rules:"), *blocks("decision-rules.md", "^rules:")])
def test_policies_hold(text: str) -> None:
    assert load_policy(text, "example").rules


@pytest.mark.parametrize("text", [*blocks("clusters.md", "^kind: W"), *blocks("strimzi.md", "^kind: W")])
def test_clusters_are_taken(text: str) -> None:
    spec = yaml.safe_load(text)["spec"]

    assert read_cluster(stored(CLUSTERS, spec)).cluster_id == spec["clusterId"]


def test_a_recovery_by_hand_is_taken() -> None:
    """The API server gives it a name."""
    created = stored(RECOVERIES, INCIDENT["spec"], name=f"{INCIDENT['metadata']['generateName']}x7k2p")

    recovery = read_recovery(created | {key: INCIDENT[key] for key in ("apiVersion", "kind")})

    assert (recovery.cluster_name, recovery.scope) == ("prod", ALL_OFFLINE)


@pytest.mark.parametrize("page", ["KafkaRecoveryOfflinePartitions", "KafkaRecoveryFailed"])
def test_runbooks_type_the_recovery_that_the_example_holds(page: str) -> None:
    (typed,) = TYPED.findall((DOCS / "runbooks" / f"{page}.md").read_text())

    assert ASKED in typed
    filled = typed.replace(ASKED, INCIDENT["spec"]["clusterId"]).replace("NAME", "prod")
    assert yaml.safe_load(filled) == INCIDENT
