"""Why something is refused, rejected, unmeasured or failed: a word for machines, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_recovery.domain.ids import BrokerId


@dataclass(frozen=True, slots=True)
class Reason:
    """A CamelCase `code`, stable for metrics and conditions, and a sentence with the value seen and what would help."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The first guard one replica failed."""

    broker: BrokerId
    reason: Reason
