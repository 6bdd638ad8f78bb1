"""When a plan that waits was last seen to hold, and what is compared with it when it is looked at again."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from kafka_recovery.decision.attesting import ANSWERS
from kafka_recovery.domain.attestation import Attestation
from kafka_recovery.domain.evidence import Evidence, PartitionEvidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.kube.recoveries.progress import evidence_lasts
from kafka_recovery.recovery.ports import Clock
from kafka_recovery.recovery.supervision import Permission

_Said = tuple[tuple[Attestation, bool], ...]
"""What people attest, and of each whether it never counts again."""


class Look:
    """The last look at which a plan held, under which rules, and held against what attestations.

    `good_until` (monotonic): as long as the evidence may be old. `expires_at`: without another good look by then the
    plan is void. `without_history`: the metadata log could not be read for it.
    """

    def __init__(self, plan: Plan, clock: Clock) -> None:
        """At first that is the look the plan was made of: it may have been long ago, in an earlier process."""
        self._lasts = evidence_lasts(plan)
        self._by = plan.policy, _said(plan.evidence.cluster.attestations)
        self.without_history = plan.evidence.cluster.history_problem is not None
        looked_at = plan.evidence.cluster.observed_at
        age = clock.now() - looked_at
        # A look from the future tells that a clock was set, not how old it is.
        left = max(timedelta(0), self._lasts - age) if age >= timedelta(0) else timedelta(0)
        self.good_until = clock.monotonic() + left
        self.expires_at = clock.now() + left + self._lasts

    def is_by(self, now: Permission) -> bool:
        """Whether the rules, and what people attest, are the same now."""
        return self._by == _by(now)

    def is_over(self, clock: Clock) -> None:
        """What it saw is not enough: look again before the plan is taken to hold."""
        self.good_until = min(self.good_until, clock.monotonic())

    def was_good(self, clock: Clock, now: Permission) -> None:
        """The plan was found to hold just now."""
        self._by = _by(now)
        self.without_history = False
        self.good_until = clock.monotonic() + self._lasts
        self.expires_at = clock.now() + 2 * self._lasts


def _by(now: Permission) -> tuple[Policy, _Said]:
    return now.policy, _said(now.attestations or ())


def _said(attestations: Iterable[Attestation]) -> _Said:
    return tuple((replace(each, void=None), bool(each.void and each.void.code == ANSWERS)) for each in attestations)


def as_before(evidence: Evidence, plan: Plan, done: Collection[TopicPartition]) -> Evidence:
    """What is seen now, but what is done as it was planned: which of several equals leads depends on the others.

    Of a broker that does not tell of its disks this time, what it told for the plan: one lost answer voids no plan.
    """
    planned = (partition for partition in plan.evidence.partitions if partition.id in done)
    others = (partition for partition in evidence.partitions if partition.id not in done)
    at = evidence.cluster.observed_at
    told = {its.broker: its for its in plan.evidence.cluster.log_directories}
    disks = (told.get(its.broker) if its.problem else its for its in evidence.cluster.log_directories)
    cluster = replace(evidence.cluster, log_directories=tuple(its for its in disks if its))
    return replace(evidence, cluster=cluster, partitions=(*(_measured(each, at) for each in planned), *others))


def _measured(partition: PartitionEvidence, at: datetime) -> PartitionEvidence:
    """The same logs, measured at another moment: else they would be refused for their age."""
    logs = ((replica, replica.log) for replica in partition.replicas)
    replicas = tuple(replace(replica, log=log and replace(log, observed_at=at)) for replica, log in logs)
    return replace(partition, replicas=replicas)
