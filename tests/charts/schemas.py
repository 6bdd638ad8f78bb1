"""JSON schemas for kubeconform from an API server's own description of its kinds (OpenAPI 2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PATTERN = "{{.ResourceKind}}{{.KindSuffix}}.json"
"""How kubeconform finds a kind in the folder."""

_ALL = "all.json"


def write_schemas(described: dict[str, Any], into: Path) -> None:
    """One file a kind; unknown fields are errors at every depth."""
    definitions = described["definitions"]
    (into / _ALL).write_text(json.dumps({"definitions": {name: _strict(each) for name, each in definitions.items()}}))
    for name, each in definitions.items():
        for kind in each.get("x-kubernetes-group-version-kind", ()):
            group = kind["group"].partition(".")[0]
            suffix = "-".join(part for part in (group, kind["version"]) if part)
            file = into / f"{kind['kind'].lower()}-{suffix}.json"
            file.write_text(json.dumps({"$ref": f"{_ALL}#/definitions/{name}"}))


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(each) for each in node]
    if not isinstance(node, dict):
        return node
    if node.get("format") == "int-or-string":
        return {"type": ["string", "integer"]}
    closed = "properties" in node and "additionalProperties" not in node
    strict = {key: _strict(value) for key, value in node.items()}
    return strict | {"additionalProperties": False} if closed else strict
