"""What of an object we once applied (server-side apply), and whether it says already what we would say. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

FIELD_MANAGER = "kafka-recovery-operator"
"""Who owns the fields that we write, for server-side apply."""


def says(seen: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether an object's status holds all of `status`, and nothing else that we once wrote and would take back now."""
    there: Mapping[str, Any] = seen.get("status") or {}
    conditions = {each.get("type"): each for each in there.get("conditions") or ()}
    wanted = status.get("conditions") or ()
    owned, owned_conditions = _owned(seen)
    return (
        all(there.get(name) == value for name, value in status.items() if name != "conditions")
        and all(conditions.get(each["type"]) == each for each in wanted)
        and owned <= status.keys()
        and owned_conditions <= {each["type"] for each in wanted}
    )


def _owned(seen: Mapping[str, Any]) -> tuple[set[str], set[str]]:
    """The fields and the types of conditions of an object's status that we applied earlier, by its managed fields."""
    fields: set[str] = set()
    types: set[str] = set()
    for entry in (seen.get("metadata") or {}).get("managedFields") or ():
        if (entry.get("manager"), entry.get("operation")) != (FIELD_MANAGER, "Apply"):
            continue
        status = (entry.get("fieldsV1") or {}).get("f:status") or {}
        fields |= {name.removeprefix("f:") for name in status if name.startswith("f:")}
        keys = [key.removeprefix("k:") for key in status.get("f:conditions") or () if key.startswith("k:")]
        types |= {json.loads(key)["type"] for key in keys}
    return fields, types
