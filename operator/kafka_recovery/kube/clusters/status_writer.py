"""What people are told of a WatchedCluster: its status, and an event and a line of the log where it takes a turn."""

from __future__ import annotations

import logging
from typing import Any

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters import status as cluster_status
from kafka_recovery.kube.clusters.held import WAITS
from kafka_recovery.kube.machinery.api import Api, Object
from kafka_recovery.kube.machinery.conditions import condition_of
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.machinery.logs import about
from kafka_recovery.kube.machinery.news import News
from kafka_recovery.kube.machinery.status_changes import write_status
from kafka_recovery.kube.machinery.work_queue import Requeue
from kafka_recovery.kube.resources.kinds import CLUSTERS

_LOG = logging.getLogger(__name__)

_WELL = {
    "Ready": "True",
    "KafkaHealthy": "True",
    "ViewTrusted": "True",
    "HistoryKnown": "True",
    cluster_status.ALTERED: "False",
}
"""Of orders that are altered the recovery tells; here only that a deletion waits for them."""


class ClusterStatusWriter:
    """A status that another wrote meanwhile raises Requeue."""

    def __init__(self, api: Api, events: Events) -> None:
        self._api = api
        self._events = events
        self._news = News()

    async def claim(self, raw: Object, status: dict[str, Any]) -> Object:
        """Write into an object that it is watched, before it is; returns it as it is now."""
        meta = raw["metadata"]
        now = await write_status(self._api, CLUSTERS.path(meta["namespace"], meta["name"]), raw, status)
        if now is None:
            raise Requeue
        return now

    async def left(self, raw: Object, why: Reason) -> None:
        """That another operator watches it: said beside the object, whose status is that one's."""
        with about(cluster=f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"):
            _LOG.warning("%s", why)
        await self._events.say(raw, "Warning", why.code, "Watch", why.message)

    async def write(self, raw: Object, status: dict[str, Any]) -> None:
        """Make this the status of an object."""
        meta = raw["metadata"]
        if await write_status(self._api, CLUSTERS.path(meta["namespace"], meta["name"]), raw, status) is None:
            return
        for kind in _WELL:
            before = condition_of(raw.get("status"), kind)
            after = condition_of(status, kind)
            known = after.get("status") != "Unknown" and (kind != cluster_status.ALTERED or after["reason"] == WAITS)
            if after and known and self._news.is_told(meta["uid"], before, after):
                warn = after["status"] != _WELL[kind]
                with about(cluster=f"{meta['namespace']}/{meta['name']}"):
                    _LOG.log(logging.WARNING if warn else logging.INFO, "%s: %s", after["reason"], after["message"])
                await self._events.say(raw, "Warning" if warn else "Normal", after["reason"], "Watch", after["message"])


def is_of(raw: Object, cluster_id: str) -> bool:
    """Whether a WatchedCluster's status tells of this Kafka; of one that was never seen, it tells of no other."""
    status = raw.get("status", {})
    return bool(status) and status.get("clusterId", cluster_id) == cluster_id
