"""What the charts hold of other files is what those say now."""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from charts.conftest import DEFINITIONS, OPERATOR, ROOT

GENERATOR = runpy.run_path(str(ROOT / "charts" / "generate.py"))
WANTED: dict[Path, str] = GENERATOR["wanted"]()
CURE = "python charts/generate.py"


@pytest.mark.parametrize("file", sorted(WANTED), ids=lambda file: str(file.relative_to(ROOT / "charts")))
def test_every_copy_says_what_its_source_says(file: Path) -> None:
    assert file.exists(), CURE
    assert file.read_text() == WANTED[file], CURE


def test_nothing_is_left_of_sources_that_are_gone() -> None:
    assert set(GENERATOR["GENERATED"]) <= set(WANTED), CURE


def test_the_definitions_are_those_of_crds_and_outlive_their_release() -> None:
    for source in (ROOT / "crds").glob("*.yaml"):
        template = (DEFINITIONS / "templates" / source.name).read_text()
        ours = yaml.safe_load(re.sub(r"(?m)^ *\{\{-.*\}\}\n", "", template))
        assert ours["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        del ours["metadata"]["labels"]
        assert ours == yaml.safe_load(source.read_text())


def test_the_catalogue_lists_every_kind() -> None:
    chart = yaml.safe_load((OPERATOR / "Chart.yaml").read_text())
    listed = yaml.safe_load(chart["annotations"]["artifacthub.io/crds"])

    definitions = [yaml.safe_load(file.read_text()) for file in (ROOT / "crds").glob("*.yaml")]
    kinds = {(each["metadata"]["name"], each["spec"]["names"]["kind"]) for each in definitions}
    assert {(each["name"], each["kind"]) for each in listed} == kinds


def test_the_schema_knows_every_value_and_no_other() -> None:
    schema = _schema()
    values = yaml.safe_load((OPERATOR / "values.yaml").read_text())

    assert set(_known(schema)) - {"global"} == set(_given(values, schema))


def test_everything_in_the_schema_is_strict() -> None:
    loose = [name for name, node in _groups("", _schema()) if node]

    assert {each.partition("ecurityContext")[1] for each in loose} == {"ecurityContext"}, (
        "Kubernetes knows their fields"
    )


def test_nothing_that_the_templates_count_on_can_be_taken_away_by_null() -> None:
    """A null deletes a default; a template that needs it would end in Go's words. `resources` may lose its limits."""
    schema = _schema()
    values = yaml.safe_load((OPERATOR / "values.yaml").read_text())

    chosen_by_the_platform = {f"podSecurityContext.{each}" for each in ("runAsUser", "runAsGroup", "fsGroup")}
    assert set(_counted_on(values, schema)) - {"resources", "fleet.resources"} - chosen_by_the_platform <= set(
        _required(schema)
    )


def test_a_release_leads_its_users_to_where_it_came_from() -> None:
    """No address is written down in a checkout: a fork would lead its users elsewhere."""
    addresses = {
        "REPOSITORY_URL": "https://git.test/kafka",
        "DOCUMENTATION_URL": "https://docs.test",
        "IMAGE_REPOSITORY": "images.test/kafka",
    }

    files = ((OPERATOR / name).read_text() for name in ("Chart.yaml", "values.yaml"))

    chart, values = (GENERATOR["released"](text, addresses) for text in files)

    said = yaml.safe_load(chart)
    assert (said["home"], said["sources"]) == ("https://docs.test", ["https://git.test/kafka"])
    given = yaml.safe_load(values)
    assert given["image"]["repository"] == "images.test/kafka/kafka-recovery-operator"
    assert given["monitoring"]["prometheusRule"]["runbookUrl"] == "https://docs.test/runbooks"
    assert GENERATOR["released"]((OPERATOR / "values.yaml").read_text(), {}) == (OPERATOR / "values.yaml").read_text()


def _schema() -> dict[str, Any]:
    """With the values of an account where it is referred to: two groups of ours have them."""
    schema: dict[str, Any] = json.loads((OPERATOR / "values.schema.json").read_text())

    def whole(node: Any) -> Any:
        if isinstance(node, list):
            return [whole(each) for each in node]
        if not isinstance(node, dict):
            return node
        if node.get("$ref") == "#/definitions/account":
            return schema["definitions"]["account"]
        return {key: whole(each) for key, each in node.items()}

    return {key: whole(each) for key, each in schema.items() if key != "definitions"}


def _counted_on(values: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Values with a default that isn't empty, and groups of them."""
    for name, value in values.items():
        if value not in ("", [], {}):
            yield f"{prefix}{name}"
        node = schema["properties"][name]
        if "properties" in node and name != "resources":
            yield from _counted_on(value, node, f"{prefix}{name}.")


def _required(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    yield from (f"{prefix}{name}" for name in schema.get("required", ()))
    for name, node in schema.get("properties", {}).items():
        yield from _required(node, f"{prefix}{name}.")
    yield from _required(schema["then"], prefix) if "then" in schema else ()


def _known(schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, node in schema["properties"].items():
        yield f"{prefix}{name}"
        if "properties" in node and name != "resources":
            yield from _known(node, f"{prefix}{name}.")


def _given(values: dict[str, Any], schema: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield f"{prefix}{name}"
        node = schema["properties"].get(name, {})
        if isinstance(value, dict) and "properties" in node and name != "resources":
            yield from _given(value, node, f"{prefix}{name}.")


def _groups(name: str, node: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Each object with named properties, and whether it takes others too."""
    if "properties" in node:
        yield name, node.get("additionalProperties") is not False
        for key, each in node["properties"].items():
            yield from _groups(f"{name}.{key}", each)
