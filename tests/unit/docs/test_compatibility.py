"""docs/reference/compatibility.md calls tested what the tests really run on."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from testbed.distribution import RELEASES
from testbed.helm import distribution as helm
from testbed.kubernetes import distribution as kubernetes

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
ROWS = {
    row[0].strip(): row[1:] for row in (line.strip("|").split("|") for line in PAGE.splitlines() if line[:2] == "| ")
}


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


@pytest.mark.parametrize(
    ("what", "versions"),
    [
        ("Kafka, KRaft only", [release.version for release in RELEASES.values()]),
        ("Kubernetes", [minor(kubernetes.VERSION)]),
        ("Helm", [minor(helm.VERSION)]),
    ],
)
def test_what_is_called_tested_is_what_the_tests_run_on(what: str, versions: list[str]) -> None:
    assert re.findall(r"\d+\.[\d.]*\d", ROWS[what][1]) == versions


def test_what_is_called_supported_is_what_is_let_in() -> None:
    python = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    chart = yaml.safe_load((ROOT / "charts" / "kafka-recovery-operator" / "Chart.yaml").read_text())["kubeVersion"]

    (least_python, *_), (least_kubernetes, *_) = (
        re.findall(r"[\d.]+", ROWS[what][0]) for what in ("Python, outside the image", "Kubernetes")
    )

    assert (python, chart) == (f">={least_python}", f">={least_kubernetes}.0-0")
