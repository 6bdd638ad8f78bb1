"""What partitions share that stand alike: thousands of an incident do, and what follows from it is worked out once."""

from __future__ import annotations

from kafka_recovery.decision.cluster_index import ClusterIndex
from kafka_recovery.decision.judgement import Ranking
from kafka_recovery.decision.present_order import elected_anyway, passed_over, stands_right, unregistered
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId

Brokers = tuple[BrokerId, ...]


class Lineup:
    """Partitions of one assignment, ISR, ELR and ranking: what an order of their replicas elects.

    `missing`: replicas that are certainly not registered, so that Kafka takes no other order. `passed`: those that may
    stand before the leader. `anyway`: who is elected if the order is left as it stands, if that is right. Where the
    election itself names the leader, nothing of that matters.
    """

    __slots__ = ("_may_alter", "_orders", "anyway", "assignment", "best_first", "equals", "missing", "passed")

    def __init__(
        self, partition: PartitionEvidence, assignment: Brokers, ranking: Ranking, around: ClusterIndex
    ) -> None:
        cluster, brokers = around.cluster, around.brokers
        self.assignment, self.best_first, self.equals = assignment, ranking.best_first, ranking.equals
        self.passed = passed_over(cluster, brokers, partition)
        self._may_alter = not cluster.designated_elections
        self.missing = unregistered(cluster, brokers, assignment) if self._may_alter else ()
        self.anyway = elected_anyway(partition, self.passed, self.best_first, self.equals) if self._may_alter else None
        self._orders: dict[BrokerId | None, Brokers] = {None: ()}

    def order(self, leader: BrokerId | None) -> Brokers:
        """The order that stands during the election of this leader.

        It designates the leader; unless it is not to be altered, because the election itself does, or the present one
        does.
        """
        order = self._orders.get(leader)
        if order is None and leader is not None:
            self._orders[leader] = order = self._order_of(leader)
        return order or ()

    def _order_of(self, leader: BrokerId) -> Brokers:
        if self._may_alter and not stands_right(leader, self.assignment, self.passed, self.best_first, self.equals):
            return _leader_first(leader, self.best_first, self.assignment)
        return self.assignment


def _leader_first(leader: BrokerId, best_first: Brokers, assignment: Brokers) -> Brokers:
    """The leader first, then the other candidates, best first: if it fails, the controller elects the next acceptable.

    Rejected replicas keep their original relative order at the end.
    """
    rest = [broker for broker in best_first if broker != leader]
    return (leader, *rest, *[broker for broker in assignment if broker not in best_first])


class Lineups:
    """Those of one look at a cluster."""

    __slots__ = ("_around", "_known")

    def __init__(self, around: ClusterIndex) -> None:
        self._around = around
        self._known: dict[tuple[object, ...], Lineup] = {}

    def of(self, partition: PartitionEvidence, ranking: Ranking) -> Lineup:
        """That of this partition, which was ranked like this."""
        assignment = partition.assignment
        key = assignment, ranking.best_first, ranking.equals, partition.isr, partition.elr
        found = self._known.get(key)
        if found is None:
            self._known[key] = found = Lineup(partition, assignment, ranking, self._around)
        return found
