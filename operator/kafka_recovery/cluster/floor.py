"""The newest metadata that were ever read of a cluster, below which nothing is shown; and who says that there are any.

What brokers claim may be a lie or a broken disk's number, and so may what they relay of the controller; two of them may
be one behind two addresses. Whoever said so may be dead, and then nobody can be held to it. It may as well be the
truth, and those that still answer be cut off from it. So nobody's death ends a claim, nor does time alone:

- what one broker says counts for a moment, which is longer than others take to catch up;
- what two say alike while both answer counts until the controller, asked through one of them, has committed less
  (`withdraw`), or until those that answer have gone on without it (`doubt`; `standing.py` says why that is proof);
- what the controller confirms as well counts until they have gone on without it, whatever the controller says.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from kafka_recovery.cluster.brokers import Address
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.standing import Doubt, Standing
from kafka_recovery.domain.ids import MetadataOffset

ALONE = timedelta(seconds=60)
"""How long the word of one broker counts, if neither it nor another one says as much again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What one broker said to be applied (the last one that said as much), and until when that counts (loop's time)."""

    offset: MetadataOffset
    at: Address
    until: float

    @property
    def counts(self) -> bool:
        """Whether it is young enough."""
        return loop_time() <= self.until


class Floor:
    """Of one cluster. Nothing is known in the beginning. `certain`: what the controller confirmed."""

    def __init__(self) -> None:
        self.certain: MetadataOffset | None = None
        self._agreed: MetadataOffset | None = None
        self._alone: Claim | None = None
        self._doubt: Doubt | None = None

    @property
    def offset(self) -> MetadataOffset | None:
        """The floor as it is now; None: nothing was read yet."""
        return self.claim.offset if self.claim else self.shared

    @property
    def claim(self) -> Claim | None:
        """What one broker alone says, if that is what lifts the floor."""
        alone, shared = self._alone, self.shared
        lifts = alone is not None and alone.counts and (shared is None or alone.offset > shared)
        return alone if lifts else None

    @property
    def shared(self) -> MetadataOffset | None:
        """What more than one says."""
        return max((offset for offset in (self.certain, self._agreed) if offset is not None), default=None)

    def read(self, at: Address, offset: MetadataOffset, agreed: MetadataOffset | None) -> None:
        """Metadata as new as `offset` were read from a broker; `agreed`: what two have applied of those that answer."""
        self._alone = _newer(self._alone, Claim(offset, at, loop_time() + ALONE.total_seconds()))
        if agreed is not None:
            self._agreed = agreed if self._agreed is None else max(self._agreed, agreed)

    def confirm(self, offset: MetadataOffset) -> None:
        """Two brokers that answer have applied as much, and the controller says that it is committed."""
        self.certain = offset if self.certain is None else max(self.certain, offset)

    def withdraw(self, at: Address, agreed: MetadataOffset | None) -> None:
        """What this broker claims is proven wrong; `agreed`: what two others have applied."""
        if self._alone is not None and self._alone.at == at:
            self._alone = None
        if self._agreed is not None and (agreed is None or agreed < self._agreed):
            self._forget_agreement()

    def doubt(self, now: Standing) -> None:
        """Those that answer show less than two once said: that is forgotten once they have gone on without it."""
        claimed = self.shared
        if claimed is None:
            return
        if self._doubt is None or not self._doubt.is_of(claimed, now):
            self._doubt = Doubt.begun(claimed, now)
        elif self._doubt.is_borne_out(now):
            self.certain = None
            self._forget_agreement()
        else:
            self._doubt = self._doubt.at(now)

    def _forget_agreement(self) -> None:
        """What was seen since they agreed says nothing of what others will."""
        self._agreed = self._doubt = None


def _newer(known: Claim | None, claim: Claim) -> Claim:
    return claim if known is None or not known.counts or claim.offset >= known.offset else known
