"""docs/decision-rules.md a second time: flat and slow, one sentence after the other, and nothing of `decision/` in it.

An error would have to be made twice, in two ways, to stay unseen. Section numbers are those of that page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction

from exhaustive.naive_logs import EPOCH_UNKNOWN, last_epoch, same_records
from kafka_recovery.domain.evidence import Broker, ClusterState, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.policy import CandidateOrder, Limits, Policy, RequiredAnswers, Rule

Seen = Mapping[BrokerId, Broker]


@dataclass(frozen=True)
class Ruling:
    """What has to be decided. `reasons`: all that hold; a person is told one of them, and more would help nobody.

    `failed`: the first rule that each of the others failed. `best_first`: who may lead, should anybody.
    """

    verdict: str
    reasons: frozenset[str]
    best_first: tuple[BrokerId, ...]
    failed: Mapping[BrokerId, str]


def ruling(partition: PartitionEvidence, cluster: ClusterState, policy: Policy, waited: timedelta) -> Ruling:
    """Section 1: the first row of its table that is true."""
    brokers = {broker.id: broker for broker in cluster.brokers}
    rule = policy.rule_for(partition.id.topic)
    if partition.leader is not None:
        return Ruling("Nothing", frozenset(), (), {})
    if rule is None:
        return Ruling("Refuse", frozenset({"NoRule"}), (), {})
    failed = {r.broker: code for r in partition.replicas if (code := first_failure(r, partition, brokers, rule))}
    best_first = ranked([r for r in partition.replicas if r.broker not in failed], rule.candidate_order)
    if somebody_clean_returns(partition, brokers) and waited < rule.patience:
        return Ruling("Wait", frozenset({"CleanMemberReturning"}), best_first, failed)
    reasons = {*against_the_cluster(cluster, policy.limits), *against_the_partition(partition, cluster, rule)}
    if not best_first:
        reasons.add("NoCandidate")
    return Ruling("Refuse" if reasons else "Elect", frozenset(reasons), best_first, failed)


def with_a_named_leader(free: Ruling, partition: PartitionEvidence, named: BrokerId, by: str) -> Ruling:
    """A named leader beats the order, but no rule. `by`: `Designated` by a person, or `Ranked` for the fleet."""
    if free.verdict in ("Nothing", "Wait") or named in free.best_first:
        return free
    refused = f"{by}Rejected" if named in partition.assignment else f"{by}NotReplica"
    return replace(free, verdict="Refuse", reasons=free.reasons | {refused})


def somebody_clean_returns(partition: PartitionEvidence, brokers: Seen) -> bool:
    """An ISR or ELR member that is alive or answers again; not while an old leader goes on writing."""
    if any(replica.leads for replica in partition.replicas):
        return False
    members = [*partition.isr, *(partition.elr or ())]
    return any(id in brokers and (alive(brokers[id]) or brokers[id].reachable) for id in members)


def alive(broker: Broker) -> bool:
    """As the controller sees it."""
    return broker.registered is True and not broker.fenced


def against_the_cluster(cluster: ClusterState, limits: Limits) -> Iterator[str]:
    """Section 2, the whole cluster."""
    asked_twice = [b for b in cluster.brokers if b.reachable and b.metadata_advances is not None]
    if asked_twice and not any(broker.metadata_advances for broker in asked_twice):
        yield "NoController"
    for broker in cluster.brokers:
        if broker.id == cluster.view_from and broker.metadata_advances is False:
            yield "ViewIsStale"
    down = sum(not alive(broker) for broker in cluster.brokers)
    if cluster.brokers and Fraction(down, len(cluster.brokers)) > Fraction(limits.brokers_down_percent, 100):
        yield "TooManyBrokersDown"


def against_the_partition(partition: PartitionEvidence, cluster: ClusterState, rule: Rule) -> Iterator[str]:
    """Section 2, one partition."""
    brokers = {broker.id: broker for broker in cluster.brokers}
    if len(partition.replicas) < rule.min_replication_factor:
        yield "ReplicationFactorTooLow"
    if not partition.reassignment_known:
        yield "ReassignmentUnknown"
    if partition.reassignment is not None:
        yield "ReassignmentOngoing"
    for replica in partition.replicas:
        if replica.leads:
            yield "OldLeaderAnswers"
        if replica.log is not None and cluster.observed_at - replica.log.observed_at > rule.evidence.max_age:
            yield "EvidenceTooOld"
        lives = replica.broker in brokers and alive(brokers[replica.broker])
        if rule.evidence.required_answers is RequiredAnswers.ALL and lives:
            yield from _incomparable(replica, partition, rule)


def _incomparable(replica: Replica, partition: PartitionEvidence, rule: Rule) -> Iterator[str]:
    """What a living broker did not say might be what matters."""
    if replica.log is None:
        yield "PromisedMissing"
    else:
        if replica.log.answered_under != partition.leader_epoch:
            yield "NotPromised"
        if rule.candidate_order is CandidateOrder.EPOCH_FIRST and replica.log.epochs is None:
            yield "EpochUnknown"


def first_failure(replica: Replica, partition: PartitionEvidence, brokers: Seen, rule: Rule) -> str | None:
    """Section 3: the first rule that this replica fails, its broker's rules first."""
    broker, log = brokers.get(replica.broker), replica.log
    if broker is None or broker.registered is not True:
        return "NotListed" if broker is not None and broker.registered is None else "NotRegistered"
    if broker.fenced:
        return "Fenced"
    if broker.stopping is True:
        return "Stopping"
    if not broker.reachable:
        return "Unreachable"
    if broker.metadata_advances is not True:
        return "CutOff" if broker.metadata_advances is False else "MetadataUnknown"
    if replica.problem is not None and replica.problem.code == "LogDirOffline":
        return "LogDirOffline"
    if log is None:
        return replica.problem.code if replica.problem is not None else "NotMeasured"
    if log.answered_under != partition.leader_epoch:
        return "NotPromised"
    if rule.candidate_order is CandidateOrder.EPOCH_FIRST and log.epochs is None:
        return "EpochUnknown"
    return None


def ranked(candidates: list[Replica], order: CandidateOrder) -> tuple[BrokerId, ...]:
    """Section 4: in the place in which as many stand before it as beat it."""
    beaten_by = {
        one.broker: sum(_beats(other, one, candidates, order) for other in candidates if other is not one)
        for one in candidates
    }
    return tuple(broker for place in range(len(candidates)) for broker, n in beaten_by.items() if n == place)


def _beats(one: Replica, other: Replica, in_assignment_order: list[Replica], order: CandidateOrder) -> bool:
    assert one.log is not None
    assert other.log is not None
    epochs = last_epoch(one.log), last_epoch(other.log)
    ends = one.log.end, other.log.end
    assert order is CandidateOrder.LONGEST_LOG or EPOCH_UNKNOWN not in epochs
    for ours, theirs in (epochs, ends) if order is CandidateOrder.EPOCH_FIRST else (ends, epochs):
        if ours != theirs:
            return ours > theirs
    return in_assignment_order.index(one) < in_assignment_order.index(other)


def interchangeable(partition: PartitionEvidence, best_first: tuple[BrokerId, ...]) -> frozenset[BrokerId]:
    """Section 5: those whose logs equal that of the best one, itself included."""
    logs = {r.broker: r.log for r in partition.replicas if r.log is not None}
    best = logs[best_first[0]]
    return frozenset(b for b in best_first if b == best_first[0] or same_records(best, logs[b]))


def fallbacks(leader: BrokerId, assignment: tuple[BrokerId, ...], best_first: tuple[BrokerId, ...]) -> list[BrokerId]:
    """The order that designates: the leader, the other candidates best first, the others as they were assigned."""
    others = [broker for broker in assignment if broker not in best_first]
    return [leader, *(broker for broker in best_first if broker != leader), *others]
