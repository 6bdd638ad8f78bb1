"""What the definitions promise, and what a change may do to it: `python -m unit.kube.resources.promised` adds to it.

A release may be older than the definitions, and the next one must read what this one stored: docs/how-to/upgrading.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from kafka_recovery.kube.machinery.applied import is_empty

CRDS = Path(__file__).parents[4] / "crds"
KEPT = Path(__file__).with_suffix(".yaml")

Field = dict[str, Any]
Fields = dict[str, Field]
"""By kind and path: the type, the default, whether it must be there, and the words that it may be."""


def fields(folder: Path = CRDS) -> Fields:
    """Of every spec and status."""
    found: Fields = {}
    for file in sorted(folder.glob("*.yaml")):
        (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
        top = version["schema"]["openAPIV3Schema"]["properties"]
        for part in ("spec", "status"):
            if part in top:
                found |= dict(_walked(top[part], f"{file.stem}.{part}"))
    return found


def _walked(node: Mapping[str, Any], path: str, *, required: bool = False) -> Iterator[tuple[str, Field]]:
    said = {"type": node.get("type"), "default": node.get("default"), "words": node.get("enum")}
    needed = {"required": True} if required else {}
    yield path, {name: value for name, value in said.items() if value is not None} | needed
    for name, child in node.get("properties", {}).items():
        yield from _walked(child, f"{path}.{name}", required=name in node.get("required", ()))
    if "items" in node:
        yield from _walked(node["items"], f"{path}[]")


def broken(kept: Fields, now: Fields) -> list[str]:
    """What of a change needs another version of the API."""
    return [*_taken_back(kept, now), *_asked_for(kept, now)]


def _taken_back(kept: Fields, now: Fields) -> Iterator[str]:
    for path, before in kept.items():
        field = now.get(path)
        if field is None:
            yield f"{path} is removed"
            continue
        for what in ("type", "default"):
            if field.get(what) != before.get(what):
                yield f"{path}: its {what} was {before.get(what)!r}, and is {field.get(what)!r}"
        if field.get("required") and not before.get("required"):
            yield f"{path} must be there"
        words = field.get("words")
        if words and (gone := sorted(set(before.get("words") or ["anything"]) - set(words))):
            yield f"{path} may not be {gone[0]} any more"


def _asked_for(kept: Fields, now: Fields) -> Iterator[str]:
    for path in now.keys() - kept.keys():
        field, parent = now[path], path.rpartition(".")[0].removesuffix("[]")
        if parent not in kept:
            continue  # all of it is new
        if field.get("required"):
            yield f"{path} must be there, and was not there before"
        if not is_empty(field.get("default")):
            yield f"{path}: its default {field['default']!r} is not empty: an older operator would ask a person"


def _write() -> None:
    kept = yaml.safe_load(KEPT.read_text()) if KEPT.exists() else {}
    now = fields()
    if problems := broken(kept, now):
        raise SystemExit("\n".join(problems))
    KEPT.write_text(yaml.safe_dump(now, default_flow_style=None, width=200))


if __name__ == "__main__":
    _write()
