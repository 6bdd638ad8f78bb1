"""Measuring replicas: log end, log start and leader-epoch vector, asked of each replica's own broker.

A partition without a leader still has followers that answer: ListOffsets with replica id -2 gives the log end, and a
sessionless Fetch far beyond the end gives, for an epoch E, the largest epoch ≤ E and where it ends (KIP-595's diverging
epoch). E above the replica's latest epoch is answered with OFFSET_OUT_OF_RANGE, so the latest is found first, then the
vector is walked down. Measured on Kafka 3.9 to 4.4.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest

from kafka_recovery.cluster.brokers import Address, Brokers
from kafka_recovery.cluster.errors import InvalidAnswer, reason_for
from kafka_recovery.cluster.metadata import PartitionState, by_topic, topic_id_text, topic_uuid
from kafka_recovery.domain.evidence import EpochEntry, EpochVector, Replica, ReplicaLog
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.reason import Reason

PARTITIONS_A_REQUEST = 2500
VECTOR_ENTRIES = 64
"""Entries of a vector that are read, newest first; older ones are left out as if the log began later."""

_LATEST, _EARLIEST, _MAX_TIMESTAMP = -1, -2, -3
_CONSUMER, _DEBUGGING_CONSUMER = -1, -2
_BEYOND_ANY_END = 2**63 - 1
_ANY_EPOCH = LeaderEpoch(-1)
_NONE, _OUT_OF_RANGE, _TOPIC_AUTHORIZATION_FAILED, _KAFKA_STORAGE_ERROR = 0, 1, 29, 56
_UNKNOWN_LEADER_EPOCH = 75
_OTHER_EPOCH = frozenset({74, 75})
_LIST_OFFSETS_VERSIONS, _FETCH_VERSIONS = (7, 11), (13, 18)
_METADATA_LAG = timedelta(seconds=1)
"""How long a live broker may take to learn the current leader epoch before it counts as not knowing it."""


@dataclass(slots=True)
class _Probe:
    """What is known so far about one replica while it is being measured.

    `known`: largest epoch known to be at most the latest; `above`: smallest known to be above it. `ends`: pairs of
    epoch and end offset, newest first. `unreadable`: why there is no vector.
    """

    state: PartitionState
    end: int | None = None
    start: int | None = None
    high_watermark: int | None = None
    knows_current_epoch: bool = False
    known: int = -1
    above: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)
    problem: Reason | None = None
    unreadable: Reason | None = None
    leads: bool = False

    @property
    def id(self) -> TopicPartition:
        return self.state.id


@dataclass(frozen=True, slots=True)
class ReplicaSurvey:
    """One broker's copies of many partitions, measured in a few batched requests, each under `deadline`."""

    brokers: Brokers
    broker: BrokerId
    at: Address
    deadline: timedelta

    async def measure(self, states: Iterable[PartitionState], *, may_lead: bool) -> Mapping[TopicPartition, Replica]:
        """A Replica for every partition; `may_lead` asks of each whether the broker thinks that it leads.

        Raises ClusterError if the broker can't be asked.
        """
        everything = list(states)
        chunks = [everything[i : i + PARTITIONS_A_REQUEST] for i in range(0, len(everything), PARTITIONS_A_REQUEST)]
        measured = await asyncio.gather(*(self._measure(chunk, may_lead) for chunk in chunks))
        return {id: replica for part in measured for id, replica in part.items()}

    async def leading(
        self, partitions: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[LeaderEpoch, Offset]]:
        """Leader epoch and log end of those partitions that the broker answers for as leader."""
        ids = list(partitions)
        chunks = [ids[i : i + PARTITIONS_A_REQUEST] for i in range(0, len(ids), PARTITIONS_A_REQUEST)]
        asked = (self._list_offsets(dict.fromkeys(chunk, _ANY_EPOCH), _LATEST, _CONSUMER) for chunk in chunks)
        return {
            id: (LeaderEpoch(answer.leader_epoch), Offset(answer.offset))
            for part in await asyncio.gather(*asked)
            for id, answer in part.items()
            if answer.error_code == _NONE
        }

    async def _measure(self, states: Sequence[PartitionState], may_lead: bool) -> Mapping[TopicPartition, Replica]:
        began = time.monotonic()
        probes = [_Probe(state, above=state.leader_epoch + 1) for state in states]
        await asyncio.gather(self._log_ends(probes), self._hints(probes))
        doubtful = {probe.id: probe for probe in probes if may_lead or not probe.knows_current_epoch}
        for id in await self.leading(doubtful) if doubtful else ():
            doubtful[id].leads = True
        measured = [probe for probe in probes if probe.end is not None]
        await self._epoch_vectors(measured)
        await self._log_starts([probe for probe in measured if probe.start is None])
        now, took = datetime.now(UTC), timedelta(seconds=time.monotonic() - began)
        return {probe.id: self._replica(probe, now, took) for probe in probes}

    def _replica(self, probe: _Probe, now: datetime, took: timedelta) -> Replica:
        if probe.end is None or probe.start is None:
            missing = Reason("NoAnswer", f"broker {self.broker} did not answer about {probe.id}")
            return Replica(self.broker, None, probe.problem or missing, probe.leads)
        log = ReplicaLog(
            start=Offset(probe.start),
            end=Offset(probe.end),
            epochs=None if probe.unreadable else _vector(probe.ends, probe.start, probe.end),
            high_watermark=None if probe.high_watermark is None else Offset(probe.high_watermark),
            answered_under=probe.state.leader_epoch if probe.knows_current_epoch else None,
            observed_at=now,
            took=took,
        )
        return Replica(self.broker, log, probe.problem or probe.unreadable, probe.leads)

    async def _log_ends(self, probes: Sequence[_Probe]) -> None:
        """Log end under the current leader epoch; where the broker does not know that epoch, without it."""
        pending = {probe.id: probe for probe in probes}
        give_up_at = time.monotonic() + _METADATA_LAG.total_seconds()
        while pending:
            epochs = {id: probe.state.leader_epoch for id, probe in pending.items()}
            answers = await self._list_offsets(epochs, _LATEST, _DEBUGGING_CONSUMER)
            for id, probe in pending.items():
                self._note_end(probe, answers.get(id))
            late = {
                id: p for id, p in pending.items() if id in answers and answers[id].error_code == _UNKNOWN_LEADER_EPOCH
            }
            if not late or time.monotonic() > give_up_at:
                break
            pending = late
            await asyncio.sleep(0.1)
        others = {probe.id: probe for probe in probes if probe.problem and probe.problem.code == "OtherLeaderEpoch"}
        answers = await self._list_offsets(dict.fromkeys(others, _ANY_EPOCH), _LATEST, _DEBUGGING_CONSUMER)
        for id, answer in answers.items():
            if answer.error_code == _NONE:
                others[id].end = answer.offset

    def _note_end(self, probe: _Probe, answer: Any) -> None:
        if answer is None:
            return
        if answer.error_code == _NONE:
            probe.end, probe.knows_current_epoch, probe.problem = answer.offset, True, None
        elif answer.error_code in _OTHER_EPOCH:
            asked = f"leader epoch {probe.state.leader_epoch} of {probe.id}"
            probe.problem = Reason("OtherLeaderEpoch", f"broker {self.broker} does not answer under {asked}")
        else:
            offline = answer.error_code == _KAFKA_STORAGE_ERROR
            needs = f"DESCRIBE on topic {probe.id.topic}"
            what = f"ListOffsets of {probe.id} at broker {self.broker}"
            problem = reason_for(answer.error_code, what, needs=needs)
            probe.problem = Reason("LogDirOffline", problem.message) if offline else problem

    async def _hints(self, probes: Sequence[_Probe]) -> None:
        """The newest record by timestamp tells its epoch: where timestamps rise, the latest. A hint, never a proof."""
        by_id = {probe.id: probe for probe in probes}
        answers = await self._list_offsets(dict.fromkeys(by_id, _ANY_EPOCH), _MAX_TIMESTAMP, _DEBUGGING_CONSUMER)
        for id, answer in answers.items():
            if answer.error_code == _NONE:
                by_id[id].known = min(answer.leader_epoch, by_id[id].above - 1)

    async def _epoch_vectors(self, probes: Sequence[_Probe]) -> None:
        """Find each replica's latest epoch by bisection from the hint on, then walk its vector down."""
        searching = [probe for probe in probes if probe.above - probe.known > 1]
        hinted = True
        while searching:
            asked = [(p, p.known + 1 if hinted and p.known >= 0 else (p.known + p.above) // 2) for p in searching]
            hinted = False
            found = await self._ends_of_epochs(asked)
            for probe, epoch in asked:
                if probe.id in found:
                    probe.known, probe.above = (epoch, probe.above) if found[probe.id] else (probe.known, epoch)
            searching = [p for p in searching if p.above - p.known > 1 and p.unreadable is None]
        walking = [(probe, probe.known) for probe in probes if probe.known >= 0 and probe.unreadable is None]
        while walking:
            found = await self._ends_of_epochs(walking)
            walking = [
                (probe, found_end[0] - 1)
                for probe, _ in walking
                if (found_end := found.get(probe.id)) is not None and _one_step_down(probe, found_end)
            ]

    async def _ends_of_epochs(
        self, asked: Sequence[tuple[_Probe, int]]
    ) -> Mapping[TopicPartition, tuple[int, int] | None]:
        """For each (replica, epoch E): the largest epoch ≤ E and its end offset; None where E is above the latest."""
        by_id = {probe.id: (probe, epoch) for probe, epoch in asked}
        topic, wanted = FetchRequest.FetchTopic, FetchRequest.FetchTopic.FetchPartition
        topics = []
        for name, indexes in by_topic(by_id).items():
            questions = [
                wanted(
                    partition=index,
                    current_leader_epoch=probe.state.leader_epoch if probe.knows_current_epoch else _ANY_EPOCH,
                    fetch_offset=_BEYOND_ANY_END,
                    last_fetched_epoch=epoch,
                    log_start_offset=-1,
                    partition_max_bytes=1,
                )
                for index in indexes
                for probe, epoch in (by_id[TopicPartition(name, index)],)
            ]
            id = by_id[TopicPartition(name, indexes[0])][0].state.topic_id
            topics.append(topic(topic_id=topic_uuid(id), partitions=questions))
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1, isolation_level=0, session_id=0, session_epoch=-1,
            topics=topics, forgotten_topics_data=[], rack_id="",
        )  # fmt: skip
        answer = await self.brokers.ask(self.at, request, versions=_FETCH_VERSIONS, deadline=self.deadline)
        if answer.error_code:
            self._all_unreadable(by_id.values(), answer.error_code)
            return {}
        names = {probe.state.topic_id: probe.id.topic for probe, _ in by_id.values()}
        found: dict[TopicPartition, tuple[int, int] | None] = {}
        for entry in answer.responses:
            topic_name = names.get(topic_id_text(entry.topic_id), "")
            for part in entry.partitions:
                pair = by_id.get(TopicPartition(topic_name, part.partition_index))
                if pair is None:
                    raise InvalidAnswer(self.at, "Fetch answered about a partition that was not asked")
                self._note_epoch(pair[0], pair[1], part, found)
        self._all_unreadable([pair for id, pair in by_id.items() if id not in found and pair[0].unreadable is None], -1)
        return found

    def _note_epoch(
        self, probe: _Probe, asked: int, part: Any, found: dict[TopicPartition, tuple[int, int] | None]
    ) -> None:
        id, diverging = probe.id, part.diverging_epoch
        if part.error_code == _OUT_OF_RANGE:
            found[id] = None
        elif part.error_code != _NONE:
            what = f"Fetch of {id} at broker {self.broker}"
            probe.unreadable = reason_for(part.error_code, what, needs=f"READ on topic {id.topic}")
            probe.knows_current_epoch = probe.knows_current_epoch and part.error_code == _TOPIC_AUTHORIZATION_FAILED
        elif diverging is None or not 0 <= diverging.epoch <= asked or diverging.end_offset < 0:
            probe.unreadable = Reason("NoEpochVector", f"broker {self.broker} gave no leader epochs of {id}")
        else:
            found[id] = (diverging.epoch, diverging.end_offset)
            if part.log_start_offset >= 0:
                probe.start = part.log_start_offset
            if part.high_watermark >= 0:
                probe.high_watermark = part.high_watermark

    def _all_unreadable(self, pairs: Iterable[tuple[_Probe, int]], code: int) -> None:
        for probe, _ in pairs:
            reason = reason_for(code, f"Fetch of {probe.id} at broker {self.broker}") if code > 0 else None
            probe.unreadable = reason or Reason("NoEpochVector", f"broker {self.broker} left out {probe.id}")

    async def _log_starts(self, probes: Sequence[_Probe]) -> None:
        """The log start of replicas whose vector could not tell it: an empty one, or one that may not be read."""
        by_id = {probe.id: probe for probe in probes}
        answers = await self._list_offsets(dict.fromkeys(by_id, _ANY_EPOCH), _EARLIEST, _DEBUGGING_CONSUMER)
        for id, answer in answers.items():
            if answer.error_code == _NONE:
                by_id[id].start = answer.offset

    async def _list_offsets(
        self, epochs: Mapping[TopicPartition, LeaderEpoch], timestamp: int, replica_id: int
    ) -> Mapping[TopicPartition, Any]:
        """One ListOffsets for all; checked: only what was asked, nothing twice, no impossible offset."""
        if not epochs:
            return {}
        topic, wanted = ListOffsetsRequest.ListOffsetsTopic, ListOffsetsRequest.ListOffsetsTopic.ListOffsetsPartition
        topics = [
            topic(
                name=name,
                partitions=[
                    wanted(
                        partition_index=index,
                        current_leader_epoch=epochs[TopicPartition(name, index)],
                        timestamp=timestamp,
                    )
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(epochs).items()
        ]
        request = ListOffsetsRequest(replica_id=replica_id, isolation_level=0, topics=topics)
        answer = await self.brokers.ask(self.at, request, versions=_LIST_OFFSETS_VERSIONS, deadline=self.deadline)
        found: dict[TopicPartition, Any] = {}
        for entry in answer.topics:
            for part in entry.partitions:
                id = TopicPartition(entry.name, part.partition_index)
                if id not in epochs or id in found or (part.error_code == _NONE and part.offset < -1):
                    raise InvalidAnswer(
                        self.at, f"ListOffsets gave {id} offset {part.offset}: not asked, twice or impossible"
                    )
                found[id] = part
        return found


def _one_step_down(probe: _Probe, found: tuple[int, int]) -> bool:
    """Note an epoch and its end; True if there may be an older one.

    Below its first entry a broker echoes the epoch that was asked, with the first entry's start.
    """
    epoch, end = found
    below_first_entry = bool(probe.ends) and probe.start is not None and end <= probe.start
    if below_first_entry:
        return False
    probe.ends.append((epoch, end))
    return epoch > 0 and len(probe.ends) < VECTOR_ENTRIES


def _vector(ends: Sequence[tuple[int, int]], start: int, end: int) -> EpochVector:
    """Entries (epoch, start), oldest first, from (epoch, end), newest first.

    Of a vector that was not read to its beginning the oldest entry is left out: where that one begins is not known.
    """
    begins = [older_end for _, older_end in ends[1:]]
    if len(ends) < VECTOR_ENTRIES or ends[-1][0] == 0:
        begins.append(start)
    entries = [
        EpochEntry(LeaderEpoch(epoch), Offset(max(begin, start)))
        for (epoch, _), begin in zip(ends, begins, strict=False)
        if begin <= end
    ]
    return tuple(reversed(entries))
