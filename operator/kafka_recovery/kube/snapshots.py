"""Evidence of every watched cluster, time after time, as files that a fleet's ranking reads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TypeVar

from kafka_recovery.cluster.snapshot import snapshot
from kafka_recovery.domain.documents import InvalidDocument
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.policy import EvidenceRules, Policy
from kafka_recovery.domain.reason import ClusterFault
from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.kept_ends import kept_ends
from kafka_recovery.fleet.storage import StorageUnavailable
from kafka_recovery.kube.clusters import Clusters
from kafka_recovery.kube.last_seen import LONG_PATIENCE, LastSeen
from kafka_recovery.kube.logs import about
from kafka_recovery.kube.metrics import Metrics
from kafka_recovery.kube.open_cluster import OpenCluster

_LOG = logging.getLogger(__name__)

LOOK = timedelta(seconds=10)
"""How often it is looked whose turn it is."""

PAGE = timedelta(seconds=10)
"""How long a broker may take to list some thousand partitions."""

T = TypeVar("T")

_TROUBLE = (ClusterFault, StorageUnavailable, InvalidDocument)


@dataclass(frozen=True, slots=True)
class Export:
    """Where snapshots go, how often one is taken of each cluster, and how long they are kept; None: for ever."""

    archive: Archive
    every: timedelta
    keep: timedelta | None
    _threads: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, 2, "snapshots"))

    async def apart(self, work: Callable[[], T]) -> T:
        """Do it in threads of our own: a storage that hangs holds up nothing else."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def last_seen(self, cluster_id: str) -> LastSeen:
        """What was seen of a cluster until now, from what is kept of it."""
        seen = LastSeen(lambda: self.apart(partial(kept_ends, self.archive, cluster_id)))
        seen.begin()
        return seen


class Snapshots:
    """Takes them one cluster after the other: nobody waits for them, and each costs some CPU."""

    def __init__(self, clusters: Clusters, metrics: Metrics, export: Export) -> None:
        self._clusters = clusters
        self._metrics = metrics
        self._export = export
        self._tried: dict[str, datetime] = {}

    async def run(self) -> None:
        """For ever; a failure is told, and tried again when it is that cluster's turn."""
        while True:
            for cluster in self._clusters.open():
                if self._is_due(cluster):
                    self._tried[cluster.spec.cluster_id] = datetime.now(UTC)
                    with about(cluster=cluster.label):
                        await self._try(cluster)
            await asyncio.sleep(LOOK.total_seconds())

    def _is_due(self, cluster: OpenCluster) -> bool:
        """Not while the operator's own look can't be trusted: files would say for good what was not so."""
        last = self._tried.get(cluster.spec.cluster_id)
        return cluster.reachable() and (last is None or datetime.now(UTC) - last >= self._export.every)

    async def _try(self, cluster: OpenCluster) -> None:
        try:
            evidence = await self._look(cluster)
            name = await self._export.apart(partial(self._keep, evidence))
        except _TROUBLE as trouble:
            self._metrics.snapshot_failed(cluster.label)
            _LOG.warning("no snapshot was kept: %s", trouble)
        except Exception:  # noqa: BLE001 - a defect in taking snapshots must not end the process
            self._metrics.snapshot_failed(cluster.label)
            _LOG.exception("taking a snapshot met an error of our own")
        else:
            self._metrics.snapshot_kept(cluster.label, evidence.cluster.observed_at)
            _LOG.info("a snapshot of %d partitions is kept: %s", len(evidence.partitions), name)

    async def _look(self, cluster: OpenCluster) -> Evidence:
        policy = cluster.policy
        rules = policy.widest_evidence_rules if isinstance(policy, Policy) else EvidenceRules()
        await cluster.last_seen.ready(LONG_PATIENCE)
        seen = await snapshot(cluster.kafka.gather, await cluster.kafka.every_partition(PAGE), rules)
        cluster.last_seen.learn(seen)
        return cluster.last_seen.add_to(seen)

    def _keep(self, evidence: Evidence) -> str:
        """Only what is there may push out what is older."""
        archive, keep = self._export.archive, self._export.keep
        written = archive.write(evidence)
        if keep is not None:
            archive.expire(written.cluster_id, evidence.cluster.observed_at - keep)
        return archive.name(written)
