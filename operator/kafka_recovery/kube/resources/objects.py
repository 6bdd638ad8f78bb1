"""Our resources, read fresh and checked: what an operator acts on is never older than the question."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from kafka_recovery.kube.machinery.api import Api
from kafka_recovery.kube.machinery.shared import SharedReads
from kafka_recovery.kube.resources.kinds import (
    APPROVALS,
    CLUSTERS,
    POLICIES,
    RECOVERIES,
    PartitionRecovery,
    RecoveryApproval,
    RecoveryPolicy,
    UnreadableApproval,
    WatchedCluster,
    heard,
    read_cluster,
    read_policy,
    read_recovery,
)

Key = tuple[str, str]
"""Namespace and name."""


SOON = timedelta(seconds=5)
"""An answer that takes longer is none: between two waves nobody waits for the API server."""


class Objects:
    """Reads raise NotFound, other ApiErrors, and InvalidDocument for what a newer or older schema let through."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def cluster(self, key: Key) -> WatchedCluster:
        """A cluster that somebody wants watched."""
        return read_cluster(await self.api.get(CLUSTERS.path(*key), deadline=SOON))

    async def policy(self, key: Key) -> RecoveryPolicy:
        """Rules from Git."""
        return read_policy(await self.api.get(POLICIES.path(*key), deadline=SOON))

    async def recovery(self, key: Key) -> PartitionRecovery:
        """An incident."""
        return read_recovery(await self.raw_recovery(key))

    async def raw_recovery(self, key: Key) -> dict[str, Any]:
        """An incident as the API server has it, for its status and resource version."""
        return await self.api.get(RECOVERIES.path(*key), deadline=SOON)

    async def version_of(self, recovery: Key) -> str:
        """Of an incident the resource version alone, which every change changes. Raises NotFound."""
        return str((await self.api.metadata(RECOVERIES.path(*recovery), deadline=SOON))["resourceVersion"])

    async def approvals(self, recovery: Key) -> Sequence[RecoveryApproval | UnreadableApproval]:
        """What people said about a recovery of that name, oldest first."""
        namespace, name = recovery
        found = await self.api.list_all(
            APPROVALS.path(namespace), params={"fieldSelector": f"spec.recoveryRef.name={name}"}
        )
        return sorted(map(heard, found), key=lambda each: (each.meta.created_at, each.meta.name))


class SharedObjects(Objects):
    """The same for many: what they have in common is read once for all that ask for it at the same time."""

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._clusters = SharedReads(super().cluster)
        self._policies = SharedReads(super().policy)

    async def cluster(self, key: Key) -> WatchedCluster:
        """See `Objects`."""
        return await self._clusters(key)

    async def policy(self, key: Key) -> RecoveryPolicy:
        """See `Objects`."""
        return await self._policies(key)
