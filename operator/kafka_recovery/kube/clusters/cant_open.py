"""What keeps a WatchedCluster from being opened: one exception, whatever the cause."""

from __future__ import annotations

from kafka_recovery.domain.reason import Reason


class CantOpen(Exception):
    """A person has to mend it, or it passes; `reason` is for a condition."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.reason = Reason(code, message)


def secret_missing(secret: str, key: str | None, where: str) -> CantOpen:
    """A Secret, or a key of it, is not there or is empty."""
    what = f"Secret {secret} is not there" if key is None else f"Secret {secret} has no key {key}, or it is empty"
    return CantOpen("InvalidReference", f"{where}: {what}; create it in the namespace of the WatchedCluster")
