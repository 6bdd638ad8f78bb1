"""What a page shows as a policy or a cluster is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from kafka_recovery.domain.policy_file import load_policy
from kafka_recovery.kube.resources import CLUSTERS, read_cluster
from unit.kube.specs import stored

DOCS = Path(__file__).parents[3] / "docs"
YAML = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: str, word: str) -> list[str]:
    return [block for block in YAML.findall((DOCS / page).read_text()) if re.search(word, block, re.MULTILINE)]


@pytest.mark.parametrize("text", [*blocks("policies.md", "^rules:"), *blocks("decision-rules.md", "^rules:")])
def test_policies_hold(text: str) -> None:
    assert load_policy(text, "example").rules


@pytest.mark.parametrize("text", [*blocks("clusters.md", "^kind: W"), *blocks("strimzi.md", "^kind: W")])
def test_clusters_are_taken(text: str) -> None:
    spec = yaml.safe_load(text)["spec"]

    assert read_cluster(stored(CLUSTERS, spec)).cluster_id == spec["clusterId"]
