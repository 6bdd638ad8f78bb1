"""Ports that tell metrics how long they took; what they do is done by others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta

from kafka_recovery.domain.election import Lead, Leadership, Scope
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.kube.machinery.metrics import Metrics, Step
from kafka_recovery.kube.watching.last_seen import LastSeen
from kafka_recovery.recovery.ports import Cluster


class MeasuredCluster:
    """Port `Cluster`: how long looking takes, how many replicas stayed silent, and what was seen of a log before."""

    def __init__(self, cluster: Cluster, metrics: Metrics, label: str, last_seen: LastSeen) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._label = label
        self._last_seen = last_seen

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        """See the port."""
        await self._last_seen.ready()  # before, not after: evidence ages
        with self._metrics.timing(Step.GATHER):
            evidence = await self._cluster.gather(scope, rules, known)
        if evidence.partitions:
            silent = sum(
                replica.log is None
                for partition in evidence.partitions
                if partition.leader is None
                for replica in partition.replicas
            )
            self._metrics.evidence_missing(self._label, silent)
        return self._last_seen.add_to(evidence)

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta
    ) -> Mapping[TopicPartition, Leadership]:
        """See the port."""
        return await self._cluster.leaders(partitions, deadline)

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """See the port."""
        return await self._cluster.answering(candidates, deadline)


def tell_of(plan: Plan, metrics: Metrics, label: str) -> None:
    """Count by which guards replicas were rejected."""
    guards = Counter(rejection.reason.code for decision in plan.decisions for rejection in decision.rejections)
    for guard, replicas in guards.items():
        metrics.rejected(label, guard, replicas)
