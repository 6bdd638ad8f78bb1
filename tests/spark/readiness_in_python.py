"""Readiness by brute force: every scenario of a cluster over every partition of it, in the domain's own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from random import Random

from kafka_recovery.decision.checks import MERITS, broker_objection, is_alive, replica_objection
from kafka_recovery.decision.guards import LOG_DIR_OFFLINE
from kafka_recovery.decision.logs import common_point, lacks
from kafka_recovery.decision.loss import NOT_PROVEN
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import Policy, Rule
from kafka_recovery.domain.reason import Reason

Failing = frozenset[BrokerId]
Numbers = Counter[str]


UNREAD = Reason("TopicAuthorizationFailed", "DESCRIBE_CONFIGS is missing")


def up_and_running(seen: Evidence, chance: Random) -> Evidence:
    """The same, but most partitions have a leader and an ISR, at times an ELR, as chance will have it."""
    return replace(seen, partitions=tuple(_led(partition, chance) for partition in seen.partitions))


def _led(partition: PartitionEvidence, chance: Random) -> PartitionEvidence:
    if not partition.replicas or chance.random() < 0.1:
        return partition
    in_sync = tuple(chance.sample(partition.assignment, chance.randint(1, min(3, len(partition.replicas)))))
    rest = [broker for broker in partition.assignment if broker not in in_sync]
    elr = chance.choice((None, None, (), tuple(rest[:1])))
    problem = chance.choice((None, None, None, UNREAD))
    tiered = chance.choice((None, None, False, False, False, True))
    return replace(partition, leader=in_sync[0], isr=in_sync, elr=elr, tiered=tiered, configs_problem=problem)


def expected(seen: Evidence, policy: Policy) -> dict[str, Numbers]:
    """What each failure would cost, by its name."""
    return {
        name: sum((_cost(partition, failing, seen, policy) for partition in seen.partitions), Counter())
        for name, failing in scenarios(seen)
    }


def expected_now(seen: Evidence, policy: Policy) -> Numbers:
    """What could be done about the partitions that are offline already."""
    offline = (partition for partition in seen.partitions if not _left(partition, seen))
    return sum((_saved(partition, frozenset(), seen, policy) for partition in offline), Counter())


def scenarios(seen: Evidence) -> Iterator[tuple[str, Failing]]:
    """Every broker, pair and rack of those who are alive and hold anything."""
    holding = {broker for partition in seen.partitions for broker in partition.assignment}
    alive = sorted(_alive(seen) & holding)
    yield from ((f"broker {broker}", frozenset({broker})) for broker in alive)
    yield from ((f"brokers {one} and {other}", frozenset({one, other})) for one, other in combinations(alive, 2))
    racks = {broker.id: broker.rack for broker in seen.cluster.brokers}
    for rack in {racks[broker] for broker in alive} - {None}:
        yield f"rack {rack}", frozenset(broker for broker, where in racks.items() if where == rack)


def _alive(seen: Evidence) -> frozenset[BrokerId]:
    return frozenset(broker.id for broker in seen.cluster.brokers if is_alive(broker))


def _left(partition: PartitionEvidence, seen: Evidence) -> frozenset[BrokerId]:
    """Living members of the ISR of a partition that is led."""
    in_sync = frozenset(partition.isr) & frozenset(partition.assignment) & _alive(seen)
    return in_sync if partition.leader is not None else frozenset()


def _cost(partition: PartitionEvidence, failing: Failing, seen: Evidence, policy: Policy) -> Numbers:
    left = _left(partition, seen)
    return _saved(partition, failing, seen, policy) if left and left <= failing else Counter()


def _saved(partition: PartitionEvidence, failing: Failing, seen: Evidence, policy: Policy) -> Numbers:
    rule = policy.rule_for(partition.id.topic) or Rule("")
    standing = _alive(seen) - failing
    copies = [
        (position, replica)
        for position, replica in enumerate(partition.replicas)
        if replica.broker in standing and not (replica.problem and replica.problem.code == LOG_DIR_OFFLINE)
    ]
    leader = _measured(partition.replica(partition.leader), partition, rule)
    candidates = [
        (position, log)
        for position, replica in copies
        if _may_lead(replica, seen) and (log := _measured(replica, partition, rule))
    ]
    if not copies:
        return Counter(offline=1, none=1)
    if partition.may_be_tiered:
        return Counter(offline=1, unknown=1)
    if any(replica.broker in (partition.elr or ()) for _, replica in copies):
        return Counter(offline=1, lossless=1)
    if any(_lacking(log, leader) == 0 for _, log in candidates):
        return Counter(offline=1, lossless=1)
    worth = MERITS[rule.candidate_order]
    best = max(candidates, key=lambda each: worth(each[1], each[0], NOT_PROVEN), default=None)
    missed = _lacking(best[1], leader) if best else None
    return Counter(offline=1, unknown=1) if missed is None else Counter(offline=1, bounded=1, lacking=missed)


def _may_lead(replica: Replica, seen: Evidence) -> bool:
    broker = seen.cluster.broker(replica.broker)
    return broker is not None and broker_objection(broker) is None


def _measured(replica: Replica | None, partition: PartitionEvidence, rule: Rule) -> ReplicaLog | None:
    if replica is None or replica_objection(replica, partition, rule) is not None:
        return None
    return replica.log


def _lacking(log: ReplicaLog, leader: ReplicaLog | None) -> int | None:
    """How many offsets of the leader's log this one does not provably hold; None: who knows."""
    if leader is None or common_point(log, leader) is None:
        return None
    lack = lacks(log, leader, BrokerId(0))
    return lack.records if lack else 0
