"""Whether a plan says what the naive rules say; the first difference is shown with the evidence it stands on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import combinations, islice

from exhaustive.naive_logs import contradict, lacking, under
from exhaustive.naive_rules import Ruling, fallbacks, ruling, stands_already, with_a_named_leader
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.evidence import ClusterState, Evidence, PartitionEvidence, ReplicaLog
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Decision, Loss
from kafka_recovery.domain.policy import Policy
from kafka_recovery.simulator.histories.judging.naive_order import firsts

Count = Callable[[int], None]
"""Hears how many more were judged."""

AT_ONCE = 5000
"""Partitions in one plan: all of a space at once would need gigabytes."""


def hold_for_each(
    partitions: Iterable[PartitionEvidence], cluster: ClusterState, policy: Policy, waited: timedelta,
    designated: BrokerId | None = None, ranked: Ranked | None = None,
) -> int:  # fmt: skip
    """Assert that each is decided as it has to be; returns how many were elected.

    `designated` and `ranked` name a leader for all of them.
    """
    elected, waiting = 0, iter(partitions)
    while some := tuple(islice(waiting, AT_ONCE)):
        by_person = {} if designated is None else {partition.id: designated for partition in some}
        by_ranking = {} if ranked is None else {partition.id: ranked for partition in some}
        plan = decide(Evidence(cluster, some), policy, waited=waited, designated=by_person, ranked=by_ranking)
        for partition, decision in zip(plan.evidence.partitions, plan.decisions, strict=True):
            expected, named = ruling(partition, cluster, policy, waited), designated
            if designated is not None:
                expected = with_a_named_leader(expected, partition, designated)
            elif ranked is not None and ranked[1:] == (partition.leader_epoch, partition.topic_id):
                expected, named = with_a_named_leader(expected, partition, ranked.leader), ranked.leader
            wrong = [*_wrong_verdict(decision, expected), *_wrong_choice(decision, expected, partition, cluster, named)]
            assert not wrong, (wrong, partition, cluster.brokers, policy.rules, waited, designated, ranked)
            elected += decision.leader is not None
    return elected


def _wrong_verdict(decision: Decision, expected: Ruling) -> Iterator[str]:
    if decision.verdict != expected.verdict:
        yield f"{decision.verdict} ({decision.reason}) instead of {expected.verdict} ({set(expected.reasons)})"
    if (decision.reason.code in expected.reasons) if decision.reason else not expected.reasons:
        return
    yield f"because {decision.reason}, where {set(expected.reasons)} hold"


def _wrong_choice(
    decision: Decision, expected: Ruling, partition: PartitionEvidence, cluster: ClusterState, named: BrokerId | None
) -> Iterator[str]:
    failed = {rejection.broker: rejection.reason.code for rejection in decision.rejections}
    if failed not in ({}, expected.failed):
        yield f"rejected {failed} instead of {expected.failed}"
    if expected.verdict != "Elect":
        if decision.leader is not None or decision.order or decision.loss is not None:
            yield f"leader {decision.leader}, order {decision.order} and {decision.loss} of an election that is none"
        return
    equals = firsts(partition, cluster, decision.candidate_order)
    if failed != expected.failed or decision.ranking != expected.best_first:
        yield f"ranked {decision.ranking} instead of {expected.best_first}, all but {expected.failed}"
    if not set(decision.equals) <= equals:
        yield f"{decision.equals} are called equal, though only {set(equals)} are as good as the best"
    if decision.leader not in (equals if named is None else {named}):
        yield f"broker {decision.leader} leads instead of {set(equals) if named is None else named}"
    if decision.leader is not None:
        order = fallbacks(decision.leader, partition.assignment, expected.best_first)
        if stands_already(decision.leader, partition, cluster, expected.best_first, decision.equals):
            order = list(partition.assignment)
        if list(decision.order) != order:
            yield f"order {decision.order} instead of {order}"
        yield from _wrong_loss(decision, partition)


def _wrong_loss(decision: Decision, partition: PartitionEvidence) -> Iterator[str]:
    """Without a history nothing is proven; what can be counted is counted."""
    logs = {replica.broker: replica.log for replica in partition.replicas if replica.log is not None}
    chosen, loss = logs[decision.leader], decision.loss  # type: ignore[index]
    if loss is None or loss.loss_class is not LossClass.UNKNOWN or loss.at_most is not None or not loss.missing:
        yield f"{loss}, though there is no history to prove anything by"
        return
    if decision.log_end != chosen.end:
        yield f"log end {decision.log_end} instead of {chosen.end}"
    beyond = max((0, *(witness.end - chosen.end for witness in partition.witnessed_ends)))
    if loss.at_least != beyond:
        yield f"at least {loss.at_least} instead of {beyond}"
    yield from wrong_lacks(loss, chosen, logs)


def wrong_lacks(loss: Loss, chosen: ReplicaLog, logs: Mapping[BrokerId, ReplicaLog]) -> Iterator[str]:
    """Every lacking record is counted, the first one is named. Where nothing that both still hold tells, more may be.

    Nothing is asked of vectors of which one must be false.
    """
    if any(contradict(one, other) for one, other in combinations(logs.values(), 2)):
        return
    told = {lack.broker: lack for lack in loss.lacks}
    for broker, other in logs.items():
        if other is chosen:
            continue
        truth, lack = lacking(chosen, other), told.pop(broker, None)
        counted, first = (lack.records, lack.from_offset) if lack else (0, None)
        exactly = _both_hold_a_record(chosen, other)
        if counted < len(truth) or (exactly and (counted, first) != (len(truth), min(truth, default=None))):
            yield f"of broker {broker} {counted} records from {first} on are said to be lacked, and {truth} are"
    if told:
        yield f"nobody lacks {told}"


def _both_hold_a_record(one: ReplicaLog, other: ReplicaLog) -> bool:
    """The same one: what they have in common ends beyond where both begin."""
    begin, end = max(one.start, other.start), min(one.end, other.end)
    return begin < end and (one.epochs is None or other.epochs is None or under(one, begin) == under(other, begin))
