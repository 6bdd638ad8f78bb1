"""The plan as a file: what is reviewed, carried elsewhere, approved by its digest, and executed."""

from __future__ import annotations

import json
import re
from typing import Any

from kafka_recovery.cli.terminal.render import FORMAT
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, canonical, canonical_again, digest_of_canonical, read

LARGEST_FILE = 256 * 1024 * 1024
"""Bytes; a plan takes about 4 KiB a partition."""
KIND = "RecoveryPlan"
REPORT = "RecoveryReport"
_POLICY = "a policy; it is given with --policy, to plan and to recover"


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan with its kind and digest, as plain data."""
    raw = canonical(plan)
    return {"formatVersion": FORMAT, "kind": KIND, "digest": digest_of_canonical(raw), "plan": json.loads(raw)}


def as_text(document: dict[str, Any]) -> str:
    """The document as the text of a file."""
    return json.dumps(document, indent=1) + "\n"


def is_plan(text: str) -> bool:
    """Whether the text means to be one of our plans, sound or not; else it may be a file of partitions."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and not document.keys().isdisjoint(("kind", "digest", "plan"))


def other_kind(text: str) -> str | None:
    """What the text is where a plan is wanted, if it is another of the files that we read or write."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return _POLICY if re.search(r"^(rules|spec|kind: *RecoveryPolicy)\b", text, re.MULTILINE) else None
    if not isinstance(document, dict):
        return None
    if document.get("kind") == REPORT:
        return "the report of a recovery, not its plan"
    if document.get("kind") == "RecoveryPolicy" or "rules" in document:
        return _POLICY
    return "evidence, as inspect shows it" if {"cluster", "partitions"} <= document.keys() else None


def read_plan(text: str, name: str) -> Plan:
    """Raises InvalidDocument for anything but a plan that still has the digest it was written with."""
    if other := other_kind(text):
        raise InvalidDocument(f'{name}: is {other}; a plan is written by "kafka-recovery plan --out FILE"')
    try:
        document = json.loads(text)
    except RecursionError:
        raise InvalidDocument(f"{name}: is nested too deeply for a plan") from None
    except json.JSONDecodeError as error:
        raise InvalidDocument(f"{name}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except ValueError as error:
        raise InvalidDocument(f"{name}: {error}") from None
    if not isinstance(document, dict) or document.get("kind") != KIND or "plan" not in document:
        raise InvalidDocument(f'{name}: is not a plan; one is written by "kafka-recovery plan --out FILE"')
    if (version := document.get("formatVersion")) != FORMAT:
        raise InvalidDocument(f"{name}: has formatVersion {version!r}; this release reads {FORMAT}: make a new plan")
    raw = canonical_again(document["plan"])
    plan = read(Plan, raw, name)
    found = digest_of_canonical(raw)
    if document.get("digest") != found:
        raise InvalidDocument(f"{name}: the plan was changed after it was made: its digest is {found}; make a new plan")
    return plan
