"""Whether producers with acks=all can write once a plan has elected, in words.

A leader refuses acks=all while fewer replicas than min.insync.replicas are in sync, and asks that of no other producer.
One that was elected uncleanly is alone in the ISR at first (seen on Kafka 3.9 to 4.4).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from kafka_recovery.decision.costs import partitions
from kafka_recovery.decision.returns import has_failed_disk
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.plan import Decision


class _Writes(Enum):
    STAY_DOWN = 1
    FAIL_AT_FIRST = 2
    WORK = 3
    NOT_KNOWN = 4


@dataclass(frozen=True, slots=True)
class _After:
    """`up`: replicas that can be in sync, the new leader among them."""

    minimum: int | None
    up: int

    @property
    def writes(self) -> _Writes:
        if self.minimum is None:
            return _Writes.NOT_KNOWN
        if self.minimum <= 1:
            return _Writes.WORK
        return _Writes.STAY_DOWN if self.up < self.minimum else _Writes.FAIL_AT_FIRST


def after_election(elections: Sequence[tuple[Decision, PartitionEvidence]], cluster: ClusterState) -> Iterator[str]:
    """A sentence for each thing that can happen to such writes, the worst first."""
    all = [_after(partition, decision.leader, cluster) for decision, partition in elections]
    for kind in _Writes:
        if found := [each for each in all if each.writes is kind]:
            where = "" if len(found) == len(all) else f" on {partitions(len(found))}"
            yield _told(kind, found, where)


def _after(partition: PartitionEvidence, leader: BrokerId | None, cluster: ClusterState) -> _After:
    up = sum(id == leader or _can_follow(partition, id, cluster) for id in partition.assignment)
    return _After(partition.min_isr.value if partition.min_isr else None, up)


def _can_follow(partition: PartitionEvidence, id: BrokerId, cluster: ClusterState) -> bool:
    broker = cluster.broker(id)
    alive = broker is not None and broker.registered is not False and not broker.fenced and not broker.stopping
    return alive and not has_failed_disk(partition, id)


def _told(kind: _Writes, found: Sequence[_After], where: str) -> str:
    least = _or({each.minimum for each in found if each.minimum is not None})
    up = _or({each.up for each in found})
    if kind is _Writes.STAY_DOWN:
        return (
            f"Writes with acks=all STAY DOWN{where} (min.insync.replicas: {least}, up: {up}); reads and acks=1 can "
            "work."
        )
    if kind is _Writes.FAIL_AT_FIRST:
        in_sync = f"{least} replicas are in sync (min.insync.replicas)"
        return f"Writes with acks=all work{where} once {in_sync}; {up} are up."
    if kind is _Writes.WORK:
        return f"Writes with acks=all can work at once{where}: min.insync.replicas is 1."
    return f"Whether writes with acks=all can work is not known{where}: min.insync.replicas could not be read."


def _or(values: set[int]) -> str:
    return " or ".join(map(str, sorted(values)))
