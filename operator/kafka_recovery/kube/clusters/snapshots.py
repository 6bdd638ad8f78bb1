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
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.policy import EvidenceRules, Policy
from kafka_recovery.domain.reason import ClusterFault
from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.kept_ends import kept_ends
from kafka_recovery.fleet.storage import StorageUnavailable
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.clusters.clusters import Clusters
from kafka_recovery.kube.clusters.open_cluster import OpenCluster
from kafka_recovery.kube.machinery.logs import about
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.watching.last_seen import LONG_PATIENCE, LastSeen

_LOG = logging.getLogger(__name__)

LOOK = timedelta(seconds=10)
"""How often it is looked whose turn it is."""

AGAIN = timedelta(minutes=10)
"""After a failure it is tried again so soon, unless its turn comes earlier anyway."""

ANSWER = timedelta(minutes=2)
"""What a storage may take to keep a file."""

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


@dataclass(slots=True)
class _Turn:
    """When a cluster is looked at next, on the loop's clock, which nobody sets; for people since when a file is due."""

    at: float
    due: datetime

    def comes_again(self, every: timedelta, *, kept: bool) -> None:
        """A file that was not kept stays due."""
        self.at = _now() + (every if kept else min(every, AGAIN)).total_seconds()
        if kept:
            self.due = datetime.now(UTC) + every


class Snapshots:
    """Takes them one cluster after the other: nobody waits for them, and each costs some CPU."""

    def __init__(self, clusters: Clusters, metrics: Metrics, export: Export) -> None:
        self._clusters = clusters
        self._metrics = metrics
        self._export = export
        self._turns: dict[str, _Turn] = {}

    async def run(self) -> None:
        """For ever; a failure is told, and tried again."""
        while True:
            clusters = self._clusters.open()
            watched = {cluster.spec.cluster_id for cluster in clusters}
            self._turns = {id: turn for id, turn in self._turns.items() if id in watched}
            for cluster in clusters:
                turn = self._turns.setdefault(cluster.spec.cluster_id, _Turn(_now(), datetime.now(UTC)))
                # Not while our own look can't be trusted: files would say for good what was not so.
                if cluster.reachable() and _now() >= turn.at:
                    with about(cluster=cluster.label):
                        turn.comes_again(self._export.every, kept=await self._try(cluster))
                self._metrics.snapshot_due(cluster.label, turn.due)
            await asyncio.sleep(LOOK.total_seconds())

    async def _try(self, cluster: OpenCluster) -> bool:
        """Whether one is kept."""
        try:
            evidence = await self._look(cluster)
            name = await self._kept(evidence)
        except _TROUBLE as trouble:
            self._metrics.snapshot_failed(cluster.label)
            _LOG.warning("no snapshot was kept: %s", trouble)
        except Exception:  # noqa: BLE001 - a defect in taking snapshots must not end the process
            self._metrics.snapshot_failed(cluster.label)
            _LOG.exception("taking a snapshot met an internal error")
        else:
            self._metrics.snapshot_kept(cluster.label, evidence.cluster.observed_at)
            _LOG.info("a snapshot of %d partitions is kept: %s", len(evidence.partitions), name)
            return True
        return False

    async def _look(self, cluster: OpenCluster) -> Evidence:
        policy = cluster.policy
        rules = policy.widest_evidence_rules if isinstance(policy, Policy) else EvidenceRules()
        await cluster.last_seen.ready(LONG_PATIENCE)
        seen = await snapshot(cluster.kafka.gather, await cluster.kafka.every_partition(PAGE), rules)
        cluster.last_seen.learn(seen)
        return cluster.last_seen.add_to(seen)

    async def _kept(self, evidence: Evidence) -> str:
        try:
            async with asyncio.timeout(ANSWER.total_seconds()):
                return await self._export.apart(partial(self._keep, evidence))
        except TimeoutError:
            silence = f"the storage did not answer within {ANSWER.total_seconds():.0f} s"
            raise StorageUnavailable(silence) from None

    def _keep(self, evidence: Evidence) -> str:
        """Only what is there may push out what is older."""
        archive, keep = self._export.archive, self._export.keep
        written = archive.write(evidence)
        if keep is not None:
            archive.expire(written.cluster_id, evidence.cluster.observed_at - keep)
        return archive.name(written)


def _now() -> float:
    return asyncio.get_running_loop().time()
