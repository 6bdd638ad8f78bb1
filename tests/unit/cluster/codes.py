"""What a reason is, without its words."""

from __future__ import annotations

from kafka_recovery.domain.reason import Reason


def code_of(reason: Reason | None) -> str | None:
    return reason.code if reason else None
