"""How far each log of a cluster was seen to reach, as the operator's own snapshots tell."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta

from kafka_recovery.decision.witnesses import Memory, Seen, ends_seen, with_witnesses
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import TopicPartition

_LOG = logging.getLogger(__name__)

PATIENCE = timedelta(seconds=2)
"""So long a plan waits for what an earlier process has kept, once; without it a loss is told as unknown, as ever."""

LONG_PATIENCE = timedelta(minutes=1)
"""The same for a snapshot, for which nobody waits: it hands on what it knows."""

Recall = Callable[[], Awaitable[Memory]]
"""Reads what was kept."""


class LastSeen:
    """Of one cluster. `recall` None: nothing was kept; what this process learns itself counts all the same."""

    def __init__(self, recall: Recall | None = None) -> None:
        self._recall = recall
        self._recalling: asyncio.Task[None] | None = None
        self._is_waited_for = True
        self._seen: dict[TopicPartition, Seen] = {}

    def begin(self) -> None:
        """Read what was kept, so that the first plan need not wait for it."""
        if self._recall and self._recalling is None:
            self._recalling = asyncio.create_task(self._read(self._recall), name="recalling what was seen")

    async def ready(self, patience: timedelta = PATIENCE) -> None:
        """Wait until it is read; in vain only once."""
        if self._recalling is None or not self._is_waited_for:
            return
        self._is_waited_for = False
        with suppress(TimeoutError):
            async with asyncio.timeout(patience.total_seconds()):
                await asyncio.shield(self._recalling)

    def add_to(self, evidence: Evidence) -> Evidence:
        """The evidence with what was seen of its leaderless partitions before."""
        return with_witnesses(evidence, self._seen) if self._seen else evidence

    def learn(self, snapshot: Evidence) -> None:
        """A look at the whole cluster. What has no leader in it stays as it was seen last; what is not in it goes."""
        there = {partition.id for partition in snapshot.partitions}
        kept = {id: seen for id, seen in self._seen.items() if id in there}
        self._seen = {**kept, **ends_seen(snapshot)}

    async def stop(self) -> None:
        """The cluster is closed."""
        if self._recalling:
            self._recalling.cancel()
            await asyncio.gather(self._recalling, return_exceptions=True)

    async def _read(self, recall: Recall) -> None:
        try:
            kept = await recall()
        except Exception as error:  # noqa: BLE001 - files of others: that they can't be read holds up no recovery
            _LOG.warning("how far logs reached can't be read from earlier snapshots: %s", error)
            return
        self._seen = {**kept, **self._seen}
