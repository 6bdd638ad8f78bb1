"""The operator's process: kopf lists and watches, our work queues reconcile, one Lease says who acts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import kopf

from kafka_recovery.kube.api import Api, ServiceAccountToken
from kafka_recovery.kube.clusters import Clusters
from kafka_recovery.kube.events import Events
from kafka_recovery.kube.housekeeping import Housekeeping
from kafka_recovery.kube.metrics import Metrics
from kafka_recovery.kube.objects import Key
from kafka_recovery.kube.policies import Policies
from kafka_recovery.kube.recoveries import Recoveries
from kafka_recovery.kube.resources import APPROVALS, CLUSTERS, GROUP, POLICIES, RECOVERIES, VERSION, Kind
from kafka_recovery.kube.supervision import read_house
from kafka_recovery.kube.watcher import Pace
from kafka_recovery.kube.work_queue import WorkQueue
from kafka_recovery.recovery.supervision import Authority

_LOG = logging.getLogger(__name__)
_KEPT_ALIVE = 45.0
"""Seconds for which an idle connection is kept: longer than from one resync to the next, so that an incident finds some
open, and shorter than API servers (90 s) and what stands before them keep theirs."""
_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator is started with. `namespaces` empty: all of them (needs a ClusterRole).

    `authority`: what no cluster and no rule exceeds. `house`: namespace and name of the ConfigMap whose key `suspend`
    stops everything. `connections`: to the API server, for kopf and us together.
    """

    namespaces: tuple[str, ...]
    house: Key
    authority: Authority = Authority.OBSERVE
    probe: timedelta = timedelta(milliseconds=250)
    rescan: timedelta = timedelta(seconds=30)
    connections: int = 16
    workers: int = 8
    liveness: str | None = None


class Operator:
    """Everything of one process, wired. `fence`: does not return once the Lease may be another's."""

    def __init__(self, settings: Settings, metrics: Metrics, fence: Callable[[], None]) -> None:
        self._settings = settings
        self._metrics = metrics
        self._fence = fence
        self._beat = time.monotonic()
        self._stamps: dict[tuple[Kind, Key], tuple[object, ...]] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self.clean = False
        """Whether nothing of ours was still at work when the process ended, so that the Lease may be given back."""
        self.registry = kopf.OperatorRegistry()
        self._register()

    def run(self) -> None:
        """Until a signal ends it."""
        settings = self._settings
        kopf.run(
            standalone=True,
            registry=self.registry,
            namespaces=settings.namespaces,
            clusterwide=not settings.namespaces,
            liveness_endpoint=settings.liveness,
        )

    def _register(self) -> None:
        on, registry = kopf.on, self.registry
        on.login(registry=registry)(self._login)
        on.startup(registry=registry)(self._start)
        on.cleanup(registry=registry)(self._stop)
        on.probe(id="loop_age_s", registry=registry)(self._loop_age)
        for kind, seen in (
            (CLUSTERS, self._cluster_seen),
            (POLICIES, self._policy_seen),
            (RECOVERIES, self._recovery_seen),
            (APPROVALS, self._approval_seen),
        ):
            on.event(GROUP, VERSION, kind.plural, registry=registry)(seen)

    # kopf's own life

    async def _login(self, **kwargs: Any) -> kopf.AiohttpSession:
        """A bounded session; kopf's own has no limit."""
        info = _found_login(kwargs)
        return kopf.AiohttpSession(
            server=info.server,
            aiohttp_session=self._session(info),
            default_namespace=info.default_namespace,
        )

    def _session(self, info: kopf.ConnectionInfo) -> aiohttp.ClientSession:
        rotating = _TOKEN.exists()
        tls = info.as_ssl_context() if info.server.startswith("https") else False
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._settings.connections, ssl=tls, keepalive_timeout=_KEPT_ALIVE),
            headers={} if rotating else info.as_http_headers(),
            middlewares=[ServiceAccountToken(_TOKEN)] if rotating else [],
        )

    def _wire(self, api: Api) -> None:
        settings = self._settings
        self._events = Events(api, "kafka-recovery-operator")
        pace = Pace(interval=settings.probe, rescan=settings.rescan)
        self._clusters = Clusters(
            api,
            self._events,
            self._metrics,
            pace,
            self._fence,
            soon=self._cluster_soon,
            changed=self._cluster_changed,
            opened=lambda key: self._recovery_soon(key, timedelta(0)),
            claims=lambda cluster: self._recoveries.claims(cluster),  # noqa: PLW0108 - it is made below
        )
        self._recoveries = Recoveries(
            api,
            self._clusters,
            self._events,
            self._metrics,
            house=lambda: read_house(api, settings.house, settings.authority),
            soon=self._recovery_soon,
        )
        self._policies = Policies(api)
        self._housekeeping = Housekeeping(api, self._clusters, self._events)

    async def _start(self, settings: kopf.OperatorSettings, **kwargs: Any) -> None:
        info = _found_login({"settings": settings, **kwargs})
        self._wire(Api(self._session(info), info.server, self._fence))
        logging.getLogger("kopf.objects").setLevel(logging.WARNING)  # it tells of every event that it hands on
        settings.scanning.disabled = True  # a Role is enough; no watches of CRDs and namespaces
        settings.posting.enabled = False  # our Events say more, and are fewer
        settings.watching.server_timeout, settings.watching.chunk_size = 300, 500
        settings.networking.error_backoffs = [0.5, 1, 2, *[3] * 20]  # kopf's own make an outage last 21 s longer
        settings.queueing.idle_timeout = 0.1  # our handlers only feed a queue: let kopf's workers go
        settings.queueing.exit_timeout = 0.5
        settings.process.ultimate_exiting_timeout = 20
        settings.watching.field_selectors[f"{RECOVERIES.plural}.{GROUP}"] = "status.finished!=true"
        self._cluster_queue = WorkQueue(self._clusters.reconcile, workers=self._settings.workers)
        self._recovery_queue = WorkQueue(self._recoveries.reconcile, workers=self._settings.workers)
        self._policy_queue = WorkQueue(self._policies.reconcile, workers=1)
        for name, work in (
            ("clusters", self._cluster_queue.run()),
            ("recoveries", self._recovery_queue.run()),
            ("policies", self._policy_queue.run()),
            ("heartbeat", self._heartbeat()),
            ("housekeeping", self._housekeeping.run()),
        ):
            task = asyncio.create_task(work, name=name)
            task.add_done_callback(_fatal)
            self._tasks.append(task)

    async def _stop(self, **_: Any) -> None:
        grace = timedelta(seconds=2)
        queues = self._policy_queue, self._cluster_queue, self._recovery_queue
        left = [key for queue in queues for key in await queue.stop(grace)]
        for task in self._tasks:
            task.remove_done_callback(_fatal)
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._recoveries.stop()
        await self._clusters.stop()
        await self._events.flush(timedelta(seconds=1))
        self.clean = not left

    async def _heartbeat(self) -> None:
        while True:
            self._beat = time.monotonic()
            self._clusters.beat()
            await asyncio.sleep(0.5)

    async def _loop_age(self, **_: Any) -> float:
        return round(time.monotonic() - self._beat, 2)

    # What kopf sees

    async def _cluster_seen(self, type: str, body: kopf.Body, **_: Any) -> None:
        if self._is_new(CLUSTERS, type, body):
            self._cluster_soon(_key(body), timedelta(0))

    async def _policy_seen(self, type: str, body: kopf.Body, **_: Any) -> None:
        if self._is_new(POLICIES, type, body):
            self._policy_queue.add(_key(body))
            self._clusters.policy_changed(_key(body))

    async def _recovery_seen(self, type: str, body: kopf.Body, **_: Any) -> None:
        if self._is_new(RECOVERIES, type, body):
            self._recovery_soon(_key(body), timedelta(0))

    async def _approval_seen(self, type: str, body: kopf.Body, **_: Any) -> None:
        if self._is_new(APPROVALS, type, body):
            about = (_key(body)[0], str(body.get("spec", {}).get("recoveryRef", {}).get("name")))
            self._recoveries.wake(lambda key, cluster: key == about)

    def _is_new(self, kind: Kind, type: str, body: kopf.Body) -> bool:
        """Whether more changed than what we write ourselves: our own status must not wake us."""
        key = kind, _key(body)
        if type == "DELETED":
            self._stamps.pop(key, None)
            return True
        meta = body["metadata"]
        stamp = meta["uid"], meta.get("generation"), meta.get("deletionTimestamp")
        known, self._stamps[key] = self._stamps.get(key), stamp
        return known != stamp

    def _cluster_soon(self, key: Key, after: timedelta) -> None:
        self._cluster_queue.add(key, after)

    def _recovery_soon(self, key: Key, after: timedelta) -> None:
        self._recovery_queue.add(key, after)

    def _cluster_changed(self, cluster: Key) -> None:
        self._recoveries.wake(lambda key, name: (key[0], name) == cluster)


def _key(body: kopf.Body) -> Key:
    return str(body["metadata"]["namespace"]), str(body["metadata"]["name"])


def _found_login(kwargs: dict[str, Any]) -> kopf.ConnectionInfo:
    """As a Pod, or as the kubeconfig's user."""
    info = kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
    if info is None:
        raise kopf.LoginError("neither a service account nor a kubeconfig was found; set KUBECONFIG")
    return info


def _fatal(task: asyncio.Task[Any]) -> None:
    """Without its queues the process is a zombie that answers probes: end it, the kubelet starts another."""
    with contextlib.suppress(asyncio.CancelledError):
        _LOG.critical("%s ended: %r", task.get_name(), task.exception())
        logging.shutdown()
        os._exit(70)
