"""What each broker holds of the partitions that have no leader, and what it deletes once another one leads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kafka_recovery.decision.costs import BrokerCost, is_empty, why_unknown
from kafka_recovery.decision.log_directories import marks
from kafka_recovery.decision.loss import visible_lacks
from kafka_recovery.decision.pods import place, pods_of
from kafka_recovery.decision.returns import away, elected_by_kafka
from kafka_recovery.decision.seen import state
from kafka_recovery.domain.evidence import PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.plan import Plan


@dataclass(frozen=True, slots=True)
class BrokerGlance:
    """One broker over all partitions that had no leader when the plan was made.

    `replicas`: its copies of them, `unread` and `empty`: how many of these gave no answer, or held no record.
    `kafka_elects`: partitions that Kafka can have it lead by itself once it is back; `plan_elects`: that the plan does.
    `cost` and `kafka_cost`: what it deletes if the plan elects others, and if Kafka elects whom it can. `pod`: where it
    ran, if it did not answer and Kubernetes tells of it; else empty.
    """

    broker: BrokerId
    state: str
    replicas: int
    unread: int
    empty: int
    kafka_elects: int
    plan_elects: int
    cost: BrokerCost
    kafka_cost: BrokerCost
    pod: str = ""


def glances(plan: Plan, found: Sequence[BrokerCost]) -> Iterator[BrokerGlance]:
    """Brokers of which something is to be said, over the partitions that have no leader."""
    offline = [partition for partition in plan.evidence.partitions if partition.leader is None]
    copies, unread, empty, kafka = Counter[BrokerId](), Counter[BrokerId](), Counter[BrokerId](), Counter[BrokerId]()
    for partition in offline:
        copies.update(partition.assignment)
        unread.update(away(partition))
        empty.update(replica.broker for replica in partition.replicas if is_empty(replica.log))
        kafka.update(frozenset(elected_by_kafka(partition)).intersection(partition.assignment))
    leads = Counter(each.leader for each in plan.elections.values() if each.leader is not None)
    priced, by_kafka = {cost.broker: cost for cost in found}, _if_kafka_elects(offline)
    order = sorted(copies, key=lambda id: (-kafka[id], -leads[id], -copies[id], id))
    for id in order:
        cost = priced.get(id, BrokerCost(id))
        then = by_kafka.get(id, BrokerCost(id))
        seen = ", ".join((state(plan.evidence.cluster.broker(id)), *marks(plan.evidence.cluster, id)))
        pod = "; ".join(map(place, pods_of(plan.evidence.cluster, id)))
        yield BrokerGlance(id, seen, copies[id], unread[id], empty[id], kafka[id], leads[id], cost, then, pod)


def _if_kafka_elects(offline: Sequence[PartitionEvidence]) -> dict[BrokerId, BrokerCost]:
    """What each broker deletes if Kafka elects a member that is back: of several, the one that costs it most."""
    found: dict[BrokerId, BrokerCost] = {}
    for partition in offline:
        members = [member for id in elected_by_kafka(partition) if (member := partition.replica(id))]
        for replica in partition.replicas if members else ():
            if is_empty(replica.log):
                continue
            so_far = found.get(replica.broker, BrokerCost(replica.broker))
            others = [member for member in members if member is not replica]
            if any(why_unknown(replica, member.log) or member.log is None for member in others):
                found[replica.broker] = replace(so_far, unknown=so_far.unknown + 1)
            elif most := max((_lacking(partition, member, replica) for member in others), default=0):
                more = replace(so_far, records=so_far.records + most, partitions=so_far.partitions + 1)
                found[replica.broker] = more
    return found


def _lacking(partition: PartitionEvidence, leader: Replica, replica: Replica) -> int:
    """How many records of the replica the leader lacks, as far as both were read."""
    return sum(lack.records for lack in visible_lacks(partition, leader) if lack.broker == replica.broker)
