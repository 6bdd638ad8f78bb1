"""Faults that no broker gets over by itself: whoever asks is not let in."""

from __future__ import annotations

from kafka_recovery.cluster.errors import AuthenticationFailed, ClusterUnavailable, TlsFailed

_NOT_LET_IN = frozenset({AuthenticationFailed.code, TlsFailed.code})


def not_let_in(fault: Exception) -> str | None:
    """The code of this fault, if login or TLS failed at all brokers that were asked; None for any other fault."""
    if isinstance(fault, AuthenticationFailed | TlsFailed):
        return fault.code
    codes = {why.code for why in fault.problems.values()} if isinstance(fault, ClusterUnavailable) else set()
    return min(codes) if codes and codes <= _NOT_LET_IN else None
