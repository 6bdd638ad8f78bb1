"""What the API server would say of a status: unknown fields and values out of bounds are refused on apply."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

Schema = dict[str, Any]
_TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


@cache
def status_schema() -> Schema:
    """Of FleetRankings."""
    file = Path(__file__).parents[4] / "crds" / "fleetrankings.yaml"
    (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
    found: Schema = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return found


def refusals(value: Any, schema: Schema, path: str = "status") -> Iterator[str]:
    """Everything that is wrong with a value."""
    if not isinstance(value, _TYPES[schema["type"]]):
        yield f"{path}: {value!r} is no {schema['type']}"
        return
    if isinstance(value, dict):
        known = schema.get("properties", {})
        yield from (f"{path}.{name}: is no known field" for name in value.keys() - known.keys())
        yield from (f"{path}.{name}: is missing" for name in set(schema.get("required", ())) - value.keys())
        for name in value.keys() & known.keys():
            yield from refusals(value[name], known[name], f"{path}.{name}")
    if isinstance(value, list):
        if len(value) > schema["maxItems"]:
            yield f"{path}: has {len(value)} items"
        for index, item in enumerate(value):
            yield from refusals(item, schema["items"], f"{path}[{index}]")
    if isinstance(value, str):
        if value not in schema.get("enum", [value]) or len(value) > schema.get("maxLength", len(value)):
            yield f"{path}: {value[:80]!r} is out of bounds"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield f"{path}: {value!r} does not match"
    if isinstance(value, int) and value < schema.get("minimum", value):
        yield f"{path}: {value} is too small"
