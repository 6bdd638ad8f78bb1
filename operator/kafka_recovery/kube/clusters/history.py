"""Keeping a cluster's metadata log read, so that a look at an incident has only the log's end to read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from kafka_recovery.cluster.errors import ClusterError, MetadataLogUnavailable
from kafka_recovery.cluster.metadata_log.reader import READING
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.reason import Reason

_LOG = logging.getLogger(__name__)

NO_CONTROLLERS = Reason(Decisive.NO_CONTROLLERS, "spec.controllers is not set: no election is proven to lose nothing")

_WITHIN = timedelta(seconds=10)
"""For one reading to be waited for; it goes on after that."""


class MetadataLogReader(Protocol):
    """An open cluster. See `KafkaCluster.read_metadata_log`."""

    async def read_metadata_log(self, within: timedelta, deadline: timedelta) -> Reason | None: ...


@dataclass(slots=True)
class HistoryFollower:
    """Reads what was committed every `pause`, once it is started. `problem`: why no history is known; None: it is.

    `changed` is told of each other problem, and of the end of one. `advice`: what may keep controllers from answering
    here, and what to do; it follows what each of them did.
    """

    kafka: MetadataLogReader
    changed: Callable[[], None]
    pause: timedelta = timedelta(seconds=5)
    advice: str = ""
    problem: Reason | None = NO_CONTROLLERS
    _task: asyncio.Task[None] | None = None

    def start(self, name: str) -> None:
        """Go on until it is stopped."""
        self.problem = READING
        self._task = asyncio.create_task(self._follow(), name=f"metadata log of {name}")

    async def stop(self) -> None:
        """It may be started or not."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            problem = self._advised(await self._read())
            if problem != self.problem:
                self.problem = problem
                self.changed()
            await asyncio.sleep(self.pause.total_seconds())

    def _advised(self, problem: Reason | None) -> Reason | None:
        if problem is None or problem.code != MetadataLogUnavailable.code or not self.advice:
            return problem
        return Reason(problem.code, f"{problem.message}. {self.advice}")

    async def _read(self) -> Reason | None:
        try:
            return await self.kafka.read_metadata_log(_WITHIN, _WITHIN)
        except ClusterError as error:
            return error.reason
        except Exception:  # noqa: BLE001 - a status that says what is not read any more would be false
            _LOG.exception("the metadata log can't be read for a defect of the operator")
            return Reason("InternalError", "the operator failed at reading the metadata log; see its own log")
