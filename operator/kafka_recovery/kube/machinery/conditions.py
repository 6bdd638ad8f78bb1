"""Conditions as kstatus, Flux, Helm and Argo CD read them. Pure.

| situation | Ready | Reconciling | Stalled | they show |
|---|---|---|---|---|
| done | True | False | False | Current, Healthy |
| working, or waiting for a person | False | True | False | InProgress, Progressing |
| stuck | False | False | True | Failed, Degraded |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from kafka_recovery.formats.printable import printable

LONGEST_MESSAGE = 1024
"""Characters; what is longer is cut. The schemas' bound."""

Condition = dict[str, Any]

_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_WORDS = {True: "True", False: "False", None: "Unknown"}


class Standing(Enum):
    """How an object stands, and the two conditions that say so beside Ready: (Ready, Reconciling, Stalled)."""

    DONE = (True, False, False)
    WORKING = (False, True, False)
    STUCK = (False, False, True)


def condition(kind: str, holds: bool | None, reason: str, message: str, generation: int) -> Condition:
    """One condition, without the time of its last change. `holds` None: unknown.

    `reason`: a CamelCase word that stays the same while the cause does. Raises ValueError for another form, which the
    schema would refuse together with the whole status. `message`: people's own words may be part of it.
    """
    if not _REASON.fullmatch(reason):
        raise ValueError(f"{reason!r} is no reason of a condition; write a CamelCase word")
    said = {"type": kind, "status": _WORDS[holds], "reason": reason, "message": cut(message)}
    return said | {"observedGeneration": generation}


def cut(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Any text on one line, as a status takes it; what is longer ends in an ellipsis."""
    text = printable(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def instant(at: datetime) -> str:
    """A moment as Kubernetes writes it: UTC, whole seconds."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def standing(how: Standing, reason: str, message: str, generation: int) -> tuple[Condition, ...]:
    """Ready, Reconciling and Stalled; the last two are never both true."""
    kinds = zip(("Ready", "Reconciling", "Stalled"), how.value, strict=True)
    return tuple(condition(kind, holds, reason, message, generation) for kind, holds in kinds)


def condition_of(status: Mapping[str, Any] | None, kind: str) -> Mapping[str, Any]:
    """The condition of a type that a status has; empty: there is none."""
    conditions: Sequence[Mapping[str, Any]] = (status or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def merged(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]], now: datetime) -> list[Condition]:
    """`new` with times: that of `old` where the status is the same, else `now`; equal to `old` if nothing is new.

    Conditions that are only in `old` are somebody else's, or are taken back; server-side apply tells the two apart.
    Raises ValueError if both Reconciling and Stalled are true, or a type comes twice.
    """
    before = {each.get("type"): each for each in old}
    statuses = {each["type"]: each["status"] for each in new}
    if statuses.get("Reconciling") == statuses.get("Stalled") == "True":
        raise ValueError("Reconciling and Stalled are both True: tools would show either, by chance")
    if len(statuses) != len(new):
        raise ValueError("a type of condition comes twice")
    return [{**each, "lastTransitionTime": _since(before.get(each["type"]), each["status"], now)} for each in new]


def _since(before: Mapping[str, Any] | None, status: str, now: datetime) -> str:
    if before and before.get("status") == status and before.get("lastTransitionTime"):
        return str(before["lastTransitionTime"])
    return instant(now)
