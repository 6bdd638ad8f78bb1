"""What an engine's process sends to change things, and what comes back: as the wire has it, whatever its driver says.

A request is answered when a whole answer to it has arrived that can be read, and that says what became of a partition.
Whether the driver thinks so too is for the oracle to compare.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse

from kafka_recovery.cluster.codec import Unreadable, decode
from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest, ElectLeadersResponse
from kafka_recovery.domain.election import Answer, ElectionAnswer, ElectionRequest
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.recovery.ports import Election
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Answered

Answers = Mapping[TopicPartition, ElectionAnswer]

_LENGTH = 4
_ELECTIONS, _ORDERS = ElectLeadersRequest.API_KEY, AlterPartitionReassignmentsRequest.API_KEY
_INSTEAD = {"designate": "restore", "restore": "designate"}
_GAVE_UP = frozenset({-1, 7, 13, 41})
"""UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_CONTROLLER: it may have been done, or may be yet."""
_HIGHEST_KNOWN = 150
"""No release of Kafka has given a meaning to an error code as high: such an answer may be read either way."""


@dataclass(slots=True)
class Written:
    """A request that was handed to the wire. `codes`: what its answer says of each partition; None: none has come."""

    at: float
    key: int
    version: int
    correlation_id: int
    ids: frozenset[TopicPartition]
    codes: Mapping[TopicPartition, int] | None = None

    def take(self, frame: bytes) -> None:
        """Read the answer; one that can't be read is none."""
        response = ElectLeadersResponse if self.key == _ELECTIONS else AlterPartitionReassignmentsResponse
        header = _LENGTH + response.flexible_version_q(self.version)
        try:
            answer = decode(response, self.version, memoryview(frame)[header:])
        except Unreadable:
            return
        said = dict(_elected(answer) if self.key == _ELECTIONS else _altered(answer))
        code = answer.error_code
        self.codes = dict.fromkeys(self.ids, code) if code and not said else said

    def is_doubtful(self, id: TopicPartition) -> bool:
        """Whether what was asked of this partition may still happen, or may not."""
        return self.codes is None or self.codes.get(id, -1) in _GAVE_UP

    def says_too_little(self, id: TopicPartition) -> bool:
        """Whether the answer says something that no release does."""
        return self.codes is not None and self.codes.get(id, -1) > _HIGHEST_KNOWN


@dataclass(slots=True)
class Requests:
    """The changes of one process: what its driver was told to do, and which requests it then sends for that.

    `asked` hears of a request just before it is sent: "designate", "elect" or "restore", and for which requests.
    """

    asked: Callable[[str, Sequence[ElectionRequest]], object]
    now: Callable[[], float]
    written: list[Written] = field(default_factory=list)
    _told: dict[tuple[str, TopicPartition], ElectionRequest] = field(default_factory=dict)

    def told(self, what: str, requests: Sequence[ElectionRequest]) -> None:
        """The driver is about to do this; of an order, its last word says what a request is for."""
        self._told |= {(what, request.id): request for request in requests}
        for request in requests:
            self._told.pop((_INSTEAD.get(what, ""), request.id), None)

    def tap(self) -> Ear:
        """Who hears one connection."""
        return Ear(self)

    def sending(self, frame: bytes) -> Written | None:
        """A frame with its length is about to be sent; the request that it is, if it changes anything."""
        key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (_LENGTH, _LENGTH + 2))
        if key not in (_ELECTIONS, _ORDERS):
            return None
        correlation_id = int.from_bytes(frame[_LENGTH + 4 : _LENGTH + 8], "big")
        written = Written(self.now(), key, version, correlation_id, frozenset())
        if key == _ELECTIONS:
            named = ElectLeadersRequest.decode(frame[_LENGTH:], version=version, header=True).topic_partitions
            ids = {TopicPartition(topic.topic, index) for topic in named or () for index in topic.partitions}
            told = [request for (what, _), request in self._told.items() if what == "elect"]
            about = [request for request in told if named is None or request.id in ids]
            written.ids = frozenset(request.id for request in about)
            self.written.append(written)
            self._tell("elect", about)
        else:
            orders = tuple(_orders(frame[_LENGTH:], version))
            written.ids = frozenset(id for id, _ in orders)
            self.written.append(written)
            for what in ("designate", "restore"):
                self._tell(what, [request for id, order in orders if (request := self._wanted(what, id, order))])
        return written

    def _wanted(self, what: str, id: TopicPartition, order: tuple[BrokerId, ...]) -> ElectionRequest | None:
        """The request that this order is set for; the original order is set by restoring, others by designating."""
        request = self._told.get((what, id))
        restored = request is not None and order == request.assignment
        return request if restored == (what == "restore") else None

    def _tell(self, what: str, requests: Sequence[ElectionRequest]) -> None:
        if requests:
            self.asked(what, requests)


@dataclass(slots=True)
class Ear:
    """One connection, heard at the client's end.

    An answer to what was not asked, or was answered already, is the last thing that a client reads of a connection:
    nobody knows any more which answer is whose, so what comes after it has not arrived.
    """

    requests: Requests
    _asked: set[int] = field(default_factory=set)
    _open: dict[int, Written] = field(default_factory=dict)
    _unread: bytearray = field(default_factory=bytearray)
    _lost: bool = False

    def sending(self, frame: bytes) -> None:
        """A request."""
        self._asked.add(_number(frame[2 * _LENGTH : 3 * _LENGTH]))
        written = self.requests.sending(frame)
        if written is not None:
            self._open[written.correlation_id] = written

    def arrived(self, data: bytes) -> None:
        """Some bytes of answers. Only of what changes things anybody wants to know what they say."""
        if self._lost:
            return
        self._unread += data
        while len(self._unread) >= _LENGTH and len(self._unread) >= (end := _LENGTH + _number(self._unread)):
            frame = bytes(self._unread[_LENGTH:end])
            del self._unread[:end]
            if (answered := _number(frame)) not in self._asked:
                self._lost = True
                return
            self._asked.remove(answered)
            written = self._open.pop(answered, None)
            if written is not None:
                written.take(frame)


@dataclass(frozen=True, slots=True)
class HeardElection:
    """Port `Election` of one process: a real driver, and a note of each answer, by its word and by the wire."""

    driver: Election
    requests: Requests
    story: Chronicle
    process: str
    machine: str

    async def designate(self, requests: Sequence[ElectionRequest]) -> Answers:
        """As the driver does."""
        return await self._heard("designate", requests, self.driver.designate)

    async def elect(self, requests: Sequence[ElectionRequest]) -> Answers:
        """As the driver does."""
        return await self._heard("elect", requests, self.driver.elect)

    async def restore(self, requests: Sequence[ElectionRequest]) -> Answers:
        """As the driver does."""
        return await self._heard("restore", requests, self.driver.restore)

    async def _heard(
        self,
        what: str,
        requests: Sequence[ElectionRequest],
        ask: Callable[[Sequence[ElectionRequest]], Awaitable[Answers]],
    ) -> Answers:
        self.requests.told(what, requests)
        asked_at, key = self.story.now, _ELECTIONS if what == "elect" else _ORDERS
        answers = await ask(requests)
        last = {id: one for one in self.requests.written if one.at >= asked_at and one.key == key for id in one.ids}
        claimed = frozenset(id for id, answer in answers.items() if answer.answer is Answer.UNANSWERED)
        doubtful = frozenset(id for id in answers if id in last and last[id].is_doubtful(id))
        either = frozenset(id for id in answers if id in last and last[id].says_too_little(id))
        accepted = frozenset(id for id, answer in answers.items() if answer.answer is Answer.ACCEPTED)
        now, everybody = self.story.now, frozenset(answers)
        self.story.answered.append(
            Answered(now, self.process, self.machine, what, asked_at, everybody, doubtful, claimed, either, accepted)
        )
        return answers


def _number(data: bytes | bytearray) -> int:
    return int.from_bytes(data[:_LENGTH], "big")


def _orders(frame: bytes, version: int) -> Iterator[tuple[TopicPartition, tuple[BrokerId, ...]]]:
    for topic in AlterPartitionReassignmentsRequest.decode(frame, version=version, header=True).topics:
        for partition in topic.partitions:
            yield (
                TopicPartition(topic.name, partition.partition_index),
                tuple(map(BrokerId, partition.replicas or ())),
            )


def _elected(answer: Any) -> Iterable[tuple[TopicPartition, int]]:
    for topic in answer.replica_election_results:
        for partition in topic.partition_result:
            yield TopicPartition(topic.topic, partition.partition_id), partition.error_code


def _altered(answer: Any) -> Iterable[tuple[TopicPartition, int]]:
    for topic in answer.responses:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition.error_code
