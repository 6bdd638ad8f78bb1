"""Attestations of a recovery that a sign of life made void, in its status, which the operator alone writes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kafka_recovery.decision.attesting import ANSWERS
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.printable import one_line
from kafka_recovery.kube.machinery.conditions import instant
from kafka_recovery.recovery.signs_of_life import Said

VOID_ATTESTATIONS = "voidAttestations"

_MOST = 32
"""The newest of them are kept: twice as many as a recovery can hold."""
_LONGEST = 1024
"""Characters of a message."""


def kept_void(status: Mapping[str, Any]) -> dict[Said, Reason]:
    """What an earlier process found."""
    return {
        (BrokerId(each["broker"]), each["by"], datetime.fromisoformat(each["at"])): Reason(ANSWERS, each["message"])
        for each in status.get(VOID_ATTESTATIONS, ())
    }


def void_as_said(void: Mapping[Said, Reason]) -> list[dict[str, Any]]:
    """The same for the status."""
    newest = list(void.items())[-_MOST:]
    return [
        {
            "broker": int(broker),
            "by": by,
            "at": instant(at),
            "message": one_line(why.message, _LONGEST),
        }
        for (broker, by, at), why in newest
    ]
