"""What can be said about the acknowledged records that an election may lose."""

from __future__ import annotations

from enum import StrEnum


class LossClass(StrEnum):
    """What can be said about acknowledged records, see docs/explanation/guarantees.md."""

    LOSSLESS = "Lossless"
    """It is proven that no acknowledged record is lost."""
    BOUNDED = "Bounded"
    """It is proven that acknowledged records are lost from named offsets only."""
    UNKNOWN = "Unknown"
    """Nothing is proven: any acknowledged record that the chosen log lacks may be lost."""
