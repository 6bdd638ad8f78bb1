"""Whether an assignment elects the designated leader as it stands, so that its order need not be altered.

An unclean election takes the first replica of the order that is registered, unfenced and online. To alter the order and
to put it back costs two requests more, and Kafka takes neither of an assignment that names an unregistered broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from kafka_recovery.domain.evidence import Broker, ClusterState, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId

_LISTS_NO_FENCED = "3"
"""Releases before Kafka 4.0 list no fenced brokers: who is absent there may be registered."""


def unregistered(
    cluster: ClusterState, brokers: Mapping[BrokerId, Broker], assignment: Sequence[BrokerId]
) -> tuple[BrokerId, ...]:
    """Those of these brokers that are certainly not registered."""
    tells = not (cluster.release or "").startswith(_LISTS_NO_FENCED)
    return tuple(id for id in assignment if (brokers[id].registered is False if id in brokers else tells))


def passed_over(
    cluster: ClusterState, brokers: Mapping[BrokerId, Broker], partition: PartitionEvidence
) -> frozenset[BrokerId]:
    """Replicas that may stand before the leader: no unclean election takes them, not even if they are back by then.

    A fenced ISR or ELR member that comes back is elected cleanly, without us. Any other fenced one is taken, uncleanly,
    if it comes back in time.
    """
    fenced = {id for id in partition.clean_members if id not in brokers or brokers[id].fenced}
    return frozenset(fenced).union(unregistered(cluster, brokers, partition.assignment))


def elects(leader: BrokerId, assignment: Sequence[BrokerId], passed: AbstractSet[BrokerId]) -> bool:
    """Whether the first replica that could be elected is the leader."""
    return next((broker for broker in assignment if broker not in passed), None) == leader


def elected_anyway(
    partition: PartitionEvidence,
    passed: AbstractSet[BrokerId],
    best_first: Sequence[BrokerId],
    equals: Sequence[BrokerId],
) -> BrokerId | None:
    """Who leads if the order is left as it stands, and if that is right; None: nobody."""
    assignment = partition.assignment
    first = next((broker for broker in assignment if broker not in passed), None)
    if first is None or not stands_right(first, assignment, passed, best_first, equals):
        return None
    return first


def stands_right(
    leader: BrokerId,
    assignment: Sequence[BrokerId],
    passed: AbstractSet[BrokerId],
    best_first: Sequence[BrokerId],
    equals: Sequence[BrokerId],
) -> bool:
    """Whether the leader is elected, and, if it fails in that moment, the next best one."""
    if not elects(leader, assignment, passed):
        return False
    rank = {broker: 0 if broker in equals else place for place, broker in enumerate(best_first, 1)}
    others = [rank.get(broker, len(rank) + 1) for broker in assignment if broker not in passed and broker != leader]
    return others == sorted(others)
