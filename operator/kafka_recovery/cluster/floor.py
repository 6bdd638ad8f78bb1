"""The newest metadata that were ever read of a cluster, below which nothing is shown; and who says that there are any.

What two brokers have applied is certain for good. What one broker alone claims may be a lie or a broken disk's number:
it counts while that broker claims it, and for a minute after, which is longer than others take to catch up.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from kafka_recovery.cluster.brokers import Address
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.domain.ids import MetadataOffset

ALONE = timedelta(seconds=60)
"""How long the word of one broker counts, if neither it nor another one says as much again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one broker alone said to have applied, and when (the loop's time)."""

    offset: MetadataOffset
    at: Address
    made_at: float

    @property
    def counts(self) -> bool:
        """Whether it is young enough."""
        return loop_time() - self.made_at <= ALONE.total_seconds()


class Floor:
    """Of one cluster. Nothing is known in the beginning."""

    def __init__(self) -> None:
        self._certain: MetadataOffset | None = None
        self._claim: Claim | None = None

    @property
    def offset(self) -> MetadataOffset | None:
        """The floor as it is now; None: nothing was read yet."""
        return self.claim.offset if self.claim else self._certain

    @property
    def claim(self) -> Claim | None:
        """What lifts the floor above what is certain."""
        claim = self._claim
        certain = -1 if self._certain is None else self._certain
        return claim if claim is not None and claim.counts and claim.offset > certain else None

    def read(self, at: Address, offset: MetadataOffset, certain: MetadataOffset | None) -> None:
        """Metadata as new as `offset` were read from a broker; `certain`: what two brokers have applied by now."""
        if certain is not None:
            self._certain = max(self._certain or certain, certain)
        if self.claim is None or offset >= self.claim.offset:
            self._claim = Claim(offset, at, loop_time())

    def withdraw(self, at: Address) -> None:
        """What this broker claims is proven wrong."""
        if self._claim is not None and self._claim.at == at:
            self._claim = None
