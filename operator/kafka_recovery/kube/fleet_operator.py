"""The fleet operator's process: FleetRankings, and nothing that opens a Kafka cluster or elects a leader in one.

It reads object stores, under an account of its own. What a run chose it writes into its FleetRanking's status; the
operator that elects reads it there.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import kopf

from kafka_recovery.kube.fleet.look_out import LookOut
from kafka_recovery.kube.fleet.prefixes import Prefixes
from kafka_recovery.kube.machinery.api import Api
from kafka_recovery.kube.machinery.events import Events
from kafka_recovery.kube.machinery.metrics import Metrics
from kafka_recovery.kube.machinery.readiness import Readiness
from kafka_recovery.kube.process import session
from kafka_recovery.kube.process.starting import FAILED
from kafka_recovery.kube.resources.kinds import RANKINGS, collections
from kafka_recovery.kube.resources.watched_by import Places

_LOG = logging.getLogger(__name__)

KINDS = (RANKINGS,)
"""What it lists. RecoveryPolicies it only gets, each by its name: its Role has no more."""

BEAT = 0.5
"""Seconds between two looks whether the event loop goes round."""
GRACE = timedelta(seconds=2)
"""For what is under way when the process is to end. Cut short, the next process goes on from status."""
CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class Settings:
    """What it is started with. `namespaces` empty: all of them. `results`: below which places it reads results.

    `places`: by which Lease it runs FleetRankings, if it does by one.
    """

    namespaces: tuple[str, ...]
    results: Prefixes
    places: Places = field(default_factory=Places)


class FleetOperator:
    """Everything of one process, wired. `fence`: does not return once the Lease may be another's."""

    def __init__(self, settings: Settings, metrics: Metrics, fence: Callable[[], None]) -> None:
        self._settings = settings
        self._metrics = metrics
        self._fence = fence
        self._beat: float | None = None
        self._readiness = Readiness()
        self.clean = True
        """Whether nothing of ours is still at work when `run` returns, so that the Lease may be given back."""

    def run(self) -> int:
        """Until a signal ends it, or an error of its own. Returns the exit status."""
        try:
            info = session.found_login(kopf.OperatorSettings())
        except (kopf.LoginError, OSError) as error:
            _LOG.critical("there is no way to the API server: %s", error)
            return FAILED
        try:
            asyncio.run(self._act(info))
        except Exception:  # noqa: BLE001 - the Lease is given back also then
            _LOG.critical("the fleet operator ends: it met an error of its own", exc_info=True)
            return FAILED
        return 0

    def loop_age(self) -> float | None:
        """Seconds since the event loop went round; None: it has not begun, or ends. Any thread may ask."""
        beat = self._beat
        return None if beat is None else time.monotonic() - beat

    def unready(self) -> str:
        """Why it can't see what it watches yet; empty: it can. Any thread may ask."""
        return self._readiness.unready

    async def _act(self, info: kopf.ConnectionInfo) -> None:
        told = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, told.set)
        _LOG.info("FleetRankings are looked for in %s", ", ".join(self._settings.namespaces) or "all namespaces")
        async with session.opened(info, CONNECTIONS) as connections:
            api = Api(connections, info.server, self._fence, at_once=CONNECTIONS, asked=self._metrics.asked)
            events = Events(api, "kafka-recovery-operator-fleet")
            wanted = self._settings
            fleet = LookOut(api, events, self._metrics, wanted.namespaces, wanted.results, places=wanted.places)
            self.clean = False
            ready = self._readiness.keep(api, collections(KINDS, self._settings.namespaces))
            work = {asyncio.create_task(each) for each in (fleet.run(), self._heartbeat(fleet), ready, told.wait())}
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            left = await fleet.stop(GRACE)
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await events.flush(timedelta(seconds=1))
            self.clean = not left
        for task in done:
            task.result()  # an error of our own ends the process: the kubelet starts another

    async def _heartbeat(self, fleet: LookOut) -> None:
        try:
            while True:
                self._beat = time.monotonic()
                fleet.tell(self._metrics)
                await asyncio.sleep(BEAT)
        finally:
            self._beat = None
