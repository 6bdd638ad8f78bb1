"""What of an object we once applied (server-side apply), and whether it says already what we would say. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

FIELD_MANAGER = "kafka-recovery-operator"
"""Who owns the fields that we write, for server-side apply."""


def says(seen: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether an object's status is `status`, and has no condition that we once wrote and would take back now."""
    there: Mapping[str, Any] = seen.get("status") or {}
    conditions = {each.get("type"): each for each in there.get("conditions") or ()}
    wanted = status.get("conditions") or ()
    return (
        _is_said(_but_conditions(there), _but_conditions(status))
        and all(conditions.get(each["type"]) == each for each in wanted)
        and _owned_conditions(seen) <= {each["type"] for each in wanted}
    )


def left_over(seen: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch of the status that takes back what `status` lacks, but for conditions; empty: there is nothing.

    What somebody else wrote as well, server-side apply leaves: all of a status that came back from a backup. What is
    empty says nothing, and may be what a newer definition fills in each time.
    """
    return _left_over(_but_conditions(seen.get("status") or {}), status)


def _but_conditions(status: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in status.items() if name != "conditions"}


def _is_said(there: Any, wanted: Any) -> bool:
    """Whether what is there is what is wanted, but for what is empty."""
    if isinstance(there, Mapping) and isinstance(wanted, Mapping):
        more = (value for name, value in there.items() if name not in wanted)
        return all(map(is_empty, more)) and all(_is_said(there.get(name), value) for name, value in wanted.items())
    if isinstance(there, list) and isinstance(wanted, list):
        return len(there) == len(wanted) and all(map(_is_said, there, wanted))
    return bool(there == wanted)


def _left_over(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    change: dict[str, Any] = {}
    for name, value in there.items():
        ours = wanted.get(name)
        if isinstance(value, Mapping) and isinstance(ours, Mapping):
            change |= {name: within} if (within := _left_over(value, ours)) else {}
        elif (name not in wanted and not is_empty(value)) or (isinstance(value, list) and not _is_said(value, ours)):
            change[name] = ours
    return change


def is_empty(value: object) -> bool:
    """Whether it says no more than nothing. Not so a number: 0 may be a limit."""
    if isinstance(value, dict):
        return all(map(is_empty, value.values()))
    return value is None or value is False or value in ("", [])


def _owned_conditions(seen: Mapping[str, Any]) -> set[str]:
    """The types of conditions of an object's status that we applied earlier, by its managed fields."""
    types: set[str] = set()
    for entry in (seen.get("metadata") or {}).get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation")) != (FIELD_MANAGER, "Apply"):
            continue
        status = (entry.get("fieldsV1") or {}).get("f:status") or {}
        keys = [key.removeprefix("k:") for key in status.get("f:conditions") or () if key.startswith("k:")]
        types |= {json.loads(key)["type"] for key in keys}
    return types
