"""The partitions of a recovery, frozen when it is taken up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.config_map_journal import ConfigMapJournal
from kafka_recovery.kube.objects import Key
from kafka_recovery.kube.open_cluster import OpenCluster
from kafka_recovery.kube.resources import PartitionRecovery

LOOKING = Reason("Looking", "the cluster is being gone through for what is offline")


class Scopes:
    """What is offline takes a while to find out: it is looked up beside the reconciling, which is called when it is.

    `soon(key, after)`: have a key reconciled.
    """

    def __init__(self, soon: Callable[[Key, timedelta], None]) -> None:
        self._soon = soon
        self._looks: dict[Key, asyncio.Task[Sequence[TopicPartition]]] = {}

    async def of(
        self, key: Key, recovery: PartitionRecovery, cluster: OpenCluster, journal: ConfigMapJournal
    ) -> Sequence[TopicPartition] | Reason:
        """Those named, else those of its plans and what is offline under its rules; or why that can't be said.

        Raises ClusterFault, and InvalidDocument for a damaged journal.
        """
        if recovery.scope.partitions is not None:
            return recovery.scope.partitions
        if isinstance(cluster.policy, Reason):
            return cluster.policy
        planned = {decision.id for plan in await journal.plans() for decision in plan.decisions}
        look = self._looks.get(key)
        if look is None:
            look = self._looks[key] = asyncio.create_task(cluster.offline_by_rules(), name=f"scope of {'/'.join(key)}")
            look.add_done_callback(lambda _: self._soon(key, timedelta(0)))
        if not look.done():
            return LOOKING
        del self._looks[key]
        return sorted(planned.union(look.result()))

    def forget(self, key: Key) -> None:
        """The recovery is gone."""
        if look := self._looks.pop(key, None):
            look.cancel()

    async def stop(self) -> None:
        """The process ends."""
        looks, self._looks = list(self._looks.values()), {}
        for look in looks:
            look.cancel()
        await asyncio.gather(*looks, return_exceptions=True)
