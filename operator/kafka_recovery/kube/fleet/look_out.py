"""FleetRankings found and worked on.

They are listed now and then instead of watched. A run takes minutes, so nobody misses the seconds; and where their
definition or our right to them is missing, they are just not looked after, which is said once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from http import HTTPStatus

from kafka_recovery.kube.fleet.prefixes import NONE, Prefixes
from kafka_recovery.kube.fleet.rankings import Rankings
from kafka_recovery.kube.fleet.results import StoredResults
from kafka_recovery.kube.machinery.api import Api, ApiError, NotServed, Object
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.machinery.work_queue import WorkQueue
from kafka_recovery.kube.resources.kinds import RANKINGS
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.resources.watched_by import Places

_LOG = logging.getLogger(__name__)

EVERY = timedelta(seconds=10)
"""Between two lists."""

RARELY = 6
"""So many times as long where none of the namespaces could be listed: most operators have no fleet to look after."""

WORKERS = 2


class LookOut:
    """`namespaces` empty: all of them. It belongs to one event loop."""

    def __init__(
        self,
        api: Api,
        events: Events,
        metrics: Metrics,
        namespaces: Sequence[str],
        prefixes: Prefixes = NONE,
        every: timedelta = EVERY,
        places: Places | None = None,
    ) -> None:
        self._api = api
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self._every = every
        self._rankings = Rankings(api, events, metrics, StoredResults(prefixes), prefixes, places=places)
        self._queue = WorkQueue(self._rankings.reconcile, workers=WORKERS, owner=lambda key: key[0], expected=_cause)
        self._stamps: dict[Key, tuple[object, ...]] = {}
        self._troubles: dict[str | None, str] = {}

    async def run(self) -> None:
        """Until it is stopped."""
        await asyncio.gather(self._queue.run(), self._look_out())

    async def stop(self, grace: timedelta) -> list[Key]:
        """Begin nothing more; returns what could not be brought to an end within the grace."""
        return await self._queue.stop(grace)

    def tell(self, metrics: Metrics) -> None:
        """How much there is to do now."""
        metrics.queued("rankings", self._queue.depth, self._queue.longest_look)

    async def _look_out(self) -> None:
        while True:
            for namespace in self._namespaces:
                try:
                    await self._look_into(namespace)
                    self._tell(namespace, "")
                except ApiError as error:
                    self._tell(namespace, _trouble(error))
                except Exception:  # noqa: BLE001 - a defect in one list must not end the process
                    _LOG.exception("listing FleetRankings met an internal error")
            in_vain = all(self._troubles.values())
            await asyncio.sleep((self._every * (RARELY if in_vain else 1)).total_seconds())

    async def _look_into(self, namespace: str | None) -> None:
        """Add each that changed since the last list, but for what we wrote ourselves."""
        found = dict(await self._api.list_kept(RANKINGS.path(namespace), lambda each: (_key(each), _stamp(each))))
        for key in [key for key in self._stamps if namespace in (None, key[0]) and key not in found]:
            del self._stamps[key]
            self._queue.forget(key)
            self._rankings.forget(key)
        for key, stamp in found.items():
            if self._stamps.get(key) != stamp:
                self._stamps[key] = stamp
                self._queue.add(key)

    def _tell(self, namespace: str | None, trouble: str) -> None:
        before, self._troubles[namespace] = self._troubles.get(namespace, ""), trouble
        where = f"namespace {namespace}" if namespace else "all namespaces"
        if trouble and trouble != before:
            _LOG.info("FleetRankings of %s are not looked after: %s", where, trouble)
        elif before and not trouble:
            _LOG.info("FleetRankings of %s are looked after", where)


def _key(each: Object) -> Key:
    return each["metadata"]["namespace"], each["metadata"]["name"]


def _stamp(each: Object) -> tuple[object, ...]:
    meta = each["metadata"]
    return meta["uid"], meta.get("generation"), meta.get("deletionTimestamp")


def _trouble(error: ApiError) -> str:
    if isinstance(error, NotServed):
        return "their definition is not there (crds/fleetrankings.yaml)"
    if error.status == HTTPStatus.FORBIDDEN:
        return f"the fleet operator lacks a right (manifests/rbac/optional/fleet.yaml): {error.message}"
    return f"{error.status} {error.reason}"


def _cause(error: Exception) -> str | None:
    return f"{error.status} {error.reason}" if isinstance(error, ApiError) else None
