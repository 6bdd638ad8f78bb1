"""What we ship about FleetRankings: examples that are taken, rights that are needed, words that are explained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_recovery.kube.fleet import naming
from kafka_recovery.kube.fleet.dialect import PLURAL
from kafka_recovery.kube.fleet.fields import Choice
from kafka_recovery.kube.fleet.resource import read_ranking
from kafka_recovery.kube.fleet.results import INVALID, UNREADABLE
from kafka_recovery.kube.fleet.runs import State
from kafka_recovery.kube.fleet.spark_operators import DIALECTS, NO_SPARK_OPERATOR
from kafka_recovery.kube.fleet.steps import Failure
from kafka_recovery.kube.resources.kinds import GROUP, RANKINGS
from unit.kube.fleet.asked import ranking
from unit.kube.specs import stored

ROOT = Path(__file__).parents[4]
EXAMPLES = sorted((ROOT / "examples" / "fleet").glob("*.yaml"))
DOCS = (ROOT / "docs" / "how-to" / "fleet-rankings.md").read_text()
MANIFEST = ROOT / "manifests" / "rbac" / "optional" / "fleet.yaml"

STANDINGS = ("AsExpected", "Succeeded", "Suspended", "InvalidSpec", "InvalidStatus")
TROUBLES = ("InvalidReference", "InvalidSpec", "StorageUnavailable", "Forbidden")


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_are_taken(file: Path) -> None:
    (example,) = documents(file)

    assert read_ranking(stored(RANKINGS, example["spec"])).spec.task in ("Rank", "Readiness")


def granted_to(role: str) -> set[tuple[str, str, str]]:
    """Group, resource and verb that a Role of ours allows."""
    (found,) = (each for each in documents(MANIFEST) if (each["kind"], each["metadata"]["name"]) == ("Role", role))
    return {
        (group, resource, verb)
        for rule in found["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_role_allows_what_is_done_and_no_secret() -> None:
    granted = granted_to("kafka-recovery-operator-fleet")
    for dialect in DIALECTS.values():
        group = dialect.api.partition("/")[0]
        assert {verb for at, resource, verb in granted if (at, resource) == (group, PLURAL)} == {
            *("get", "list", "create", "delete"),
            "patch",  # only `suspend`
        }
    assert not [resource for _, resource, _ in granted if resource == "secrets"]


def test_the_default_account_is_the_one_that_has_the_drivers_rights() -> None:
    accounts = [each["metadata"]["name"] for each in documents(MANIFEST) if each["kind"] == "ServiceAccount"]

    assert accounts == ["kafka-recovery-operator-fleet", ranking().spec.service_account]


def test_what_reads_object_stores_may_open_no_recovery_and_what_elects_only_read_what_was_ranked() -> None:
    kinds = {
        (resource, verb) for group, resource, verb in granted_to("kafka-recovery-operator-fleet") if group == GROUP
    }
    assert kinds == {
        *(("fleetrankings", "get"), ("fleetrankings", "list"), ("fleetrankings/status", "patch")),
        ("recoverypolicies", "get"),
    }
    assert granted_to("kafka-recovery-operator-rankings") == {(GROUP, "fleetrankings", "get")}


def test_each_word_is_explained() -> None:
    words = [
        *(str(word) for enum in (Failure, State, Choice) for word in enum),
        *(INVALID, UNREADABLE, NO_SPARK_OPERATOR),
        *STANDINGS,
        *TROUBLES,
        naming.MAIN_FILE,
        naming.CONFIG_PATH + "/" + naming.POLICY_FILE,
    ]
    missing = [word for word in words if f"`{word}`" not in DOCS]
    assert not missing, "\n".join(missing)
