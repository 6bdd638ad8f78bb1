"""Port `Election` on the simulated Kafka: the drivers `assignment-order` and `designated` (KIP-1275)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kafka_recovery.domain.election import Answer, Ballot, ElectionAnswer
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.reason import Reason
from kafka_recovery.simulator.host.adapters import SimulatedCluster
from kafka_recovery.simulator.host.wire import Fault, Unanswered, reason_of
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    SERVED,
    AlterReassignments,
    Decided,
    ElectionType,
    ElectLeaders,
    Request,
    Unsupported,
)

_ACCEPTED = ElectionAnswer(Answer.ACCEPTED)
_UNDECIDED = frozenset({Error.REQUEST_TIMED_OUT})
_FINAL = frozenset({Error.INVALID_REQUEST})
_FIRST_PAUSE = 0.1

Answers = Mapping[TopicPartition, ElectionAnswer]
Orders = Mapping[TopicPartition, tuple[BrokerId, ...]]
Change = AlterReassignments | ElectLeaders


@dataclass(frozen=True, slots=True)
class Asking:
    """How a driver asks for changes. `asked` hears of each request before it is sent: what, and for which ballots."""

    cluster: SimulatedCluster
    asked: Callable[[str, Sequence[Ballot]], object] = lambda what, ballots: None
    attempts: int = 3
    deadline: timedelta = timedelta(seconds=20)

    @property
    def by(self) -> str:
        """Who asks."""
        return self.cluster.wire.process.name

    async def decided(self, ids: Sequence[TopicPartition], request: Change) -> Answers:
        """Send one change, again only while the controller says that it certainly did nothing; answers for all."""
        try:
            answer = await self._until_not_transient(request)
        except Unanswered as error:
            return dict.fromkeys(ids, ElectionAnswer(Answer.UNANSWERED, error.reason))
        except Fault as error:
            return dict.fromkeys(ids, ElectionAnswer(Answer.CHANGED, error.reason))
        name = type(request).__name__
        if isinstance(answer, Unsupported):
            unsupported = Reason("UnsupportedVersion", f"the broker does not offer {name} as it was asked")
            return dict.fromkeys(ids, ElectionAnswer(Answer.REFUSED, unsupported))
        silent = ElectionAnswer(Answer.UNANSWERED, Reason("LeftOut", f"the answer to {name} left this partition out"))
        usual = silent if answer.error is Error.NONE else _verdict(answer.error, name)
        told = {id: _verdict(code, f"{name} of {id}") for id, code in answer.partitions.items()}
        return {id: told.get(id, usual) for id in ids}

    async def _until_not_transient(self, request: Change) -> Decided | Unsupported:
        attempt = 0
        while True:
            at = await self.cluster.views.route(self.deadline)
            question: Request[Any] = request
            answer: Decided | Unsupported = await self.cluster.wire.ask_once(at, question, self.deadline)
            if isinstance(answer, Unsupported) or attempt == self.attempts - 1:
                return answer
            codes = set(answer.partitions.values()) if answer.error is Error.NONE else {answer.error}
            if codes != {Error.NOT_CONTROLLER}:
                return answer
            await asyncio.sleep(_FIRST_PAUSE * 2**attempt)
            attempt += 1


@dataclass(frozen=True, slots=True)
class AssignmentOrder:
    """The driver for every KRaft release: the order of the assignment names the leader to be."""

    asking: Asking

    async def designate(self, ballots: Sequence[Ballot]) -> Answers:
        """Set the orders that put the designated replica first, where they are not the present ones anyway."""
        altered = [ballot for ballot in ballots if ballot.order != ballot.assignment]
        answers = dict.fromkeys((ballot.id for ballot in ballots), _ACCEPTED)
        return {**answers, **await self._order("designate", altered, {b.id: b.order for b in altered})}

    async def elect(self, ballots: Sequence[Ballot]) -> Answers:
        """One unclean election of them all: each takes the first acceptable replica of its order."""
        ids = tuple(ballot.id for ballot in ballots)
        self.asking.asked("elect", ballots)
        return await self.asking.decided(ids, ElectLeaders(ElectionType.UNCLEAN, ids, self.asking.by))

    async def restore(self, ballots: Sequence[Ballot]) -> Answers:
        """Put back the orders that are still the ballots'; the others are left as they are."""
        altered = [ballot for ballot in ballots if ballot.order != ballot.assignment]
        answers = dict.fromkeys((ballot.id for ballot in ballots), _ACCEPTED)
        if not altered:
            return answers
        cluster, deadline = self.asking.cluster, self.asking.deadline
        try:
            at = await cluster.views.current(deadline)
            found = await cluster.describe(at, tuple(ballot.id for ballot in altered), deadline)
        except Fault as error:
            return answers | dict.fromkeys((b.id for b in altered), ElectionAnswer(Answer.CHANGED, error.reason))
        ours = [
            b
            for b in altered
            if (state := found.get(b.id)) and state.topic_id == b.topic_id and state.replicas == b.order
        ]
        return {**answers, **await self._order("restore", ours, {b.id: b.assignment for b in ours})}

    async def _order(self, what: str, ballots: Sequence[Ballot], orders: Orders) -> Answers:
        if not orders:
            return {}
        try:
            await self.asking.cluster.views.route(self.asking.deadline)
        except Fault as error:
            return dict.fromkeys(orders, ElectionAnswer(Answer.CHANGED, error.reason))
        self.asking.asked(what, ballots)
        return await self.asking.decided(tuple(orders), AlterReassignments(dict(orders), self.asking.by))


@dataclass(frozen=True, slots=True)
class Designated:
    """The driver for KIP-1275: the request itself names the leader, so there is nothing to prepare or to restore."""

    asking: Asking

    async def designate(self, ballots: Sequence[Ballot]) -> Answers:
        """Nothing to do."""
        return dict.fromkeys((ballot.id for ballot in ballots), _ACCEPTED)

    async def elect(self, ballots: Sequence[Ballot]) -> Answers:
        """So many elections at once as a controller serves; it leaves the others out."""
        answers: dict[TopicPartition, ElectionAnswer] = {}
        for first in range(0, len(ballots), SERVED):
            part = ballots[first : first + SERVED]
            ids = tuple(ballot.id for ballot in part)
            self.asking.asked("elect", part)
            leaders = tuple(ballot.designated for ballot in part)
            request = ElectLeaders(ElectionType.DESIGNATED, ids, self.asking.by, leaders)
            answers |= await self.asking.decided(ids, request)
        return answers

    async def restore(self, ballots: Sequence[Ballot]) -> Answers:
        """Nothing to do."""
        return dict.fromkeys((ballot.id for ballot in ballots), _ACCEPTED)


def _verdict(error: Error, what: str) -> ElectionAnswer:
    if error is Error.NONE:
        return _ACCEPTED
    reason = reason_of(error, what)
    if error is Error.ELECTION_NOT_NEEDED:
        return ElectionAnswer(Answer.NOT_NEEDED, reason)
    if error in _UNDECIDED:
        return ElectionAnswer(Answer.UNANSWERED, reason)
    return ElectionAnswer(Answer.REFUSED if error in _FINAL else Answer.CHANGED, reason)
