"""One partition before the guards: whether to elect at all, who may lead, best first, and who may not and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

from kafka_recovery.decision.checks import MERITS, clean_return, partition_objection, replica_objection
from kafka_recovery.decision.cluster_index import ClusterIndex
from kafka_recovery.decision.logs import interchangeable
from kafka_recovery.decision.loss import NOT_PROVEN, classify, cost_of
from kafka_recovery.decision.order import BY_COST, UNPROVEN
from kafka_recovery.decision.refusals import no_rule
from kafka_recovery.decision.returns import named_brokers, with_which_disk
from kafka_recovery.domain.evidence import PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.ids import BrokerId, Offset
from kafka_recovery.domain.plan import Loss, Verdict
from kafka_recovery.domain.policy import Rule
from kafka_recovery.domain.quickly import filled_quickly
from kafka_recovery.domain.reason import Reason, Rejection

OBSERVED_ONLY = Rule("")
"""Stands for the rule of a topic that no rule selects."""


class Ranking(NamedTuple):
    """`best_first` passed every guard; `equals` are interchangeable with `best`, the first of them."""

    best_first: tuple[BrokerId, ...]
    equals: tuple[BrokerId, ...]
    rejections: tuple[Rejection, ...]
    best: Replica | None


_Brokers = tuple[BrokerId, ...]
_ranking: Callable[[tuple[_Brokers, _Brokers, tuple[Rejection, ...], Replica | None]], Ranking] = filled_quickly(
    Ranking
)

_Passed = tuple[tuple[float, ...], Replica, ReplicaLog]
"""A replica that passed every guard, and its log: what it is worth stands first. In the order of the assignment."""

NOBODY = Ranking((), (), (), None)
_ELECT = Verdict.ELECT  # once: to look up a member of an Enum takes as long as to call a function


class Standing(NamedTuple):
    """The verdict on one partition, before one of the candidates is chosen.

    `log_end` and `loss` are the same whichever leads, because their logs are equal; `loss` is None where it depends.
    """

    partition: PartitionEvidence
    rule: Rule
    verdict: Verdict
    reason: Reason | None = None
    ranking: Ranking = NOBODY
    candidates: tuple[BrokerId, ...] = ()
    log_end: Offset | None = None
    loss: Loss | None = None


_Elected = tuple[PartitionEvidence, Rule, Verdict, None, Ranking, _Brokers, Offset, Loss | None]
_standing: Callable[[_Elected], Standing] = filled_quickly(Standing)


def judge(partition: PartitionEvidence, index: ClusterIndex, obstacle: Reason | None, waited: timedelta) -> Standing:
    """Nothing if it has a leader; wait for an ISR or ELR member that is back; refuse; else elect one of the equals.

    `obstacle` is what stands against any election in this cluster.
    """
    rule = index.rules[partition.id.topic]
    if partition.leader is not None:
        return Standing(partition, rule or OBSERVED_ONLY, Verdict.NOTHING)
    if rule is None:
        return Standing(partition, OBSERVED_ONLY, Verdict.REFUSE, no_rule(partition.id.topic))
    reason = clean_return(partition, rule, index, waited)
    if reason is not None:
        return Standing(partition, rule, Verdict.WAIT, reason)
    if obstacle is not None:
        return Standing(partition, rule, Verdict.REFUSE, obstacle)
    reason = partition_objection(partition, rule, index)
    if reason is not None:
        rejections = rank(partition, rule, index).rejections
        return Standing(partition, rule, Verdict.REFUSE, reason, Ranking((), (), rejections, None))
    ranking = rank(partition, rule, index)
    best = ranking.best
    if best is None or best.log is None:
        return Standing(partition, rule, Verdict.REFUSE, _no_candidate(partition, ranking), ranking)
    loss = None if partition.history is not None else classify(partition, best, index.cluster)
    return _standing((partition, rule, _ELECT, None, ranking, ranking.equals, best.log.end, loss))


def rank(partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> Ranking:
    """Sort those who pass every guard by the rule's candidate order; say of the others which guard they fail."""
    worth = MERITS[UNPROVEN[rule.candidate_order]]
    passed: list[_Passed] = []
    rejections: tuple[Rejection, ...] = ()
    rejected = index.rejected
    for position, replica in enumerate(partition.replicas):
        if failed := rejected[replica.broker]:
            rejections += failed  # the same tuple for all partitions, as long as it is the only one
        elif reason := replica_objection(replica, partition, rule):
            rejections += (Rejection(replica.broker, reason),)
        elif (log := replica.log) is not None:
            passed.append((worth(log, position, NOT_PROVEN), replica, log))
    if not passed:
        return _ranking(((), (), rejections, None))
    by_cost = partition.history is not None and rule.candidate_order in BY_COST
    if by_cost and len(passed) > 1:
        passed = _proven(passed, partition, rule, index)
    passed.sort(reverse=True)  # no two are worth the same: the position differs
    _, best, log = passed[0]
    equals = 1
    while equals < len(passed) and interchangeable(log, passed[equals][2]):
        equals += 1
    best_first = tuple([replica.broker for _, replica, _ in passed])
    return _ranking((best_first, best_first[:equals], rejections, best))


def _proven(passed: Sequence[_Passed], partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> list[_Passed]:
    """These again, but what is proven of each counts as well: dearer to find out, so only where it may decide."""
    worth, cluster = MERITS[rule.candidate_order], index.cluster
    return [
        (worth(log, position, cost_of(partition, replica, cluster)), replica, log)
        for position, (_, replica, log) in enumerate(passed)
    ]


def _no_candidate(partition: PartitionEvidence, ranking: Ranking) -> Reason:
    alike: dict[str, list[Rejection]] = {}
    for no in ranking.rejections:
        alike.setdefault(f"{no.reason.code}{no.reason.message.replace(f'broker {no.broker}', '')}", []).append(no)
    each = " ".join(map(_rejected, alike.values()))
    none = f"none of the {len(partition.replicas)} replicas of {partition.id} may lead."
    return Reason("NoCandidate", f"{none} {with_which_disk(partition)} {each}")


def _rejected(alike: Sequence[Rejection]) -> str:
    """The same of several brokers once."""
    (first, *others) = alike
    same = f" The same of {named_brokers([no.broker for no in others])}." if others else ""
    return f"{first.reason.code}: {first.reason.message.rstrip('.')}.{same}"
