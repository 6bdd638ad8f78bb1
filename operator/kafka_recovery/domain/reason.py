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


class ClusterFault(Exception):
    """The cluster, or what is needed of it, gave no answer that can be used; whatever a port to it raises."""

    @property
    def reason(self) -> Reason:
        """The same as a part of evidence or of an outcome."""
        return Reason(type(self).__name__, str(self))


def reason_of(error: Exception) -> Reason:
    """An error as the reason of an outcome."""
    return error.reason if isinstance(error, ClusterFault) else Reason(code_of(error), str(error))


def code_of(error: BaseException) -> str:
    """Of an error that is no ClusterFault: its own, or its name."""
    code = getattr(error, "code", None)
    return code if isinstance(code, str) else type(error).__name__


@dataclass(frozen=True, slots=True)
class Rejection:
    """The first guard one replica failed."""

    broker: BrokerId
    reason: Reason
