"""Writes docs/reference/schemas/: the documents that programs read, as JSON Schema, from the types that are written.

What a document has beside the fields of its type is told here. tests/unit/cli hold real output against the files.
Text out: `wanted`; docs/generate.py writes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from kafka_recovery.cli.cluster import plan_files
from kafka_recovery.cli.cluster.changing import Unapproved
from kafka_recovery.cli.cluster.kept_plans import RunState, ToldPlans
from kafka_recovery.cli.cluster.kept_runs import ToldRuns
from kafka_recovery.cli.fleet.rehearse import Rehearsal
from kafka_recovery.cli.fleet.snapshot import Kept
from kafka_recovery.cli.terminal.render import FORMAT
from kafka_recovery.decision.explanation import Explanation
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.outcome import Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.fleet import manifest
from kafka_recovery.formats.fields import Text, Whole
from kafka_recovery.kube.recoveries.plan_history import Became

FOLDER = Path(__file__).parent / "reference" / "schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclass(frozen=True, slots=True)
class Document:
    """What is said of it, and the types of its fields: those of `kind`, those `beside` them, and those that it `may`
    have.
    """

    says: str
    kind: Any = None
    beside: Mapping[str, Any] = field(default_factory=dict)
    may: Mapping[str, Any] = field(default_factory=dict)


DOCUMENTS: Mapping[str, Document] = {
    "evidence": Document("`inspect`: what was seen of a cluster and of its offline partitions.", Evidence),
    "explanation": Document("`explain`: why one partition is decided as it is.", Explanation),
    "fleet-run": Document(
        "`fleet rank` and `fleet readiness`: what a run over the fleet has written. Without `manifest` and "
        "`formatVersion`: manifest.json in its folder.",
        manifest.Manifest,
        {"version": Literal[manifest.VERSION], "checksum": str},
        {"manifest": str, "formatVersion": Literal[FORMAT]},
    ),
    "plan": Document(
        "`plan`, its `--out FILE`, and `plans DIGEST`: a plan, and the digest that approves it. `recovery`: whose plan "
        "it is, where the plugin shows it. `state`: how far the run of a plan of a journal came. `became`: what "
        "became of an earlier plan of a recovery.",
        None,
        {"kind": Literal[plan_files.KIND], "digest": str, "plan": Plan},
        {"recovery": str, "state": RunState, "became": Became},
    ),
    "plans": Document("`plans`: the plans of the journal on this machine.", ToldPlans),
    "rehearsal": Document("`rehearse`: a policy on many simulated histories.", Rehearsal),
    "report": Document(
        "`recover`, `execute`, `resume` and `undo`: what became of each partition, and which plans wait for approval.",
        Report,
        {"kind": Literal[plan_files.REPORT], "unapproved": tuple[Unapproved, ...]},
    ),
    "runs": Document("`runs`: the runs of the journal on this machine.", ToldRuns),
    "snapshot": Document("`snapshot`: a file of evidence that was written.", Kept),
}
"""By the name of the file."""


def wanted() -> dict[Path, str]:
    """Each file, and what it should hold."""
    return {FOLDER / f"{name}.json": json.dumps(schema(each), indent=1) + "\n" for name, each in DOCUMENTS.items()}


def schema(document: Document) -> dict[str, Any]:
    """Fields that it does not know are allowed: a newer release may write more."""
    beside = dict(document.beside)
    if "formatVersion" not in document.may:
        beside = {"formatVersion": Literal[FORMAT], **beside}
    always = [_fields(beside), *([] if document.kind is None else [_of(document.kind)])]
    parts = [*always, _fields(document.may)]
    definitions = {name: each for part in parts for name, each in part.get("$defs", {}).items()}
    return {
        "$schema": DIALECT,
        "description": document.says,
        "type": "object",
        "properties": {name: each for part in parts for name, each in part["properties"].items()},
        "required": [name for part in always for name in part["properties"]],
        **({"$defs": dict(sorted(definitions.items()))} if definitions else {}),
    }


class _WithBounds(GenerateJsonSchema):
    """Of our own checks: what they let through."""

    def function_plain_schema(self, schema: Any) -> dict[str, Any]:
        """Called by pydantic for a field with a check."""
        check = getattr(schema["function"]["function"], "__self__", None)
        if isinstance(check, Whole):
            return {"type": "integer", "minimum": check.low, "maximum": check.high}
        if isinstance(check, Text):
            pattern = {} if check.pattern is None else {"pattern": f"^(?:{check.pattern})$"}
            return {"type": "string", "maxLength": check.longest, **pattern}
        return super().function_plain_schema(schema)


def _fields(types: Mapping[str, Any]) -> dict[str, Any]:
    return _of(make_dataclass("Fields", types.items()))


def _of(kind: Any) -> dict[str, Any]:
    plain: dict[str, Any] = _plain(TypeAdapter(kind).json_schema(mode="serialization", schema_generator=_WithBounds))
    return plain


def _plain(node: Any) -> Any:
    """Without what only repeats a name, and with every field required: each of them is always written."""
    if isinstance(node, list):
        return [_plain(each) for each in node]
    if not isinstance(node, dict):
        return node
    named = {key: node[key] for key in ("properties", "$defs") if key in node}
    plain = {key: _plain(value) for key, value in node.items() if key not in {"title", "default", *named}}
    plain |= {key: {name: _plain(each) for name, each in those.items()} for key, those in named.items()}
    if "properties" in plain:
        plain["required"] = list(plain["properties"])
    if isinstance(plain.get("description"), str):
        plain["description"] = re.sub(r"\bNone\b", "null", " ".join(plain["description"].split()))
    return _short(plain)


def _short(node: dict[str, Any]) -> dict[str, Any]:
    """Of a choice between plain types a list of these."""
    choices = node.get("anyOf", [])
    if not choices or any(each.keys() != {"type"} for each in choices):
        return node
    return {"type": [each["type"] for each in choices]} | {key: node[key] for key in node if key != "anyOf"}


def write() -> None:
    """Write them. A file of a document that there is no more goes."""
    FOLDER.mkdir(exist_ok=True)
    files = wanted()
    for old in set(FOLDER.iterdir()) - files.keys():
        old.unlink()
    for path, text in files.items():
        path.write_text(text)
