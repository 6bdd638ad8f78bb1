"""What `kubectl get` shows of our kinds without being asked for more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

CRDS = sorted((Path(__file__).parents[4] / "crds").glob("*.yaml"))
READY = '.status.conditions[?(@.type=="Ready")].'
"""Says whether the object does what it is for. Who accepted an approval, and why not, does not fit into 80 columns."""


def shown(definition: Path) -> list[dict[str, Any]]:
    """Columns without `-o wide`."""
    (version,) = yaml.safe_load(definition.read_text())["spec"]["versions"]
    return [each for each in version["additionalPrinterColumns"] if not each.get("priority")]


@pytest.mark.parametrize("definition", CRDS, ids=lambda file: file.stem)
def test_behind_whether_it_works_stands_why_it_does_not(definition: Path) -> None:
    paths = [each["jsonPath"] for each in shown(definition)]
    if f"{READY}status" in paths:
        assert paths[paths.index(f"{READY}status") + 1] == f"{READY}reason"


def test_each_kind_that_has_such_a_condition_shows_it() -> None:
    showing = {file.stem for file in CRDS for each in shown(file) if each["jsonPath"].endswith(".reason")}

    assert showing == {
        "fleetrankings",
        "partitionrecoveries",
        "recoverypolicies",
        "watchedclusters",
    }
