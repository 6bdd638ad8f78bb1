"""How the run of a fleet's question ended."""

from __future__ import annotations

from enum import StrEnum


class RunOutcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
