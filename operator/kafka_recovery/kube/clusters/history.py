"""Keeping a cluster's metadata log read, so that a look at an incident has only the log's end to read; and keeping what
it told, so that another process knows it when Kafka has cut it off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from kafka_recovery.cluster.errors import ClusterError, MetadataLogUnavailable
from kafka_recovery.cluster.metadata_log.kept import KeptHistory
from kafka_recovery.cluster.metadata_log.reader import READING
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.machinery.api import ApiError

_LOG = logging.getLogger(__name__)

NO_CONTROLLERS = Reason(Decisive.NOT_CONFIGURED, "spec.controllers is not set: no election is proven to lose nothing")

_WITHIN = timedelta(seconds=10)
"""For one reading to be waited for; it goes on after that."""


KEEP_EVERY = timedelta(hours=1)
"""Kafka cuts nothing off that is younger than a week, or 100 MiB of changes (the controllers' defaults)."""

AGAIN = timedelta(minutes=5)
"""After a failure it is tried again so soon."""


class MetadataLogReader(Protocol):
    """An open cluster. See `KafkaCluster`."""

    async def read_metadata_log(self, within: timedelta, deadline: timedelta) -> Reason | None: ...

    def recall_history(self, kept: KeptHistory) -> None: ...

    def history_to_keep(self) -> KeptHistory | None: ...


class HistoryStore(Protocol):
    """Where histories outlive this process. Both raise ApiError."""

    async def load(self) -> KeptHistory | None:
        """What was kept last."""
        ...

    async def save(self, kept: KeptHistory) -> str | None:
        """Keep it in place of any other; returns why it can't be, if it can't."""
        ...


@dataclass(slots=True)
class HistoryFollower:
    """Reads what was committed every `pause`, once it is started. `problem`: why no history is known; None: it is.

    `unkept`: why the next process will know no more than the log tells, if so. `changed` is told of each other problem,
    and of the end of one. `advice`: what may keep controllers from answering here, and what to do; it follows what each
    of them did.
    """

    kafka: MetadataLogReader
    store: HistoryStore
    changed: Callable[[], None]
    pause: timedelta = timedelta(seconds=5)
    advice: str = ""
    problem: Reason | None = NO_CONTROLLERS
    unkept: str | None = None
    _task: asyncio.Task[None] | None = None
    _keeps_at: float = 0.0

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
        await self._recall()
        while True:
            problem = self._advised(await self._read())
            before = self.problem, self.unkept
            if problem is None and _now() >= self._keeps_at:
                self.unkept = await self._keep()
                self._keeps_at = _now() + (AGAIN if self.unkept else KEEP_EVERY).total_seconds()
            self.problem = problem
            if before != (self.problem, self.unkept):
                self.changed()
            await asyncio.sleep(self.pause.total_seconds())

    def _advised(self, problem: Reason | None) -> Reason | None:
        if problem is None or problem.code != MetadataLogUnavailable.code or not self.advice:
            return problem
        return Reason(problem.code, f"{problem.message}. {self.advice}")

    async def _recall(self) -> None:
        """Before anything is read, for what was kept counts from its own place in the log on.

        While the API server is away it is waited for: what is not known yet would be replaced. A right that is missing,
        or a definition, may never come.
        """
        while True:
            try:
                kept = await self.store.load()
            except ApiError as error:
                if not error.may_pass:
                    _LOG.warning("histories of an earlier process can't be read, and are not used: %s", error)
                    return
            except Exception:  # noqa: BLE001 - a defect here costs proofs, and no recovery
                _LOG.exception("histories of an earlier process are not used, for a defect of the operator")
                return
            else:
                if kept is not None:
                    _LOG.info("histories are known up to offset %d of the metadata log: they were kept", kept.upto)
                    self.kafka.recall_history(kept)
                return
            await asyncio.sleep(self.pause.total_seconds())

    async def _keep(self) -> str | None:
        """Returns why it was not kept, if so."""
        try:
            kept = self.kafka.history_to_keep()
            if kept is None:
                return "the metadata log does not reach as far as what was kept of it"
            return await self.store.save(kept)
        except ApiError as error:
            return f"ClusterHistories can't be written: {error.message}"
        except Exception:  # noqa: BLE001 - a defect here costs proofs, and no recovery
            _LOG.exception("histories can't be kept for a defect of the operator")
            return "the operator failed at keeping it; see its own log"

    async def _read(self) -> Reason | None:
        try:
            return await self.kafka.read_metadata_log(_WITHIN, _WITHIN)
        except ClusterError as error:
            return error.reason
        except Exception:  # noqa: BLE001 - a status that says what is not read any more would be false
            _LOG.exception("the metadata log can't be read for a defect of the operator")
            return Reason("InternalError", "the operator failed at reading the metadata log; see its own log")


def _now() -> float:
    return asyncio.get_running_loop().time()
