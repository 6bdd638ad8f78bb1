"""The partitions of a recovery, frozen when it is taken up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.open_cluster import OpenCluster
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.kube.resources.kinds import PartitionRecovery
from kafka_recovery.kube.resources.objects import Key

LOOKING = Reason("ScanPending", "the cluster is being gone through for what is offline")


@dataclass(frozen=True, slots=True)
class _Look:
    """A scan for one recovery: another object of its name, or its cluster opened anew, want another one."""

    uid: str
    cluster: OpenCluster
    task: asyncio.Task[Sequence[TopicPartition]]


class Scopes:
    """What is offline takes a while to find out: it is looked up beside the reconciling, which is called when it is.

    `soon(key, after)`: have a key reconciled.
    """

    def __init__(self, soon: Callable[[Key, timedelta], None]) -> None:
        self._soon = soon
        self._looks: dict[Key, _Look] = {}

    async def of(
        self, key: Key, recovery: PartitionRecovery, cluster: OpenCluster, journal: RecordJournal
    ) -> Sequence[TopicPartition] | Reason:
        """Those named, else those of its plans, else what is offline under its rules; or why that can't be said.

        What has a plan is begun without asking anything else: its orders may be altered. Raises ClusterFault, and
        InvalidDocument for a damaged journal.
        """
        if recovery.scope.partitions is not None:
            return recovery.scope.partitions
        planned = {decision.id for plan in await journal.plans() for decision in plan.decisions}
        if planned:
            self.forget(key)
            return sorted(planned)
        if isinstance(cluster.policy, Reason):
            self.forget(key)
            return cluster.policy
        task = self._look(key, recovery.meta.uid, cluster, cluster.policy)
        if not task.done():
            return LOOKING
        del self._looks[key]
        return task.result()

    def _look(self, key: Key, uid: str, cluster: OpenCluster, policy: Policy) -> asyncio.Task[Sequence[TopicPartition]]:
        look = self._looks.get(key)
        if look is None or look.uid != uid or look.cluster is not cluster:
            self.forget(key)
            task = asyncio.create_task(cluster.offline_by(policy), name=f"scope of {'/'.join(key)}")
            task.add_done_callback(lambda _: self._soon(key, timedelta(0)))
            look = self._looks[key] = _Look(uid, cluster, task)
        return look.task

    def forget(self, key: Key) -> None:
        """The recovery is gone, or has its scope."""
        if look := self._looks.pop(key, None):
            look.task.cancel()

    async def stop(self) -> None:
        """The process ends."""
        tasks = [look.task for look in self._looks.values()]
        self._looks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
