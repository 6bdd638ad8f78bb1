"""The charts in the hands of the tools that others check charts with.

Only in `make test-full`: two programs to build, for what `test_installed.py` asks a real API server and
`test_rendered*.py` ask of the templates.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.conftest import DEFINITIONS, OPERATOR, ROOT
from charts.rendered import EVERYTHING
from charts.schemas import PATTERN, write_schemas
from testbed.helm.distribution import fetch
from testbed.helm.helm import Helm
from testbed.kubernetes.control_plane import ControlPlane

pytestmark = [pytest.mark.apiserver, pytest.mark.full]

FOREIGN = "PodMonitor,ServiceMonitor,PrometheusRule"
"""Kinds that no API server has of itself."""


@pytest.fixture(scope="session")
def schemas(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of every kind that a real API server knows."""
    folder = tmp_path_factory.mktemp("schemas")
    write_schemas(json.loads(control_plane.kubectl()("get", "--raw", "/openapi/v2")), folder)
    return folder


def checked(schemas: Path, objects: list[Any]) -> tuple[int, dict[str, Any]]:
    """kubeconform's exit code, and what it says of these objects."""
    command = [str(fetch("kubeconform")["kubeconform"]), "-strict", "-output=json", "-summary", f"-skip={FOREIGN}"]
    location = f"-schema-location={schemas}/{PATTERN}"
    given = yaml.safe_dump_all(objects)
    done = subprocess.run([*command, location], input=given, capture_output=True, text=True, timeout=60)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"watchNamespaces": ["*"]}], ids=["defaults", "all", "everywhere"])
def test_every_object_is_one_that_the_api_server_knows(charts: Helm, schemas: Path, values: dict[str, Any]) -> None:
    code, said = checked(schemas, charts.rendered(OPERATOR, **values))

    assert (code, said["resources"]) == (0, [])
    assert said["summary"]["valid"] >= 15


def test_every_definition_is_one_that_the_api_server_knows(charts: Helm, schemas: Path) -> None:
    definitions = charts.rendered(DEFINITIONS)
    code, said = checked(schemas, definitions)

    assert (code, said["summary"]["valid"]) == (0, len(definitions)), said["resources"]
    assert len(definitions) == len(list((ROOT / "crds").glob("*.yaml")))


def test_a_field_that_nobody_knows_is_found(charts: Helm, schemas: Path) -> None:
    objects = charts.rendered(OPERATOR)
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    deployment["spec"]["template"]["spec"]["securityContext"]["runAsRoot"] = True

    code, said = checked(schemas, objects)

    assert code == 1
    assert "runAsRoot" in said["resources"][0]["msg"]


def test_the_charts_own_suites_pass() -> None:
    suites = [yaml.safe_load(file.read_text()) for file in OPERATOR.glob("tests/*_test.yaml")]
    command = [str(fetch("helm-unittest")["helm-unittest"]), "--strict", str(OPERATOR)]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120)

    passed = sum(len(suite["tests"]) for suite in suites)
    assert f"{passed} passed, {passed} total" in done.stdout
    assert done.returncode == 0
