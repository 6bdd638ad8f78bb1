"""What a person says of a broker that no broker can say."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason


class Witness(StrEnum):
    """What is attested."""

    DISK_LOST = "disk-lost"
    """The broker's disk is lost for good: nothing that was on it will ever come back."""


@dataclass(frozen=True, slots=True)
class Attestation:
    """Who says what of which broker, and why; it holds from `at` until `expires`.

    `void`: why it does not count in the look that it is a part of; None: nothing there speaks against it.
    """

    broker: BrokerId
    witness: Witness
    by: str
    reason: str
    at: datetime
    expires: datetime
    void: Reason | None = None
