"""The newest metadata that were ever read of a cluster, below which nothing is shown; and who says that there are any.

What two brokers have applied, and the controller has committed by its own word, is certain for good. What brokers alone
claim may be a lie or a broken disk's number, and two of them may be one behind two addresses: it counts while they
claim it, and for a while after, which is longer than others take to catch up.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from kafka_recovery.cluster.brokers import Address
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.domain.ids import MetadataOffset

ALONE = timedelta(seconds=60)
"""How long the word of one broker counts, if neither it nor another one says as much again."""

AGREED = timedelta(minutes=10)
"""How long the word of two counts: all there is where the controller may not be asked."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What was said to be applied, by whom (the last one who did), and until when that counts (the loop's time)."""

    offset: MetadataOffset
    at: Address
    until: float

    @property
    def counts(self) -> bool:
        """Whether it is young enough."""
        return loop_time() <= self.until


class Floor:
    """Of one cluster. Nothing is known in the beginning. `certain`: for good."""

    def __init__(self) -> None:
        self.certain: MetadataOffset | None = None
        self._agreed: Claim | None = None
        self._alone: Claim | None = None

    @property
    def offset(self) -> MetadataOffset | None:
        """The floor as it is now; None: nothing was read yet."""
        return self.claim.offset if self.claim else self._shared

    @property
    def claim(self) -> Claim | None:
        """What one broker alone says, if that is what lifts the floor."""
        alone, shared = self._alone, self._shared
        lifts = alone is not None and alone.counts and (shared is None or alone.offset > shared)
        return alone if lifts else None

    @property
    def _shared(self) -> MetadataOffset | None:
        """What more than one says."""
        agreed = self._agreed.offset if self._agreed is not None and self._agreed.counts else None
        return max((offset for offset in (self.certain, agreed) if offset is not None), default=None)

    def read(self, at: Address, offset: MetadataOffset, agreed: MetadataOffset | None) -> None:
        """Metadata as new as `offset` were read from a broker; `agreed`: what two brokers have applied by now."""
        self._alone = _newer(self._alone, Claim(offset, at, loop_time() + ALONE.total_seconds()))
        if agreed is not None:
            self._agreed = _newer(self._agreed, Claim(agreed, at, loop_time() + AGREED.total_seconds()))

    def confirm(self, offset: MetadataOffset) -> None:
        """Two brokers have applied as much, and the controller says that it is committed."""
        self.certain = offset if self.certain is None else max(self.certain, offset)

    def withdraw(self, at: Address, agreed: MetadataOffset | None) -> None:
        """What this broker claims is proven wrong; `agreed`: what two others have applied."""
        if self._alone is not None and self._alone.at == at:
            self._alone = None
        if self._agreed is not None and (agreed is None or agreed < self._agreed.offset):
            self._agreed = None


def _newer(known: Claim | None, claim: Claim) -> Claim:
    return claim if known is None or not known.counts or claim.offset >= known.offset else known
