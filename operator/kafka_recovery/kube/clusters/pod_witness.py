"""Looking again and again where the processes of brokers live, so that a restart there can be told to lose nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from kafka_recovery.cluster.errors import ClusterError
from kafka_recovery.cluster.metadata_log.unfenced import Alive
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.clusters.history import NO_CONTROLLERS
from kafka_recovery.kube.clusters.residences import Home, Residences, with_residences
from kafka_recovery.recovery.clock import SystemClock
from kafka_recovery.recovery.ports import Clock

_LOG = logging.getLogger(__name__)

NO_PODS = Reason("NotConfigured", "nothing says which Pods its brokers run in")
LOOKING = Reason("ScanPending", "its Pods have not been looked at yet")

_WITHIN = timedelta(seconds=10)
"""For the metadata log to be read; what comes later belongs to the next look."""


class Log(Protocol):
    """An open cluster. See `KafkaCluster.unfenced`."""

    async def unfenced(self, within: timedelta, deadline: timedelta) -> Alive | Reason | None: ...


class Pods(Protocol):
    """See `BrokerPods.homes`."""

    async def homes(self) -> Mapping[BrokerId, Home] | Reason: ...


@dataclass(slots=True)
class PodWitness:
    """Of one cluster, in the memory of this process. `problem`: why nothing is seen now; None: it is.

    `changed` is told of each other problem, and of the end of one.
    """

    log: Log
    pods: Pods
    changed: Callable[[], None]
    pause: timedelta = timedelta(seconds=30)
    clock: Clock = field(default_factory=SystemClock)
    problem: Reason | None = LOOKING
    residences: Residences = field(default_factory=Residences)
    _task: asyncio.Task[None] | None = None

    def start(self, name: str) -> None:
        """Go on until it is stopped."""
        self._task = asyncio.create_task(self._go_on(), name=f"Pods of {name}")

    async def stop(self) -> None:
        """It may be started or not."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def add_to(self, evidence: Evidence) -> Evidence:
        """The evidence with what is known of where its brokers' processes lived."""
        return with_residences(evidence, self.residences.known) if self.residences.known else evidence

    async def _go_on(self) -> None:
        while True:
            problem = await self.look()
            if problem != self.problem:
                self.problem = problem
                self.changed()
            await self.clock.sleep(self.pause)

    async def look(self) -> Reason | None:
        """Once: Pods and nodes first, then the log. Returns why nothing was seen, if so."""
        began = self.clock.monotonic()
        try:
            homes = await self.pods.homes()
            alive = homes if isinstance(homes, Reason) else await self.log.unfenced(_WITHIN, _WITHIN)
        except ClusterError as error:
            homes = alive = error.reason
        except Exception:  # noqa: BLE001 - a status that says what is not seen any more would be false
            _LOG.exception("where brokers run can't be seen for a defect of the operator")
            homes = alive = Reason("InternalError", "the operator failed at looking at Pods; see its own log")
        if isinstance(homes, Reason) or not isinstance(alive, Alive):
            self.residences.forget()
            return alive if isinstance(alive, Reason) else NO_CONTROLLERS
        self.residences.learn(homes, alive, began)
        return None
