"""Since when partitions have no leader, as far as a clock tells, and how a moment is read. Nothing is decided by it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence


def began(partitions: Iterable[PartitionEvidence]) -> datetime | None:
    """When the first of them had lost its leader, at the latest; None: no clock tells it of any."""
    return min((each.offline_since for each in partitions if each.offline_since), default=None)


def incident_at(partitions: Iterable[PartitionEvidence], cluster: ClusterState) -> datetime:
    """The earliest moment of their incident that is known: at the latest they were without a leader when looked at."""
    return began(partitions) or cluster.observed_at


def moment(at: datetime) -> str:
    """As people read it everywhere: to the second, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
