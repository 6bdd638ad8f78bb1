"""Where a cluster stands by those that answer; and whether it has gone on without metadata that others once claimed.

What a quorum has committed, every later leader of it has, before it commits anything (Raft's leader completeness). So a
controller that goes on committing, and does not have what was claimed before, disproves the claim. One that was deposed
commits no more, and a broker that is cut off applies no more: both stand still, and disprove nothing. For a moment both
may still go on with what was under way to them, so nothing counts that they do in the first half of the time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from kafka_recovery.cluster import metadata
from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.errors import ClusterError
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.domain.ids import BrokerId, MetadataOffset
from kafka_recovery.domain.reason import Reason

COMMITTED_ON = timedelta(seconds=60)
"""So long it takes to see that the controller goes on. What was still under way to a deposed one takes seconds."""

APPLIED_ON = timedelta(minutes=10)
"""So long it takes to see that brokers go on, where the controller may not be asked: one that was away applies old
metadata as it would new ones, but has caught up in less than half of that."""

_NOT_ALLOWED = frozenset({"ClusterAuthorizationFailed"})
"""Why a quorum may go undescribed for good: DescribeQuorum needs DESCRIBE on the cluster, which not everybody has.
Whatever else it fails with says that there is no controller to be asked now."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What each broker has applied that answers, and what the controller has committed. None: it may not be asked."""

    applied: Mapping[BrokerId, MetadataOffset]
    committed: MetadataOffset | None

    def frontier(self, below: MetadataOffset) -> int:
        """The newest that is told. Of what brokers say, what is as new as `below` is the claim in question."""
        if self.committed is not None:
            return self.committed
        return max((offset for offset in self.applied.values() if offset < below), default=-1)

    def majority_within(self, above: int, below: MetadataOffset) -> bool:
        """Whether most of those that answer stand between these two."""
        return 2 * sum(above < offset < below for offset in self.applied.values()) > len(self.applied)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A claim, and since when it is known that those that answer show less (the loop's time).

    `before`: where the cluster stood at `taken`, which is what it has to have gone on from.
    """

    claimed: MetadataOffset
    since: float
    before: Standing
    taken: float

    @classmethod
    def begun(cls, claimed: MetadataOffset, now: Standing) -> Doubt:
        """At this moment."""
        return cls(claimed, loop_time(), now, loop_time())

    def is_of(self, claimed: MetadataOffset, now: Standing) -> bool:
        """Whether it is about this claim, and the cluster can be held to where it stood then."""
        return self.claimed == claimed and (self.before.committed is None) == (now.committed is None)

    def at(self, now: Standing) -> Doubt:
        """With this to go on from, unless that was taken when nothing was under way any more."""
        return self if self._is_settled else replace(self, before=now, taken=loop_time())

    def is_borne_out(self, now: Standing) -> bool:
        """Whether the cluster has gone on for long enough, most of those that answer with it, and without the claim."""
        if not self._is_settled or loop_time() - self.taken < self._half:
            return False
        began, reached = self.before.frontier(self.claimed), now.frontier(self.claimed)
        return began < reached < self.claimed and now.majority_within(began, self.claimed)

    @property
    def _half(self) -> float:
        lasts = APPLIED_ON if self.before.committed is None else COMMITTED_ON
        return lasts.total_seconds() / 2

    @property
    def _is_settled(self) -> bool:
        return self.taken - self.since >= self._half


def may_not_be_asked(why: Reason) -> bool:
    """Whether the controller's word is not to be had for good, for want of a right."""
    return why.code in _NOT_ALLOWED


async def standing(
    brokers: Brokers, at: Address, applied: Mapping[BrokerId, MetadataOffset], deadline: timedelta
) -> Standing | None:
    """`applied`: by those that answer. None: the controller, which is asked through `at`, does not say."""
    try:
        watermark = await metadata.quorum_high_watermark(brokers, at, deadline)
    except ClusterError:
        return None
    if isinstance(watermark, int):
        return Standing(applied, MetadataOffset(watermark - 1))
    return Standing(applied, None) if may_not_be_asked(watermark) else None
