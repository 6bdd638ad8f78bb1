"""Ports that tell metrics how long they took; what they do is done by others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from kafka_recovery.domain.election import ElectionAnswer, ElectionRequest, Lead, Relay, Scope, Sighting
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, MetadataOffset, TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.kube.clusters.broker_pods import BrokerPods
from kafka_recovery.kube.clusters.pod_witness import PodWitness
from kafka_recovery.kube.machinery.metrics import Metrics, Step
from kafka_recovery.kube.watching.last_seen import LastSeen
from kafka_recovery.kube.watching.outages import Outage, with_begins
from kafka_recovery.recovery.ports import Cluster, Election


class MeasuredCluster:
    """Port `Cluster`: how long looking takes, how many replicas stayed silent, and what was seen of a log before.

    `seen_since`: when each outage was seen first. `pods`: where brokers run; None: nobody can know which Pods are
    theirs. `witness`: where their processes lived.
    """

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        label: str,
        last_seen: LastSeen,
        seen_since: Callable[[], Mapping[Outage, datetime]],
        pods: BrokerPods | None = None,
        witness: PodWitness | None = None,
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._label = label
        self._last_seen = last_seen
        self._seen_since = seen_since
        self._pods = pods
        self._witness = witness

    async def gather(
        self, scope: Scope, rules: EvidenceRules, known: Mapping[TopicPartition, PartitionEvidence] | None = None
    ) -> Evidence:
        """See the port."""
        await self._last_seen.ready()  # before, not after: evidence ages
        with self._metrics.timing(Step.GATHER):
            gathering = self._cluster.gather(scope, rules, known)
            evidence = await (self._pods.beside(gathering) if self._pods else gathering)
        if evidence.partitions:
            silent = sum(
                replica.log is None
                for partition in evidence.partitions
                if partition.leader is None
                for replica in partition.replicas
            )
            self._metrics.evidence_missing(self._label, silent)
        evidence = with_begins(self._last_seen.add_to(evidence), self._seen_since())
        return self._witness.add_to(evidence) if self._witness else evidence

    async def leaders(
        self, partitions: Sequence[TopicPartition], deadline: timedelta, not_before: MetadataOffset | None = None
    ) -> Mapping[TopicPartition, Sighting]:
        """See the port."""
        return await self._cluster.leaders(partitions, deadline, not_before)

    async def answering(
        self, candidates: Mapping[TopicPartition, BrokerId], deadline: timedelta
    ) -> Mapping[TopicPartition, Lead]:
        """See the port."""
        return await self._cluster.answering(candidates, deadline)

    async def relay_answers(self, relay: Relay, deadline: timedelta) -> bool:
        """See the port."""
        return await self._cluster.relay_answers(relay, deadline)


class MeasuredElection:
    """Port `Election`: how long elections take."""

    def __init__(self, election: Election, metrics: Metrics) -> None:
        self._election = election
        self._metrics = metrics

    async def designate(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        """See the port."""
        return await self._election.designate(requests)

    async def elect(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        """See the port."""
        with self._metrics.timing(Step.ELECT):
            return await self._election.elect(requests)

    async def restore(self, requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        """See the port."""
        return await self._election.restore(requests)


def tell_of(plan: Plan, metrics: Metrics, label: str) -> None:
    """Count by which guards replicas were rejected."""
    guards = Counter(rejection.reason.code for decision in plan.decisions for rejection in decision.rejections)
    for guard, replicas in guards.items():
        metrics.rejected(label, guard, replicas)
