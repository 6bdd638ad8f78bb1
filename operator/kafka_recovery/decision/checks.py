"""What the guards and orders say in Python. Written by operator/write_checks.py, never by hand.

Each function asks its chain's guards one after the other; the first one that objects is the reason.
"""

# mypy: disable-error-code="redundant-expr"

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from kafka_recovery.decision import guards, refusals
from kafka_recovery.domain.evidence import Broker, PartitionEvidence, Replica, ReplicaLog
from kafka_recovery.domain.policy import CandidateOrder, Limits, Rule
from kafka_recovery.domain.reason import Reason

if TYPE_CHECKING:
    from kafka_recovery.decision.cluster_index import ClusterIndex
    from kafka_recovery.decision.subjects import Cost


def is_alive(broker: Broker) -> bool:
    return bool(broker.registered and not broker.fenced)


def is_back(broker: Broker) -> bool:
    return bool(broker.reachable or (broker.registered and not broker.fenced))


def broker_objection(broker: Broker) -> Reason | None:
    if broker.registered is None:
        return Reason("NotRegistered", guards.listed.explain(broker))
    if not broker.registered:
        return Reason("NotRegistered", guards.registered.explain(broker))
    if broker.fenced:
        return Reason("Fenced", guards.not_fenced.explain(broker))
    if broker.stopping:
        return Reason("BrokerStopping", guards.not_stopping.explain(broker))
    if not broker.reachable:
        return Reason("BrokerUnreachable", guards.reachable.explain(broker))
    if broker.reachable and (broker.metadata_advances is None):
        return Reason("MetadataAgeUnknown", guards.asked_twice.explain(broker))
    if broker.metadata_advances is False:
        return Reason("BrokerCutOff", guards.metadata_advances.explain(broker))
    return None


def replica_objection(replica: Replica, partition: PartitionEvidence, rule: Rule) -> Reason | None:
    if replica.problem is not None and replica.problem.code == "LogDirOffline":
        return Reason("LogDirOffline", guards.log_dir_online.explain(replica, partition, rule))
    if replica.log is None:
        return Reason(
            (replica.problem.code if replica.problem is not None else "AnswerIncomplete"),
            guards.answered.explain(replica, partition, rule),
        )
    if replica.log.answered_under != partition.leader_epoch:
        return Reason("ReplicaOnOldEpoch", guards.promised.explain(replica, partition, rule))
    if ((replica.log.epochs is None) and (rule.candidate_order == "EpochFirst")) or (
        (replica.log.epochs is None) and (rule.candidate_order == "LeastLoss")
    ):
        return Reason("EpochVectorUnreadable", guards.ranks_by_known_facts.explain(replica, partition, rule))
    return None


def cluster_objection(index: ClusterIndex, limits: Limits) -> Reason | None:
    if index.counts.controller_present is False:
        return Reason("NoActiveController", refusals.controller_present.explain(index, limits))
    if index.counts.view_advances is False:
        return Reason("BrokerCutOff", refusals.view_advances.explain(index, limits))
    if limits.brokers_down_percent * index.counts.brokers_known < 100 * index.counts.brokers_down:
        return Reason("TooManyBrokersDown", refusals.enough_brokers_up.explain(index, limits))
    return None


def partition_objection(partition: PartitionEvidence, rule: Rule, index: ClusterIndex) -> Reason | None:
    if len(partition.replicas) < rule.min_replication_factor:
        return Reason("ReplicationFactorTooLow", refusals.enough_replicas.explain(partition, rule, index))
    if not partition.reassignment_known:
        return Reason("AnswerIncomplete", refusals.reassignment_known.explain(partition, rule, index))
    if partition.reassignment is not None:
        return Reason("ReassignmentOngoing", refusals.not_reassigned.explain(partition, rule, index))
    for replica in partition.replicas:
        if replica.leads:
            return Reason("OldLeaderAnswers", refusals.no_old_leader.explain(replica, partition, rule, index))
    moment_0 = index.cluster.observed_at - rule.evidence.max_age
    for replica in partition.replicas:
        if replica.log is not None and replica.log.observed_at < moment_0:
            return Reason("EvidenceTooOld", refusals.fresh.explain(replica, partition, rule, index))
    if rule.evidence.required_answers == "All":
        for replica in partition.replicas:
            if (
                (replica.log is None)
                and (replica.problem is not None and replica.problem.code == "LogDirOffline")
                and replica.broker in index.required
            ):
                return Reason("LogDirOffline", refusals.not_on_a_failed_disk.explain(replica, partition, rule, index))
            if (replica.log is None) and replica.broker in index.required:
                return Reason("LiveReplicaUnmeasured", refusals.not_silent.explain(replica, partition, rule, index))
            if (
                (replica.log is not None)
                and replica.log.answered_under != partition.leader_epoch
                and replica.broker in index.required
            ):
                return Reason(
                    "ReplicaOnOldEpoch", refusals.comparably_promised.explain(replica, partition, rule, index)
                )
            if (
                (replica.log is not None)
                and (
                    ((replica.log.epochs is None) and (rule.candidate_order == "EpochFirst"))
                    or ((replica.log.epochs is None) and (rule.candidate_order == "LeastLoss"))
                )
                and replica.broker in index.required
            ):
                return Reason(
                    "EpochVectorUnreadable", refusals.comparably_ranked.explain(replica, partition, rule, index)
                )
    return None


def clean_return(partition: PartitionEvidence, rule: Rule, index: ClusterIndex, waited: timedelta) -> Reason | None:
    if (
        (
            not index.back.isdisjoint(partition.isr)
            or (partition.elr is not None and not index.back.isdisjoint(partition.elr))
        )
        and waited < rule.patience
        and not any(replica.leads for replica in partition.replicas)
    ):
        return Reason("ElectableBrokerReturning", refusals.clean_return.explain(partition, rule, index, waited))
    if (
        (len(partition.isr) == 0)
        and ((partition.elr is None) or ((len(partition.elr) if partition.elr is not None else None) == 0))
        and ((len(partition.last_known_elr) if partition.last_known_elr is not None else None) == 1)
        and (partition.last_known_elr is not None and not index.back.isdisjoint(partition.last_known_elr))
        and waited < rule.patience
        and not any(replica.leads for replica in partition.replicas)
    ):
        return Reason(
            "ElectableBrokerReturning", refusals.last_known_leader_return.explain(partition, rule, index, waited)
        )
    return None


def epoch_first(log: ReplicaLog, position: int, cost: Cost) -> tuple[float, ...]:
    return (
        (-math.inf if (last_epoch := log.last_epoch) is None else last_epoch),
        log.end,
        -log.almost_full,
        (-math.inf if (local_start := log.local_start) is None else -local_start),
        -position,
    )


def longest_log(log: ReplicaLog, position: int, cost: Cost) -> tuple[float, ...]:
    return (
        log.end,
        (-math.inf if (last_epoch := log.last_epoch) is None else last_epoch),
        -log.almost_full,
        (-math.inf if (local_start := log.local_start) is None else -local_start),
        -position,
    )


def least_loss(log: ReplicaLog, position: int, cost: Cost) -> tuple[float, ...]:
    return (
        -cost.loss_class,
        (-math.inf if (at_most := cost.at_most) is None else -at_most),
        (-math.inf if (last_epoch := log.last_epoch) is None else last_epoch),
        log.end,
        -log.almost_full,
        (-math.inf if (local_start := log.local_start) is None else -local_start),
        -position,
    )


MERITS = {
    CandidateOrder.EPOCH_FIRST: epoch_first,
    CandidateOrder.LONGEST_LOG: longest_log,
    CandidateOrder.LEAST_LOSS: least_loss,
}
