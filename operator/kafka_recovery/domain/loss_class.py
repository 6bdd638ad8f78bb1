"""What can be said about the acknowledged records that an election may lose."""

from __future__ import annotations

from enum import StrEnum


class LossClass(StrEnum):
    """What can be said about acknowledged records, see docs/explanation/guarantees.md."""

    LOSSLESS = "Lossless"
    BOUNDED = "Bounded"
    UNKNOWN = "Unknown"
