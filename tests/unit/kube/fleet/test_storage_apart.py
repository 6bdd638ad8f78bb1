"""Results must not lie in the evidence: the model and the rule in the schema refuse the same places."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import yaml

from kafka_recovery.formats.documents import InvalidDocument
from unit.kube.fleet.asked import ranking

INSIDE = [
    ("s3://b/e", "s3://b/e"),
    ("s3://b/e", "s3://b/e/results"),
    ("s3://b/e/", "s3://b/e"),
    ("s3://b/e/", "s3://b/e/results"),
    ("s3://b/e", "s3://b/e//"),
    ("s3://b/e//", "s3://b//e/results"),
    ("s3://b", "s3://b/results"),
]
APART = [
    ("s3://b/e", "s3://b/results"),
    ("s3://b/e", "s3://b/e-results"),
    ("s3://b/e/", "s3://b/e-results/"),
    ("s3://b/e/today", "s3://b/e"),
    ("s3://b/e", "s3://c/e/results"),
]


class Text(str):
    """Text with the methods that CEL gives it."""

    startsWith = str.startswith  # noqa: N815 - CEL's name

    def __add__(self, other: str) -> Text:
        return Text(super().__add__(other))

    def replace(self, old: str, new: str) -> Text:  # type: ignore[override]
        return Text(super().replace(old, new))


class Places:
    """The `self` of the rule."""

    def __init__(self, evidence: str, results: str) -> None:
        self.evidence, self.results = Text(evidence), Text(results)


@cache
def rule_of_the_schema() -> str:
    file = Path(__file__).parents[4] / "crds" / "fleetrankings.yaml"
    (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
    storage = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["storage"]
    (rule,) = storage["x-kubernetes-validations"]
    found: str = rule["rule"]
    return found


def schema_takes(evidence: str, results: str) -> bool:
    """What the rule says, which reads in Python as in CEL but for its exclamation mark."""
    assert rule_of_the_schema().startswith("!")
    return not eval(rule_of_the_schema()[1:], {"self": Places(evidence, results)})


@pytest.mark.parametrize(("evidence", "results"), INSIDE)
def test_results_in_the_evidence_are_refused_however_they_are_written(evidence: str, results: str) -> None:
    assert not schema_takes(evidence, results)
    with pytest.raises(InvalidDocument, match="results must not lie in the evidence"):
        ranking(storage={"evidence": evidence, "results": results})


@pytest.mark.parametrize(("evidence", "results"), APART)
def test_results_beside_the_evidence_are_taken(evidence: str, results: str) -> None:
    assert schema_takes(evidence, results)
    ranking(storage={"evidence": evidence, "results": results})
