"""How kstatus (Flux, Helm 4, `kubectl wait` by tools) judges a custom resource; the test's own words for its rules."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Kstatus(StrEnum):
    """What a tool would show."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"
    TERMINATING = "Terminating"


def kstatus(resource: Mapping[str, Any]) -> Kstatus:
    """The verdict on an object as the API gave it. The first rule that fits holds; conditions count in their order."""
    meta, status = resource["metadata"], resource.get("status") or {}
    if meta.get("deletionTimestamp"):
        return Kstatus.TERMINATING
    if "observedGeneration" in status and status["observedGeneration"] != meta.get("generation"):
        return Kstatus.IN_PROGRESS
    for condition in status.get("conditions") or ():
        match condition["type"], condition["status"]:
            case "Reconciling", "True":
                return Kstatus.IN_PROGRESS
            case "Stalled", "True":
                return Kstatus.FAILED
    ready = [condition["status"] for condition in status.get("conditions") or () if condition["type"] == "Ready"]
    return Kstatus.CURRENT if ready in ([], ["True"]) else Kstatus.IN_PROGRESS
