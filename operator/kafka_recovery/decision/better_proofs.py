"""Candidates of which more is proven than of the leader that the policy's order chooses.

Only where a history is known, and the order does not read what it proves (docs/explanation/decision-rules.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from kafka_recovery.decision.alike import named
from kafka_recovery.decision.costs import is_empty, partitions, records
from kafka_recovery.decision.logs import equal
from kafka_recovery.decision.loss import classify, severity
from kafka_recovery.decision.order import BY_COST
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Decision, Loss, Plan
from kafka_recovery.domain.policy import Approval, CandidateOrder, Rule

_TOLD = 3
"""So many groups are told in full: what must never be done has to stand near them."""

BY_PROOF = f"set the policy's candidateOrder to {CandidateOrder.LEAST_LOSS}, and read the next plan"
"""What to do in place of approving a plan whose order costs more."""


class BetterProof(NamedTuple):
    """`broker` may lead as well, and its `loss` is proven smaller than that of the `leader` that `order` chooses.

    `lacks`: how many records of others it is seen to lack all the same. `passes`: its rule asks nobody about it.
    """

    order: CandidateOrder
    leader: BrokerId
    broker: BrokerId
    loss_class: LossClass
    at_most: int
    lacks: int
    id: TopicPartition
    passes: bool


def better_proofs(plan: Plan) -> Iterator[tuple[Sequence[TopicPartition], str]]:
    """Where a plan's order costs more than another candidate would: on which partitions, and what is proven of whom."""
    seen = {partition.id: partition for partition in plan.evidence.partitions}
    cluster = plan.evidence.cluster
    unregistered = frozenset(broker.id for broker in cluster.brokers if broker.registered is False)
    found = [
        better
        for id, decision in plan.elections.items()
        if (better := _better_proof(decision, seen[id], cluster, unregistered, plan.policy.rule_for(id.topic)))
    ]
    groups = [list(group) for _, group in groupby(sorted(found, key=_alike), key=lambda each: _alike(each)[:4])]
    for alike in groups[:_TOLD]:
        yield [each.id for each in alike], _told(alike)
    if others := [each.id for alike in groups[_TOLD:] for each in alike]:
        yield others, f"On {partitions(len(others))} more another candidate is proven to lose less, too."


def is_named_badly(decision: Decision, partition: PartitionEvidence, cluster: ClusterState) -> bool:
    """Whether a person or a ranking named the leader, and neither its log nor a proof says that it is the best.

    Of equal logs another one comes first by what lies on the disks: full_leaders tells of those.
    """
    best, planned = partition.replica(decision.ranking[0]) if decision.ranking else None, decision.loss
    leader = partition.replica(decision.leader)
    if best and leader and best.log and leader.log and equal(best.log, leader.log):
        return False
    if not decision.is_worse_than_best or best is None or planned is None or planned.at_most is None:
        return decision.is_worse_than_best
    loss = classify(partition, best, cluster)
    return severity(loss) <= severity(planned)


def _alike(better: BetterProof) -> tuple[CandidateOrder, BrokerId, BrokerId, LossClass, TopicPartition]:
    """Those of one group are told in one sentence, by id."""
    return better.order, better.leader, better.broker, better.loss_class, better.id


def _better_proof(
    decision: Decision,
    partition: PartitionEvidence,
    cluster: ClusterState,
    unregistered: frozenset[BrokerId],
    rule: Rule | None,
) -> BetterProof | None:
    leader, planned = decision.leader, decision.loss
    if leader is None or planned is None or partition.history is None:
        return None
    if decision.candidate_order in BY_COST or decision.is_worse_than_best:
        return None  # the order went by proofs, or it did not choose
    if planned.loss_class is LossClass.LOSSLESS or any(id in unregistered for id in partition.assignment):
        return None  # there is nothing better, or Kafka takes no order that puts another one first
    best, least = None, planned
    for broker in decision.ranking:
        replica = partition.replica(broker)
        if replica is None or broker == leader or is_empty(replica.log):
            continue  # a log without a record holds nothing that any other one lacks
        loss = classify(partition, replica, cluster)
        if loss.at_most is not None and severity(loss) < severity(least):
            best, least = broker, loss
    if best is None or least.at_most is None:
        return None
    order, lacks = decision.candidate_order, _lacks(least)
    passing = {Approval.AUTO, *([Approval.AUTO_LOSSLESS] if least.loss_class is LossClass.LOSSLESS else [])}
    passes = rule is not None and rule.approval in passing
    return BetterProof(order, leader, best, least.loss_class, least.at_most, lacks, decision.id, passes)


def _lacks(loss: Loss) -> int:
    return sum(lack.records for lack in loss.lacks)


def _told(alike: Sequence[BetterProof]) -> str:
    order, leader, broker, loss_class, *_ = alike[0]
    ids, lacks = named([each.id for each in alike]), sum(each.lacks for each in alike)
    if loss_class is LossClass.LOSSLESS:
        lost = "no record acknowledged with acks=all is lost"
        others = f" Others hold {records(lacks)} that it lacks, none of them so acknowledged."
    else:
        most = records(sum(each.at_most for each in alike))
        lost = f"at most {most} acknowledged with acks=all are lost"
        others = f" Others hold {records(lacks)} that it lacks."
    unasked = any(each.passes for each in alike)
    then = "it may elect UNASKED, so copy first" if unasked else "a person is asked again"
    return (
        f"Broker {broker} is the better leader of {ids}: it is proven that with it {lost}.{others if lacks else ''} "
        f"{order} chooses broker {leader}. {BY_PROOF[0].upper()}{BY_PROOF[1:]}: {then}."
    )
