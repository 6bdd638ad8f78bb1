"""Recoveries that wait to be told of a change: while nothing changes, of each only its version is read."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import NamedTuple

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.clusters import Clusters
from kafka_recovery.kube.clusters.open_cluster import OpenCluster
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.recoveries.pauses import presence_pause
from kafka_recovery.kube.resources.objects import Key, Objects


class _Told(NamedTuple):
    version: str
    cluster: Key
    known: OpenCluster | Reason
    """What was known of the cluster before the recovery was looked at."""


class Unchanged:
    """By key. Somebody may have thousands of them, each as large as is allowed, of a cluster that is not there."""

    def __init__(self, objects: Objects, clusters: Clusters) -> None:
        self._objects = objects
        self._clusters = clusters
        self._told: dict[Key, _Told | None] = {}
        """None: it is being looked at, and nobody has told of a change since that began."""
        self._known = Counter[str]()
        """How many of each namespace."""

    def remember(self, key: Key, raw: Object, cluster: Key, known: OpenCluster | Reason) -> None:
        """All was told of this one, as it was read; unless somebody told of a change during the look."""
        if key in self._told:
            self._told[key] = _Told(raw["metadata"]["resourceVersion"], cluster, known)

    def forget(self, key: Key) -> None:
        """It wants a whole look the next time."""
        if key not in self._told:
            return
        del self._told[key]
        self._known[key[0]] -= 1

    def pause(self, key: Key) -> timedelta:
        """Until its version is read again, while nobody tells of a change."""
        return presence_pause(self._known[key[0]])

    async def holds(self, key: Key) -> bool:
        """Whether all was told of it, and neither it nor its cluster is another one since. Raises NotFound.

        If not, it is looked at now: what changes from here on wants another look.
        """
        told = self._told.get(key)
        if told is not None:
            version = await self._objects.version_of(key)
            if version == told.version and self._clusters.get(told.cluster) == told.known:
                return True
        if key not in self._told:
            self._known[key[0]] += 1
        self._told[key] = None
        return False
