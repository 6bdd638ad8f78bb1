"""How far each log of a cluster was seen to reach, as the operator's own snapshots tell."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from kafka_recovery.decision.witnesses import Memory, Seen, ends_seen, with_witnesses
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import TopicPartition

_LOG = logging.getLogger(__name__)

PATIENCE = timedelta(seconds=2)
"""So long a look waits for what an earlier process has kept; without it a loss is told as unknown, as ever."""

Recall = Callable[[], Memory]
"""Reads what was kept, in a thread."""


class LastSeen:
    """Of one cluster. `recall` None: nothing was kept; what this process learns itself counts all the same."""

    def __init__(self, recall: Recall | None = None) -> None:
        self._recall = recall
        self._recalling: asyncio.Task[None] | None = None
        self._seen: dict[TopicPartition, Seen] = {}

    async def add_to(self, evidence: Evidence) -> Evidence:
        """The evidence with what was seen of its leaderless partitions before."""
        await self._recalled()
        return with_witnesses(evidence, self._seen) if self._seen else evidence

    def learn(self, evidence: Evidence) -> None:
        """A snapshot was taken. What has no leader in it stays as it was seen last."""
        self._seen.update(ends_seen(evidence))

    async def _recalled(self) -> None:
        if self._recall is None:
            return
        if self._recalling is None:
            self._recalling = asyncio.create_task(self._read(self._recall), name="recalling what was seen")
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE.total_seconds()):
                await asyncio.shield(self._recalling)

    async def _read(self, recall: Recall) -> None:
        try:
            kept = await asyncio.to_thread(recall)
        except Exception as error:  # noqa: BLE001 - files of others: that they can't be read holds up no recovery
            _LOG.warning("how far logs reached can't be read from earlier snapshots: %s", error)
            return
        self._seen = {**kept, **self._seen}
