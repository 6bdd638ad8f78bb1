"""What a page shows as a policy, a cluster or a recovery is one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.formats.policy_file import load_policy
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES, read_cluster, read_recovery
from kafka_recovery.simulator.histories.schedules import VERSION
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


def test_every_field_of_a_policy_is_in_the_table_with_what_holds_without_it() -> None:
    (version,) = yaml.safe_load((ROOT / "crds" / "recoverypolicies.yaml").read_text())["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    page = (DOCS / "explanation" / "decision-rules.md").read_text()
    rows = dict(re.findall(r"^\| `((?:limits|rules\[\])\.[\w.]+)` \| (.*)\|$", page, re.MULTILINE))

    for path, field in leaves(spec):
        row = rows[path]
        if "default" in field:
            assert re.match(rf"`?{re.escape(str(field['default']))}`?\b|`?{re.escape(str(field['default']))}`? ", row)
        for bound in ("minimum", "maximum"):
            assert bound not in field or re.search(rf"\b{field[bound]}\b", row), path
        assert all(f"`{word}`" in row for word in field.get("enum", ())), path


def leaves(field: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field that holds a value, by its path; `topics` counts as one."""
    inner = field.get("properties") or field.get("items", {}).get("properties")
    if inner is None or path.endswith("topics"):
        yield path, field
        return
    for name, each in inner.items():
        if name != "name":
            yield from leaves(each, f"{path}{'[]' if 'items' in field else ''}{'.' if path else ''}{name}")


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
