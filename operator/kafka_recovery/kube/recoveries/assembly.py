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
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.recoveries.approvals import KubeApprovals
from kafka_recovery.kube.recoveries.hold_back import PodHold, named_by
from kafka_recovery.kube.recoveries.plan_history import PlanHistory
from kafka_recovery.kube.recoveries.progress import Progress
from kafka_recovery.kube.recoveries.ranked_leaders import RankedLeaders, who_named
from kafka_recovery.kube.recoveries.run import RecoveryRun
from kafka_recovery.kube.recoveries.status import OBSERVE_ONLY, ApprovedBy
from kafka_recovery.kube.recoveries.supervision import KubeSupervision
from kafka_recovery.kube.recoveries.told import Told
from kafka_recovery.kube.recoveries.void_attestations import kept_void
from kafka_recovery.kube.resources.admission import Admission
from kafka_recovery.kube.resources.house import KnownHouse
from kafka_recovery.kube.resources.kinds import PartitionRecovery
from kafka_recovery.kube.resources.objects import Key, Objects
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
    house: KnownHouse
    told: Told
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
        uid = recovery.meta.uid

        unasked = UnaskedTry(cluster.cool_down, uid)

        def electing(approved: bool) -> None:
            if not approved:
                unasked.begins_wave()
                self.clusters.soon(cluster.key)

        def tried(in_vain: bool) -> None:
            if unasked.over(in_vain):
                self.clusters.soon(cluster.key)

        pause = SHOWN_EVERY + SHOWN_EACH * len(scope)
        leaders: dict[TopicPartition, Ranked] = {}
        progress = Progress(lambda: self.soon(key, pause), electing, self.metrics, cluster.label)
        progress.tried = tried
        progress.history = PlanHistory.of(recovery.status)
        signs = SignsOfLife(kept_void(recovery.status), progress.changed)
        progress.void = lambda: signs.void
        supervision = KubeSupervision(
            self.objects,
            key,
            uid,
            recovery.cluster_name,
            self.house,
            cluster,
            begun=lambda: journal.begun,
            failed=progress.any_failed,
            named=who_named(recovery),
            refused=lambda: approvals.refused or cluster.only_restores or journal.never_shown,
            signs=signs,
            lease=self.clusters.places.lease,
        )
        admission = Admission(self.api)
        approvals = KubeApprovals(
            self.objects,
            key,
            uid,
            cluster.measured,
            supervision,
            progress,
            admission,
            attesting=lambda: admission.of_attestations(recovery.meta.created_at),
            answered=self.told.answer,
            designated=recovery.designated,
            ranked=leaders,
            history=lambda: cluster.history.problem,
            signs=signs,
        )

        ranked = RankedLeaders(self.api, recovery, scope, leaders, progress)

        def held_elsewhere() -> Mapping[TopicPartition, str]:
            holders = self.holders(cluster.key)
            others = {id: name for id in scope if (name := holders.get(id, key[1])) != key[1]}
            return {**others, **cluster.orphans}  # also what is claimed here: its order is not the original one

        hold = PodHold(
            self.api,
            key,
            uid,
            cluster.measured,
            broker_pods(self.api, cluster.spec),
            admission.of_pods,
            self.told.held_back,
            named_by(recovery.status),
            changed=lambda: self.soon(key, timedelta(0)),
        )
        supervision.caution = _only_observed(recovery.status)
        approval = recovery.status.get("approval")
        return RecoveryRun(
            engine=lambda: cluster.engine(journal, approvals, supervision, progress, Stages(hold=hold), signs),
            journal=journal,
            approvals=approvals,
            supervision=supervision,
            progress=progress,
            scope=scope,
            held_elsewhere=held_elsewhere,
            designated=recovery.designated,
            ranked=leaders,
            name_leaders=ranked.name_leaders,
            shown=recovery.status.get("plan", {}).get("digest"),
            approval=ApprovedBy(approval["name"], approval["uid"], approval["by"]) if approval else None,
            look_around=lambda: cluster.look_for_orphans(self.api),
            elected_before=lambda at: cluster.cool_down.elected_earlier(at, uid),
            hold=hold,
        )


def _only_observed(status: Mapping[str, Any]) -> Reason | None:
    """What an earlier process said, until the rules were read again."""
    ready: Mapping[str, Any] = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), {})
    return Reason(ready["reason"], ready["message"]) if ready.get("reason") == OBSERVE_ONLY else None
