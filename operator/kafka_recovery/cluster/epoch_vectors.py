"""Reading leader-epoch vectors of replicas that nobody leads.

A sessionless Fetch far beyond the end gives, for an epoch E, the largest epoch ≤ E and where it ends (KIP-595's
diverging epoch). E above the replica's latest epoch is answered with OFFSET_OUT_OF_RANGE, so the latest is found first,
then the vector is walked down. Measured on Kafka 3.9 to 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.consumer import FetchRequest

from kafka_recovery.cluster.broker_reader import ANY_EPOCH, BrokerReader
from kafka_recovery.cluster.codec import structure
from kafka_recovery.cluster.errors import InvalidAnswer, reason_for
from kafka_recovery.cluster.metadata import PartitionState, topic_id_text, topic_uuid
from kafka_recovery.domain.evidence import EpochEntry, EpochVector, ReplicaLog
from kafka_recovery.domain.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.reason import Reason

VECTOR_ENTRIES = 64
"""Entries of a vector that are read, newest first; older ones are left out as if the log began later."""

_NONE, _OUT_OF_RANGE, _TOPIC_AUTHORIZATION_FAILED = 0, 1, 29
_BEYOND_ANY_END = 2**63 - 1
_VERSIONS = (13, 16)
"""From 13 on a topic has its id. After 16 each partition has fields for replicas, which cost time and stay empty."""

_topic = structure(FetchRequest.FetchTopic, "topic_id", "partitions")
_question = structure(
    FetchRequest.FetchTopic.FetchPartition,
    "partition",
    "current_leader_epoch",
    "last_fetched_epoch",
    "fetch_offset",
    "log_start_offset",
    "partition_max_bytes",
)


@dataclass(slots=True)
class Probe:
    """What is known so far about one replica while it is being measured.

    `known`: largest epoch known to be at most the latest; `above`: smallest known to be above it. `ends`: pairs of
    epoch and end offset, newest first; all of them once `walked`. `unreadable`: why there is no vector. `same`: the
    log as it was measured before, if it can't have changed since. `ends_before`: its broker can't read where it said
    that the log ends. `question`: what Fetch was asked last about it, to be asked again with another epoch.
    """

    state: PartitionState
    id: TopicPartition = field(init=False)
    end: int | None = None
    start: int | None = None
    high_watermark: int | None = None
    knows_current_epoch: bool = False
    known: int = -1
    above: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)
    walked: bool = False
    same: ReplicaLog | None = None
    problem: Reason | None = None
    unreadable: Reason | None = None
    leads: bool = False
    ends_before: bool = False
    question: Any = None

    def __post_init__(self) -> None:
        self.id = self.state.id

    def go_on_from(self, earlier: Probe) -> None:
        """Take over what an attempt that was not finished has found, if that can't have changed since.

        A replica that knows the current epoch follows nobody while there is no leader: the same end is the same log.
        """
        if self.knows_current_epoch and earlier.knows_current_epoch and self.end == earlier.end:
            self.known, self.above, self.ends, self.walked = earlier.known, earlier.above, earlier.ends, earlier.walked
            self.start, self.high_watermark = earlier.start, earlier.high_watermark

    def is_still(self, before: ReplicaLog) -> bool:
        """Whether this is the log that was measured `before`; then its vector is taken over, or that it is not known.

        A replica that knows the current epoch follows nobody while there is no leader: the same end is the same log.
        """
        same_epoch = self.knows_current_epoch and before.answered_under == self.state.leader_epoch
        if not same_epoch or self.end != before.end:
            return False
        self.same, self.walked = before, True
        self.start, self.high_watermark = before.start, before.high_watermark
        return True

    @property
    def end_by_fetch(self) -> int | None:
        """Where the newest epoch ends, if that has to be where the log ends; None: it need not, or is not known."""
        return self.ends[0][1] if self.stands_still and self.ends and self.same is None else None

    @property
    def stands_still(self) -> bool:
        """Whether its log can't change: it follows nobody, and knows that nobody leads."""
        return self.knows_current_epoch and self.state.leader is None

    @property
    def records_without_epochs(self) -> bool:
        """Whether it is told to hold records, and knows no leader epoch of any.

        Records of a message format before KIP-101 have none. A broker that was stopped cleanly and finds no
        leader-epoch-checkpoint file knows none either.
        """
        read = self.walked and self.same is None and self.unreadable is None and not self.ends
        return read and self.start is not None and self.end is not None and self.start < self.end

    @property
    def contradicts(self) -> bool:
        """Whether two readers were told different ends of a log that stands still."""
        other = self.end_by_fetch
        return self.end is not None and other is not None and other != self.end

    @property
    def vector(self) -> EpochVector | None:
        """Oldest first; None unless all that is wanted of it was read."""
        if self.same is not None:
            return self.same.epochs
        if not self.walked or self.unreadable or self.start is None or self.end is None or self.records_without_epochs:
            return None
        return _vector(self.ends, self.start, self.end)


Asked = tuple[Probe, int]
"""A replica, and the epoch it is asked about."""

Told = dict[int, tuple[int, int] | None]
"""By a question's place among those that are asked: the largest epoch ≤ the asked one and its end offset; None where
the asked one is above the latest."""

_NO_EPOCH = -1
"""Asked about none, a broker tells instead whether its log reaches to the offset that it is asked for."""


@dataclass(frozen=True, slots=True)
class EpochVectors:
    """The vectors of one broker's replicas, all at once: a request a step."""

    reader: BrokerReader

    async def read(self, probes: Sequence[Probe]) -> None:
        """Note each replica's vector, log start and high watermark. Raises ClusterError; what was noted stands."""
        await self._find_latest([probe for probe in probes if probe.above - probe.known > 1])
        walking = []
        for probe in probes:
            probe.walked = probe.walked or (probe.known < 0 and probe.unreadable is None)
            if not probe.walked and probe.unreadable is None:
                walking.append((probe, probe.ends[-1][0] - 1 if probe.ends else probe.known))
        await self._walk_down(walking)

    async def read_at_end(self, probes: Sequence[Probe]) -> None:
        """Of logs that are told to hold records and no leader epochs: note whose brokers can't read at the told end.

        Kafka answers an offset beyond the end with OFFSET_OUT_OF_RANGE, and the end itself without an error. Whatever
        else is answered, such a vector is not known. Raises ClusterError.
        """
        if probes:
            await self._ends_of_epochs([(probe, _NO_EPOCH) for probe in probes])

    async def _find_latest(self, searching: Sequence[Probe]) -> None:
        """By bisection; the first guess is that the hint was the latest."""
        hinted = True
        while searching:
            asked = [(p, p.known + 1 if hinted and p.known >= 0 else (p.known + p.above) // 2) for p in searching]
            hinted = False
            told = await self._ends_of_epochs(asked)
            for place, epoch_and_end in told.items():
                probe, epoch = asked[place]
                if epoch_and_end is None:
                    probe.above = epoch
                else:
                    probe.known = epoch
            searching = [p for p in searching if p.above - p.known > 1 and p.unreadable is None]

    async def _walk_down(self, walking: Sequence[Asked]) -> None:
        while walking:
            told = await self._ends_of_epochs(walking)
            further = []
            for place, (probe, asked) in enumerate(walking):
                if probe.unreadable is not None:
                    continue
                epoch_and_end = told.get(place)
                if epoch_and_end is None:
                    what = f"epoch {asked} was gone from the log of {probe.id} while its vector was read"
                    probe.unreadable = Reason("EpochVectorUnreadable", f"broker {self.reader.broker}: {what}")
                elif _one_step_down(probe, epoch_and_end):
                    further.append((probe, epoch_and_end[0] - 1))
                else:
                    probe.walked = True
            walking = further

    async def _ends_of_epochs(self, asked: Sequence[Asked]) -> Told:
        """Ask each replica about its epoch; of those that are not told of, `unreadable` says why."""
        places: dict[TopicId, dict[int, int]] = {}
        for place, (probe, _) in enumerate(asked):
            places.setdefault(probe.state.topic_id, {})[probe.id.partition] = place
        answer = await self.reader.ask(_fetch(asked, places), versions=_VERSIONS)
        if answer.error_code:
            self._left_unread(asked, answer.error_code)
            return {}
        told: Told = {}
        for entry in answer.responses:
            of_topic = places.get(topic_id_text(entry.topic_id), {})
            for part in entry.partitions:
                found = of_topic.get(part.partition_index)
                if found is None:
                    raise InvalidAnswer(self.reader.at, "Fetch answered about a partition that was not asked")
                self._note_epoch(found, asked[found], part, told)
        if len(told) < len(asked):
            self._left_unread([q for place, q in enumerate(asked) if place not in told and q[0].unreadable is None], 0)
        return told

    def _note_epoch(self, place: int, question: Asked, part: Any, told: Told) -> None:
        probe, asked = question
        if part.error_code == _OUT_OF_RANGE:
            told[place], probe.ends_before = None, asked == _NO_EPOCH
            return
        id, broker = probe.id, self.reader.broker
        if part.error_code != _NONE:
            what = f"Fetch of {id} at broker {broker}"
            probe.unreadable = reason_for(part.error_code, what, needs=f"READ on topic {id.topic}")
            probe.knows_current_epoch = probe.knows_current_epoch and part.error_code == _TOPIC_AUTHORIZATION_FAILED
            return
        diverging = part.diverging_epoch
        if diverging is None or not 0 <= diverging.epoch <= asked or diverging.end_offset < 0:
            probe.unreadable = Reason("EpochVectorUnreadable", f"broker {broker} gave no leader epochs of {id}")
            return
        told[place] = (diverging.epoch, diverging.end_offset)
        if part.log_start_offset >= 0:
            probe.start = part.log_start_offset
        if part.high_watermark >= 0:
            probe.high_watermark = part.high_watermark

    def _left_unread(self, questions: Iterable[Asked], code: int) -> None:
        broker = self.reader.broker
        for probe, _ in questions:
            left_out = Reason("EpochVectorUnreadable", f"broker {broker} left out {probe.id}")
            probe.unreadable = reason_for(code, f"Fetch of {probe.id} at broker {broker}") if code else left_out


def _fetch(asked: Sequence[Asked], places: Mapping[TopicId, Mapping[int, int]]) -> Any:
    """A Fetch that gets no records, only where each replica's epoch ends."""
    topics = [
        _topic(topic_uuid(id), [_question_about(*asked[place]) for place in of_topic.values()])
        for id, of_topic in places.items()
    ]
    return FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1, isolation_level=0, session_id=0, session_epoch=-1,
        topics=topics, forgotten_topics_data=[], rack_id="",
    )  # fmt: skip


def _question_about(probe: Probe, epoch: int) -> Any:
    leader_epoch = probe.state.leader_epoch if probe.knows_current_epoch else ANY_EPOCH
    offset = probe.end if epoch == _NO_EPOCH else _BEYOND_ANY_END
    question = probe.question
    if question is None:
        question = probe.question = _question(probe.id.partition, leader_epoch, epoch, offset, -1, 1)
    question.current_leader_epoch, question.last_fetched_epoch, question.fetch_offset = leader_epoch, epoch, offset
    return question


def _one_step_down(probe: Probe, found: tuple[int, int]) -> bool:
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
