"""The operator's process: kopf lists and watches, our work queues reconcile, one Lease says who acts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import aiohttp
import kopf

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.clusters import Clusters
from kafka_recovery.kube.clusters.housekeeping import Housekeeping
from kafka_recovery.kube.clusters.policies import Policies
from kafka_recovery.kube.machinery.api import CONNECTIONS, Api, ApiError
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.machinery.logs import say_less_of_watches
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.machinery.readiness import Readiness
from kafka_recovery.kube.machinery.work_queue import WorkQueue
from kafka_recovery.kube.process import session
from kafka_recovery.kube.process.reach import Answer, Reach
from kafka_recovery.kube.process.starting import FAILED
from kafka_recovery.kube.recoveries.recoveries import Recoveries
from kafka_recovery.kube.resources.kinds import (
    APPROVALS,
    CLUSTERS,
    GROUP,
    POLICIES,
    RECORDS,
    RECOVERIES,
    UNFINISHED,
    VERSION,
    Kind,
    collections,
)
from kafka_recovery.kube.resources.objects import Key
from kafka_recovery.kube.resources.operator_switch import KnownSwitch, OperatorSwitch, read_switch
from kafka_recovery.kube.resources.watched_by import ClaimTimes, Places
from kafka_recovery.kube.watching.last_seen import LastSeen
from kafka_recovery.kube.watching.watcher import Pace
from kafka_recovery.kube.webhook.endpoint import lead_here
from kafka_recovery.kube.webhook.server import Webhook, WebhookServer
from kafka_recovery.recovery.supervision import Authority
from kafka_recovery.recovery.timing import Timing

if TYPE_CHECKING:
    from kafka_recovery.kube.clusters.snapshots import Export, Snapshots

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What an operator is started with. `namespaces` empty: all of them (needs a ClusterRole).

    `authority`: what no cluster and no rule exceeds. `switch`: namespace and name of the ConfigMap whose key `suspend`
    stops everything. `export`: where evidence of every cluster is kept, if it is. `connections`: calls to the API
    server at a time; watches have their own. `webhook`: where alerts are heard, if they are. `timing`: of
    each wave, which no option changes: what Kafka may still do with a request that it did not answer is no matter of
    taste. `lease`: namespace and name of the one by which this process acts, if it does by one; `claims`: how long
    what it watches is left to it.
    """

    namespaces: tuple[str, ...]
    switch: Key
    authority: Authority = Authority.OBSERVE
    probe: timedelta = timedelta(milliseconds=250)
    rescan: timedelta = timedelta(seconds=30)
    connections: int = CONNECTIONS
    workers: int = 8
    export: Export | None = None
    webhook: Webhook | None = None
    timing: Timing = field(default_factory=Timing)
    lease: Key | None = None
    claims: ClaimTimes = field(default_factory=ClaimTimes)


FEW_LOOKS = 2
"""At recoveries of one namespace at a time while none of them is urgent: of the largest, the API server takes a second
to write a status, and others wait for it meanwhile."""
KINDS = (CLUSTERS, POLICIES, RECOVERIES, APPROVALS, RECORDS)
"""Without which of them nothing is watched, or nothing may begin."""


class Operator:
    """Everything of one process, wired. `fence`: does not return once the Lease may be another's."""

    def __init__(self, settings: Settings, metrics: Metrics, fence: Callable[[], None]) -> None:
        self._settings = settings
        self._metrics = metrics
        self._fence = fence
        self._beat: float | None = None
        self._stamps: dict[tuple[Kind, Key], tuple[object, ...]] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self._session: aiohttp.ClientSession | None = None
        self._snapshots: Snapshots | None = None
        self._webhook: WebhookServer | None = None
        self._readiness = Readiness()
        self.clean = True
        """Whether nothing of ours is still at work when `run` returns, so that the Lease may be given back."""
        self.registry = kopf.OperatorRegistry()
        self._register()

    def run(self) -> int:
        """Until a signal ends it, or an error of its own. Returns the exit status."""
        settings = kopf.OperatorSettings()
        try:
            session.found_login(settings)
        except (kopf.LoginError, OSError) as error:
            _LOG.critical("there is no way to the API server: %s", error)
            return FAILED
        try:
            kopf.run(
                standalone=True,
                registry=self.registry,
                settings=settings,
                namespaces=self._settings.namespaces,
                clusterwide=not self._settings.namespaces,
            )
        except Exception:  # noqa: BLE001 - the Lease is given back also then
            _LOG.critical("the operator ends: it met an error of its own", exc_info=True)
            return FAILED
        return 0

    def _register(self) -> None:
        on, registry = kopf.on, self.registry
        on.login(registry=registry)(self._login)
        on.startup(registry=registry)(self._start)
        on.cleanup(registry=registry)(self._stop)
        for kind, seen in (
            (CLUSTERS, self._cluster_seen),
            (POLICIES, self._policy_seen),
            (RECOVERIES, self._recovery_seen),
            (APPROVALS, self._approval_seen),
        ):
            on.event(GROUP, VERSION, kind.plural, registry=registry)(seen)

    # kopf's own life

    async def _login(self, settings: kopf.OperatorSettings, **_: Any) -> kopf.AiohttpSession:
        """A session that waits where kopf would give up."""
        info = session.found_login(settings)
        return kopf.AiohttpSession(
            server=info.server,
            aiohttp_session=session.opened(info, session.UNLIMITED, self._reach, answer=Answer),
            default_namespace=info.default_namespace,
        )

    def _wire(self, api: Api) -> None:
        settings = self._settings
        self._reach = Reach(api)
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
            stirred=lambda cluster: self._recoveries.stir(cluster),  # noqa: PLW0108 - it is made below
            opened=lambda key: self._recovery_soon(key, timedelta(0)),
            claims=lambda cluster: self._recoveries.claims(cluster),  # noqa: PLW0108
            used=lambda cluster: self._recoveries.used(cluster),  # noqa: PLW0108
            at_work=lambda cluster: self._recoveries.at_work(cluster),  # noqa: PLW0108
            is_restored=lambda recovery: self._recoveries.is_restored(recovery),  # noqa: PLW0108
            last_seen=settings.export.last_seen if settings.export else lambda cluster_id: LastSeen(),
            timing=settings.timing,
            places=Places(settings.lease, settings.claims),
        )

        def read() -> Awaitable[OperatorSwitch]:
            return read_switch(api, settings.switch, settings.authority)

        self._switch = switch = KnownSwitch(read)
        self._recoveries = Recoveries(api, self._clusters, self._events, self._metrics, switch, self._recovery_soon)
        self._policies = Policies(api)
        self._housekeeping = Housekeeping(api, self._clusters, self._events, switch)
        if settings.webhook:
            self._webhook = WebhookServer(settings.webhook, self._alerted, self._metrics)
        export = settings.export
        if export:
            from kafka_recovery.kube.clusters.snapshots import (
                Snapshots,  # pyarrow is large: only who wants it pays for it
            )

            self._snapshots = Snapshots(self._clusters, self._metrics, export)

    async def _start(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        say_less_of_watches(asyncio.get_running_loop())
        connections = self._settings.connections
        info = session.found_login(settings)
        self._session = session.opened(info, connections)
        api = Api(self._session, info.server, self._fence, at_once=connections, asked=self._metrics.asked)
        self._wire(api)
        for chatty in ("kopf.objects", "kopf.activities.probe", "aiohttp.access"):  # each event handed on, each probe
            logging.getLogger(chatty).setLevel(logging.WARNING)
        settings.scanning.disabled = True  # a Role is enough; no watches of CRDs and namespaces
        settings.posting.enabled = False  # our Events say more, and are fewer
        settings.watching.server_timeout, settings.watching.chunk_size = 300, 50  # of any object 1.5 MB may be metadata
        settings.networking.request_timeout = None  # what waits in Reach has no end; each of its tries has
        settings.networking.error_backoffs = [0.5, 1, 2, *[3] * 20]  # kopf's own make an outage last 21 s longer
        settings.queueing.idle_timeout = 0.1  # our handlers only feed a queue: let kopf's workers go
        settings.queueing.exit_timeout = 0.5
        settings.process.ultimate_exiting_timeout = 40  # `WAVE_ENDS`, and what else is stopped
        settings.watching.field_selectors[f"{RECOVERIES.plural}.{GROUP}"] = UNFINISHED
        workers = self._settings.workers
        fair = partial(WorkQueue[Key], owner=lambda key: key[0], expected=_cause)  # among namespaces
        self._cluster_queue = fair(self._clusters.reconcile, workers=workers)
        self._recovery_queue = fair(
            self._recoveries.reconcile, workers=workers, at_once=FEW_LOOKS, urgent=self._recoveries.urgent
        )
        self._policy_queue = fair(self._policies.reconcile, workers=1)
        self.clean = False
        for name, work in (
            ("clusters", self._cluster_queue.run()),
            ("recoveries", self._recovery_queue.run()),
            ("policies", self._policy_queue.run()),
            ("heartbeat", self._heartbeat()),
            ("readiness", self._readiness.keep(api, collections(KINDS, self._settings.namespaces))),
            ("switch", self._switch.keep_up()),
            ("housekeeping", self._housekeeping.run()),
            *([("snapshots", self._snapshots.run())] if self._snapshots else []),
            *(self._listening(api, self._webhook) if self._webhook else []),
        ):
            task = asyncio.create_task(work, name=name)
            task.add_done_callback(_fatal)
            self._tasks.append(task)

    def _listening(self, api: Api, webhook: WebhookServer) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        yield "webhook", webhook.run()
        if webhook.endpoint:
            yield "endpoint", lead_here(api, webhook.endpoint, webhook.port)

    async def _stop(self, **_: Any) -> None:
        if self._tasks:  # else the start failed, and there is nothing to stop
            await self._stop_working()
        if self._session:
            await self._session.close()

    async def _stop_working(self) -> None:
        for task in self._tasks:
            task.remove_done_callback(_fatal)  # from now on they may end
        await self._recoveries.stop()  # first of all: until then any of them may begin a wave
        grace = timedelta(seconds=2)
        queues = self._policy_queue, self._cluster_queue, self._recovery_queue
        left = [key for queue in queues for key in await queue.stop(grace)]
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._clusters.stop()
        await self._events.flush(timedelta(seconds=1))
        self.clean = not left

    async def _heartbeat(self) -> None:
        try:
            while True:
                self._beat = time.monotonic()
                self._clusters.beat()
                self._tell_queues()
                await asyncio.sleep(0.5)
        finally:
            self._beat = None

    def _tell_queues(self) -> None:
        queues = {"clusters": self._cluster_queue, "recoveries": self._recovery_queue, "policies": self._policy_queue}
        for name, queue in queues.items():
            self._metrics.queued(name, queue.depth, queue.longest_look)

    def loop_age(self) -> float | None:
        """Seconds since the event loop went round; None: it has not begun, or ends. Any thread may ask."""
        beat = self._beat
        return None if beat is None else time.monotonic() - beat

    def unready(self) -> str:
        """Why it can't see what it watches yet; empty: it can. Any thread may ask."""
        return self._readiness.unready

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
        else:
            self._recoveries.seen(_key(body))

    async def _approval_seen(self, type: str, body: kopf.Body, **_: Any) -> None:
        if self._is_new(APPROVALS, type, body):
            about = (_key(body)[0], str(body.get("spec", {}).get("recoveryRef", {}).get("name")))
            self._recoveries.approval_seen(about)

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

    def _alerted(self, cluster: Key) -> Reason | None:
        """Somebody's alert is about a cluster: it is looked at. Returns why that can't be."""
        found = self._clusters.get(cluster)
        if isinstance(found, Reason):
            return found
        found.watcher.wake()

    def _cluster_changed(self, cluster: Key) -> None:
        self._recoveries.wake(lambda key, name: (key[0], name) == cluster)


def _key(body: kopf.Body) -> Key:
    return str(body["metadata"]["namespace"]), str(body["metadata"]["name"])


def _cause(error: Exception) -> str | None:
    """What comes from outside, and is no error of our own."""
    return f"{error.status} {error.reason}" if isinstance(error, ApiError) else None


def _fatal(task: asyncio.Task[Any]) -> None:
    """Without its queues the process is a zombie that answers probes: end it, the kubelet starts another."""
    with contextlib.suppress(asyncio.CancelledError):
        _LOG.critical("%s ended: %r", task.get_name(), task.exception())
        logging.shutdown()
        os._exit(70)
