"""Following the metadata log at the controllers' own listeners, whoever of them leads.

What is read is committed; it is folded into one `Image` in a thread, and goes on being read where a caller's deadline
ends. Sources: KIP-595 (the quorum's Fetch, epochs, divergence), KIP-630 (snapshots); measured on 3.9, 4.0 and 4.4.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence, Sized
from datetime import timedelta
from functools import partial
from typing import Any

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_fixed

from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.codec import Unreadable
from kafka_recovery.cluster.errors import (
    ClusterError,
    ClusterIdMismatch,
    ConnectionsClosed,
    InvalidAnswer,
    MetadataLogUnavailable,
    NotCommittedYet,
    reason_for,
)
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata_log import batches
from kafka_recovery.cluster.metadata_log.image import Image
from kafka_recovery.cluster.metadata_log.kept import KeptHistory
from kafka_recovery.cluster.metadata_log.messages import FETCH_VERSIONS, SNAPSHOT_VERSIONS, fetch, fetch_snapshot
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.domain.decisive import Decisive
from kafka_recovery.domain.reason import Reason

_LOG = logging.getLogger(__name__)

_NONE = 0
_NOT_LEADER, _FENCED_EPOCH, _UNKNOWN_EPOCH, _ANOTHER_CLUSTER = 6, 74, 75, 104
_NOT_A_CONTROLLER = frozenset({3, 100})
_FIRST = 1
"""Offset 0 is the quorum's own: the first leader's control record."""
_NEEDS = "CLUSTER_ACTION on the cluster (at the controllers)"

DEADLINE = timedelta(seconds=5)
"""For one request. A controller that stands still keeps its connections, so only a deadline tells."""

READING = Reason(Decisive.SCAN_PENDING, "the controllers' metadata log is being read: look again once it is")

READ_APART = 16 * 1024
"""Bytes that are folded in a thread: so many are some 200 records, and 5 ms."""

LARGEST_SNAPSHOT = 128 * 1024 * 1024
"""Bytes. 200,000 partitions take some 26 MiB (measured: 130 bytes each)."""

READ_AGAIN, SELDOM = 60.0, 3600.0
"""Seconds after a doubt until the log is read anew; twice as many each time, up to the second."""

ASKED_WHAT_IS_COMMITTED, EACH = 8, 0.25
"""How often, and seconds apart, a controller that has just begun to lead is asked: it knows once a majority follows."""

EPOCHS_TRIED = 50
"""The snapshot at the log's start is named by its end alone; its epoch has to be found."""


class MetadataLog:
    """The log of one cluster, at these controllers. It sends nothing before it is asked to catch up."""

    def __init__(self, brokers: Brokers, controllers: Sequence[Address], threads: Threads) -> None:
        """`brokers`: connections with the controllers' own security."""
        self._brokers = brokers
        self._controllers = list(controllers)
        self._threads = threads
        self._kept: KeptHistory | None = None
        self._begins_anew = False
        self._image = Image()
        self._quorum_epoch = 0
        self._committed = 0
        self._faults: dict[Address, Reason] = {}
        self._reading: asyncio.Task[Reason | None] | None = None
        self._patience = READ_AGAIN
        self._anew_at = 0.0

    async def aclose(self) -> None:
        """Stop, and close all connections."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._brokers.aclose()

    def recall(self, kept: KeptHistory) -> None:
        """What an earlier reading of this cluster's log kept; it counts from its own place in the log on."""
        self._kept, self._begins_anew = kept, True

    def kept(self) -> KeptHistory | None:
        """What a later reading would lack where Kafka has cut the log off; None: it is not known now.

        This reading goes by it as well, should it have to begin anew.
        """
        kept = self._image.kept()
        self._kept = kept or self._kept
        return kept

    def _blank(self) -> Image:
        return Image(awaited=self._kept)

    async def caught_up(self, cluster_id: str, within: timedelta) -> Image | Reason:
        """All that was committed when this was called; or why that can't be had, or not yet. It raises no ClusterError.

        The image is the log's own, and grows with the next call: it is to be looked at before anything is awaited.
        """
        until = loop_time() + within.total_seconds()
        earlier = self._reading  # one under way may have asked how far the log reaches before this call
        while (reading := self._reading) is None or reading is earlier or not reading.done():
            if reading is None or reading.done():
                reading = asyncio.create_task(self._read(cluster_id), name="read the metadata log")
                self._reading = reading
            done, _ = await asyncio.wait({reading}, timeout=max(0.0, until - loop_time()))
            if not done:
                return self._not_in_time()
        if reading.cancelled():
            return ConnectionsClosed("the controllers").reason
        if (problem := reading.result()) is not None:
            return problem
        if self._image.doubt is not None:
            return Reason("MetadataLogUnreadable", self._image.doubt)
        return self._image

    def _not_in_time(self) -> Reason:
        """Whoever has told how far the log reaches is read to there; before that, somebody is still being asked."""
        if not self._faults and self._image.upto < self._committed:
            return READING
        return MetadataLogUnavailable.nobody_in_time(self._image.upto, self._faults).reason

    async def _read(self, cluster_id: str) -> Reason | None:
        """Why it could not be read, which nobody may be waiting to hear any more. It ends no look, whatever fails."""
        if self._image.doubt is not None and not self._begins_anew and loop_time() < self._anew_at:
            return None
        if self._image.doubt is not None or self._begins_anew:
            self._image, self._begins_anew = self._blank(), False
        new_leader = AsyncRetrying(
            retry=retry_if_exception_type(NotCommittedYet),
            wait=wait_fixed(EACH),
            stop=stop_after_attempt(ASKED_WHAT_IS_COMMITTED),
            reraise=True,
        )
        try:
            await new_leader(self._catch_up, cluster_id)
        except ClusterError as error:
            return error.reason
        except Exception:  # noqa: BLE001 - a defect here costs proofs, and no recovery
            _LOG.exception("the metadata log can't be read for a defect of this program")
            self._image = self._blank()
            return Reason("InternalError", "the metadata log can't be read for a defect of this program; see its log")
        self._look_again_later()
        return None

    def _look_again_later(self) -> None:
        """What was doubtful may be one controller's own fault, and another one lead soon. Ever more seldom."""
        if self._image.doubt is None:
            self._patience = READ_AGAIN
        else:
            self._anew_at = loop_time() + self._patience
            self._patience = min(2 * self._patience, SELDOM)

    async def _catch_up(self, cluster_id: str) -> None:
        """Up to what was committed at the first answer. Raises ClusterError."""
        goal: int | None = None
        while self._image.doubt is None and (goal is None or self._image.upto < goal):
            before = self._image.upto
            at, told = await self._fetch(cluster_id)
            goal = told.high_watermark if goal is None else goal
            self._committed = told.high_watermark
            if told.snapshot_id is not None and told.snapshot_id.end_offset >= 0:
                await self._load_snapshot(cluster_id, at, told)
            elif told.diverging_epoch is not None and told.diverging_epoch.end_offset >= 0:
                ends = told.diverging_epoch.end_offset
                self._image.doubt = f"{at}: the metadata log ends at {ends}, and was committed up to {before} before"
            elif told.high_watermark < before:
                error = NotCommittedYet(at, told.high_watermark, before)
                self._faults[at] = error.reason
                raise error
            else:
                await self._apart(told.records, partial(self._fold, at, told.records))
            if self._image.upto <= before < goal and self._image.doubt is None:
                raise InvalidAnswer(at, f"Fetch of the metadata log at {before} told nothing that is committed")

    def _fold(self, at: Address, records: bytes | None) -> None:
        """Apply what is committed; what stands behind it may vanish yet."""
        image = self._image
        try:
            for batch in batches.read(bytes(records or b"")):
                if batch.last >= self._committed:
                    return
                if batch.first > max(image.upto, _FIRST):
                    image.doubt = f"{at}: the metadata log has nothing from offset {image.upto} to {batch.first - 1}"
                if image.doubt is not None:
                    return
                if batch.last >= image.upto:
                    image.apply(batch)
        except Unreadable as error:
            image.doubt = f"{at}: {error}"

    async def _apart(self, data: Sized | None, fold: Callable[[], None]) -> None:
        """In a thread, if it takes so long that the loop would stand still."""
        if data is not None and len(data) > READ_APART:
            await self._threads.call(fold)
        else:
            fold()

    async def _fetch(self, cluster_id: str) -> tuple[Address, Any]:
        """Ask one controller after the other; the one that leads answers. Raises MetadataLogUnavailable.

        An answer to another epoch than the quorum's, or of a controller that does not lead, tells the epoch.
        """
        image = self._image

        def request(epoch: int) -> Any:
            """Never from offset 0, which is sent to the newest snapshot, past all history. For the epoch of the record
            before the first, the quorum's own passes.
            """
            return fetch(cluster_id, epoch, max(image.upto, _FIRST), image.epoch if image.upto else epoch)

        self._faults.clear()
        for address in list(self._controllers):
            for _ in range(2):
                epoch = self._quorum_epoch
                try:
                    answer = await self._brokers.ask(address, request(epoch), FETCH_VERSIONS, DEADLINE, attempts=1)
                except ClusterError as error:
                    self._faults[address] = error.reason
                    break
                part = _only_part(answer.responses)
                code = answer.error_code or (part.error_code if part is not None else _NONE)
                if code == _ANOTHER_CLUSTER:
                    self._faults[address] = Reason(
                        ClusterIdMismatch.code,
                        f"{address} belongs to another cluster than {cluster_id}: take it out of the controllers named",
                    )
                    break
                if code == _NONE and part is not None:
                    self._faults.clear()
                    self._ask_first(address)
                    return address, part
                self._faults[address] = _refusal(address, code)
                known = self._learn_epoch(part)
                if code not in (_NOT_LEADER, _FENCED_EPOCH, _UNKNOWN_EPOCH) or known == epoch:
                    break
        raise MetadataLogUnavailable.nobody_leads(self._faults)

    def _learn_epoch(self, part: Any) -> int:
        leader = getattr(part, "current_leader", None)
        if leader is not None and leader.leader_epoch >= 0:
            self._quorum_epoch = leader.leader_epoch
        return self._quorum_epoch

    def _ask_first(self, address: Address) -> None:
        self._controllers.remove(address)
        self._controllers.insert(0, address)

    async def _load_snapshot(self, cluster_id: str, at: Address, told: Any) -> None:
        """Begin anew with the oldest snapshot there is: what was known before has a gap behind it, and counts only
        where it speaks against a proof.
        """
        self.kept()
        newest = told.snapshot_id
        tried = range(newest.epoch, max(-1, newest.epoch - EPOCHS_TRIED), -1)
        oldest = [(told.log_start_offset, epoch) for epoch in tried] if told.log_start_offset > 0 else []
        for end, epoch in [*oldest, (newest.end_offset, newest.epoch)]:
            data = await self._snapshot(cluster_id, at, end, epoch)
            if data is not None:
                image = self._blank()
                await self._apart(data, partial(_load, image, end, epoch, bytes(data)))
                self._image = image
                return
        raise MetadataLogUnavailable(f"{at}: the snapshot that the metadata log begins with is gone; look again")

    async def _snapshot(self, cluster_id: str, at: Address, end: int, epoch: int) -> bytearray | None:
        """A whole snapshot; None: there is none of this name (any more). Raises ClusterError."""
        data = bytearray()
        while True:
            request = fetch_snapshot(cluster_id, self._quorum_epoch, end, epoch, len(data))
            answer = await self._brokers.ask(at, request, SNAPSHOT_VERSIONS, DEADLINE)
            part = _only_part(answer.topics)
            if answer.error_code or part is None or part.error_code:
                return None
            if not 0 <= part.size <= LARGEST_SNAPSHOT or part.position != len(data) or not part.unaligned_records:
                raise InvalidAnswer(at, f"FetchSnapshot: {part.size} bytes, of which these begin at {part.position}")
            data += part.unaligned_records
            if len(data) >= part.size:
                return data


def _load(image: Image, end: int, epoch: int, data: bytes) -> None:
    try:
        image.load(end, epoch, batches.read_snapshot(data))
    except Unreadable as error:
        image.doubt = str(error)


def _only_part(topics: Iterable[Any] | None) -> Any:
    """What was told of the one partition that was asked for; None: nothing, or more."""
    parts = [part for topic in topics or () for part in topic.partitions]
    return parts[0] if len(parts) == 1 else None


def _refusal(address: Address, code: int) -> Reason:
    if code in _NOT_A_CONTROLLER:
        return Reason("MetadataLogUnavailable", f"{address} is a broker's listener; name the controllers' own")
    if code == _NONE:
        return InvalidAnswer(address, "Fetch of the metadata log told of no partition, or of several").reason
    if code == _NOT_LEADER:
        return Reason("MetadataLogUnavailable", f"{address} does not lead the quorum")
    return reason_for(code, f"Fetch of the metadata log at {address}", needs=_NEEDS)
