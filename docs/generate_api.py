"""Writes docs/reference/api.md: every field of the custom resources, from crds/. Text out: `wanted`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).parent / "reference" / "api.md"
KINDS = (
    *("watchedclusters", "recoverypolicies", "partitionrecoveries", "recoveryapprovals"),
    *("recoveryrecords", "clusterhistories", "fleetrankings"),
)
Schema = Mapping[str, Any]

HEAD = """# API reference

<!-- Written by docs/generate.py from crds/. Change the definitions, then run it. -->

Every field of the custom resources of `kafka-recovery.dev/v1alpha1`. `kubectl explain` says the same. The API
server refuses what breaks a rule, with the sentence that stands here behind *refused with*.
"""


def wanted() -> str:
    """What the page should hold."""
    return "\n".join([HEAD, *(line for kind in KINDS for line in _kind(kind))])


def _kind(plural: str) -> Iterator[str]:
    spec = yaml.safe_load((ROOT / "crds" / f"{plural}.yaml").read_text())["spec"]
    (version,) = spec["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    short = "".join(f" (`{name}`)" for name in spec["names"].get("shortNames", ()))
    yield f"## {spec['names']['kind']}{short}\n"
    yield f"{_words(schema)}\n"
    for name, part in schema["properties"].items():
        if name not in ("apiVersion", "kind", "metadata"):
            yield f"### {spec['names']['kind']} {name}\n"
            yield "| field | type | meaning |\n| --- | --- | --- |"
            yield from (f"| `{path}` | {kind} | {says} |" for path, kind, says in _fields(part, ""))
            yield from _rules(part)
            yield ""


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, str, str]]:
    """Each field with its path, its type and what it means; those inside follow it."""
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, _type(field), _told(field, needed=name in required)
        inner = field.get("items", field)
        yield from _fields(inner, f"{here}[]" if "items" in field else here)


def _type(field: Schema) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    if "items" in field:
        return f"list of {_type(field['items'])}"
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    return str(field.get("type", "any"))


def _told(field: Schema, *, needed: bool) -> str:
    said = [_words(field)]
    said += ["**Required.**"] if needed else []
    said += [f"Default: `{_value(field['default'])}`."] if "default" in field else []
    bounds = [str(field[bound]) for bound in ("minimum", "maximum") if bound in field]
    said += [f"{' to '.join(bounds)}." if len(bounds) == 2 else f"At least {bounds[0]}."] if bounds else []
    said += _messages(field)
    return " ".join(word for word in said if word)


def _rules(schema: Schema) -> Iterator[str]:
    yield from (f"\n{each}" for each in _messages(schema))


def _messages(schema: Schema) -> list[str]:
    return [f"Refused with “{_safe(each['message'])}”." for each in schema.get("x-kubernetes-validations", ())]


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _words(schema: Schema) -> str:
    return _safe(" ".join(schema.get("description", "").split()))


def _safe(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
