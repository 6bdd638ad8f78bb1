"""A run, put together from what all recoveries of an operator share, and what is its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kafka_recovery.domain.election import Ranked
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.broker_pods import broker_pods
from kafka_recovery.kube.clusters.clusters import Clusters
from kafka_recovery.kube.clusters.cool_down import UnaskedTry
from kafka_recovery.kube.clusters.open_cluster import OpenCluster
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.machinery.api import Api
from kafka_recovery.kube.machinery.conditions import condition_of
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.recoveries.approvals import KubeApprovals
from kafka_recovery.kube.recoveries.hold_back import PodHold, named_by
from kafka_recovery.kube.recoveries.plan_history import PlanHistory
from kafka_recovery.kube.recoveries.progress import Progress
from kafka_recovery.kube.recoveries.ranked_leaders import RankedLeaders, who_named
from kafka_recovery.kube.recoveries.run import RecoveryRun
from kafka_recovery.kube.recoveries.status import OBSERVE_ONLY, ApprovedBy
from kafka_recovery.kube.recoveries.status_writer import StatusWriter
from kafka_recovery.kube.recoveries.supervision import KubeSupervision
from kafka_recovery.kube.recoveries.void_attestations import kept_void
from kafka_recovery.kube.resources.admission import Admission
from kafka_recovery.kube.resources.kinds import PartitionRecovery
from kafka_recovery.kube.resources.objects import Key, Objects
from kafka_recovery.kube.resources.operator_switch import KnownSwitch
from kafka_recovery.recovery.execution import Stages
from kafka_recovery.recovery.signs_of_life import SignsOfLife

SHOWN_EVERY = timedelta(milliseconds=200)
SHOWN_EACH = timedelta(microseconds=100)
"""Progress is written so long after it was made, plus so much for each partition: a status with all in it is work for
the API server."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """`holders`: partitions of a cluster, and the open recoveries that have them; `soon`: have a status written."""

    api: Api
    clusters: Clusters
    metrics: Metrics
    switch: KnownSwitch
    told: StatusWriter
    objects: Objects
    holders: Callable[[Key], Mapping[TopicPartition, str]]
    soon: Callable[[Key, timedelta], None]

    def run(
        self,
        key: Key,
        recovery: PartitionRecovery,
        cluster: OpenCluster,
        journal: RecordJournal,
        scope: Sequence[TopicPartition],
    ) -> RecoveryRun:
        """A run that was not started yet."""
        return _Parts(self, key, recovery, cluster, journal, scope).run()


class _Parts:
    """What one run is made of, in the order in which it is made: each part knows those before it."""

    def __init__(
        self,
        shared: Assembly,
        key: Key,
        recovery: PartitionRecovery,
        cluster: OpenCluster,
        journal: RecordJournal,
        scope: Sequence[TopicPartition],
    ) -> None:
        self._shared, self._key, self._recovery, self._scope = shared, key, recovery, scope
        self._cluster, self._journal = cluster, journal
        self._leaders: dict[TopicPartition, Ranked] = {}
        self._admission = Admission(shared.api)
        self._progress = self._new_progress()
        self._signs = SignsOfLife(kept_void(recovery.status), self._progress.changed)
        self._progress.void = lambda: self._signs.void
        self._supervision = self._new_supervision()
        self._approvals = self._new_approvals()
        self._hold = self._new_hold()

    def run(self) -> RecoveryRun:
        """All of it together."""
        status, cluster, journal = self._recovery.status, self._cluster, self._journal
        ranked = RankedLeaders(self._shared.api, self._recovery, self._scope, self._leaders, self._progress)
        approval = status.get("approval")
        return RecoveryRun(
            engine=lambda: cluster.engine(
                journal, self._approvals, self._supervision, self._progress, Stages(hold=self._hold), self._signs
            ),
            journal=journal,
            approvals=self._approvals,
            supervision=self._supervision,
            progress=self._progress,
            scope=self._scope,
            held_elsewhere=self._held_elsewhere,
            designated=self._recovery.designated,
            ranked=self._leaders,
            name_leaders=ranked.name_leaders,
            shown=status.get("plan", {}).get("digest"),
            approval=ApprovedBy(approval["name"], approval["uid"], approval["by"]) if approval else None,
            look_around=lambda: cluster.look_for_orphans(self._shared.api),
            elected_before=lambda at: cluster.cool_down.elected_earlier(at, self._recovery.meta.uid),
            hold=self._hold,
        )

    def _new_progress(self) -> Progress:
        shared, cluster = self._shared, self._cluster
        unasked = UnaskedTry(cluster.cool_down, self._recovery.meta.uid)

        def electing(approved: bool) -> None:
            if not approved:
                unasked.begins_wave()
                shared.clusters.soon(cluster.key)

        def tried(in_vain: bool) -> None:
            if unasked.over(in_vain):
                shared.clusters.soon(cluster.key)

        pause = SHOWN_EVERY + SHOWN_EACH * len(self._scope)
        progress = Progress(lambda: shared.soon(self._key, pause), electing, shared.metrics, cluster.label)
        progress.tried = tried
        progress.history = PlanHistory.of(self._recovery.status)
        return progress

    def _new_supervision(self) -> KubeSupervision:
        recovery, cluster, journal = self._recovery, self._cluster, self._journal
        supervision = KubeSupervision(
            self._shared.objects,
            self._key,
            recovery.meta.uid,
            recovery.cluster_name,
            self._shared.switch,
            cluster,
            begun=lambda: journal.begun,
            failed=self._progress.any_failed,
            named=who_named(recovery),
            refused=lambda: self._approvals.refused or cluster.only_restores or journal.never_shown,
            signs=self._signs,
            lease=self._shared.clusters.places.lease,
        )
        supervision.caution = _only_observed(recovery.status)
        return supervision

    def _new_approvals(self) -> KubeApprovals:
        recovery = self._recovery
        return KubeApprovals(
            self._shared.objects,
            self._key,
            recovery.meta.uid,
            self._cluster.measured,
            self._supervision,
            self._progress,
            self._admission,
            attesting=lambda: self._admission.of_attestations(recovery.meta.created_at),
            answered=self._shared.told.answer,
            designated=recovery.designated,
            ranked=self._leaders,
            history=lambda: self._cluster.history.problem,
            signs=self._signs,
        )

    def _new_hold(self) -> PodHold:
        shared, cluster = self._shared, self._cluster
        return PodHold(
            shared.api,
            self._key,
            self._recovery.meta.uid,
            cluster.measured,
            broker_pods(shared.api, cluster.spec),
            self._admission.of_pods,
            shared.told.held_back,
            shared.told.pods_again.let_go,
            named_by(self._recovery.status),
            changed=lambda: shared.soon(self._key, timedelta(0)),
        )

    def _held_elsewhere(self) -> Mapping[TopicPartition, str]:
        holders, own = self._shared.holders(self._cluster.key), self._key[1]
        others = {id: name for id in self._scope if (name := holders.get(id, own)) != own}
        return {**others, **self._cluster.orphans}  # also what is claimed here: its order is not the original one


def _only_observed(status: Mapping[str, Any]) -> Reason | None:
    """What an earlier process said, until the rules were read again."""
    ready = condition_of(status, "Ready")
    return Reason(ready["reason"], ready["message"]) if ready.get("reason") == OBSERVE_ONLY else None
