"""Requests that change something: what the controller's answer means, what is asked again, what never is.

They go through a broker, though controllers take them too (KIP-919, 3.7+), and would leave less in doubt: nobody would
forward them for a minute. But brokers refuse to describe the controllers (DescribeCluster, error 114). Where
DescribeQuorum v2 tells their endpoints (seen on 4.4 with a dynamic quorum), those are in a network and with security of
their own: it would take a second address and a second login for every cluster, which hardly anybody could give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from tenacity import (
    AsyncRetrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_attempt,
    wait_exponential_jitter,
)

from kafka_recovery.cluster.brokers import Address, Permit
from kafka_recovery.cluster.errors import ClusterError, NotSent, TooLate, Unanswered, reason_for
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.versions import request_name
from kafka_recovery.domain.election import Answer, ElectionAnswer, Relay
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.reason import Reason

_NONE, _ELECTION_NOT_NEEDED = 0, 84
_NOT_CONTROLLER = 41
_NOT_DONE = frozenset({3, 5, 6, 8, 17, 37, 38, 44, 60, 74, 77, 80, 83, 85, 89, 100})
"""What a controller answers before it has written anything: no such topic or partition, no leader to be had, a
reassignment going on, a policy, a quota, a stale epoch. Every other code leaves it open whether it was done, also one
that is newer than this list. REQUEST_TIMED_OUT, NETWORK_EXCEPTION: the broker gave up waiting for the controller, which
may still do it. NOT_CONTROLLER, UNKNOWN_SERVER_ERROR: a controller that resigns fails with these what it has not yet
committed, after the records went to Raft (QuorumController's deferred events): its successor may commit them."""
_FINAL = frozenset({29, 31, 35, 39, 42, 87})
"""Not authorized, unsupported version, a broker that is not registered, invalid request, invalid record: the same
request fails the same way again."""

ACCEPTED = ElectionAnswer(Answer.ACCEPTED)


def always() -> Reason | None:
    """The permit of whoever needs none."""
    return None


DEADLINE = timedelta(seconds=20)
"""For one request. The controller works off 5000 partitions in about a second."""
SENT_WITHIN = timedelta(seconds=5)
"""An election that could not be sent so soon is not held: the last look at its candidates would be too old by then."""


def soon() -> float:
    """Until when (monotonic seconds) an election that is to be held now may still be sent."""
    return loop_time() + SENT_WITHIN.total_seconds()


Answers = Mapping[TopicPartition, ElectionAnswer]
Read = Callable[[Any], Iterable[tuple[TopicPartition, int]]]
"""Reads each partition's error code out of an answer."""


@dataclass(frozen=True, slots=True)
class Change:
    """A request, and how it may be sent. `needs`: the ACL it takes.

    `repeatable`: to do it twice does no harm, so it is sent again while a controller answers that it is none any more.
    Any other is sent again only if it was certainly never written. `attempts`: how often at most, all in all.
    `until` (monotonic seconds): what is not sent by then is not sent at all.
    """

    request: Any
    versions: tuple[int, int]
    read: Read
    attempts: int
    needs: str
    repeatable: bool = False
    until: float | None = None

    @property
    def name(self) -> str:
        """As Kafka calls the request."""
        return request_name(self.request)


@dataclass(frozen=True, slots=True)
class ControllerRequests:
    """Sends changes through the broker with the newest metadata. `deadline`: for one request.

    `permit`: asked in the line before a request is written; if it says why not, nothing is sent.
    """

    cluster: KafkaCluster
    deadline: timedelta
    permit: Permit

    async def decided(self, ids: Iterable[TopicPartition], change: Change) -> Answers:
        """Send one request that changes something and read an answer for every partition."""
        try:
            answered = await self._answer(change)
        except Unanswered as error:
            return dict.fromkeys(ids, ElectionAnswer(Answer.UNANSWERED, error.reason, self._relay(error.relay)))
        except ClusterError as error:
            return dict.fromkeys(ids, ElectionAnswer(Answer.CHANGED, error.reason))
        relay = self._relay(answered.at)
        left_out = Reason("AnswerIncomplete", f"the answer to {change.name} left this partition out")
        silent = ElectionAnswer(Answer.UNANSWERED, left_out, relay)
        code = answered.answer.error_code
        decided = dict.fromkeys(ids, _verdict(code, change.name, change.needs, relay) if code else silent)
        for id, code in change.read(answered.answer):
            if id in decided:
                accepted = code == _NONE  # usual, and needs no words
                decided[id] = ACCEPTED if accepted else _verdict(code, f"{change.name} of {id}", change.needs, relay)
        return decided

    def _relay(self, at: Address | None) -> Relay | None:
        return self.cluster.relay(at) if at else None

    async def _answer(self, change: Change) -> _Answered:
        """The controller's answer. Raises ClusterError, Unanswered if any of the tries may have been sent."""
        sent: Address | None = None

        def not_controller(answered: _Answered) -> bool:
            answer = answered.answer
            codes = {answer.error_code} if answer.error_code else {code for _, code in change.read(answer)}
            return codes == {_NOT_CONTROLLER}

        async def ask() -> _Answered:
            nonlocal sent
            try:
                answered = await self._once(change)
            except ClusterError as error:
                if sent is None or isinstance(error, Unanswered):
                    raise
                # That this try was not sent says nothing about the one before.
                raise Unanswered(change.name, error, sent) from error
            sent = answered.at
            return answered

        retrying = AsyncRetrying(
            retry=retry_if_result(not_controller) if change.repeatable else retry_if_exception_type(NotSent),
            stop=stop_after_attempt(change.attempts),
            wait=wait_exponential_jitter(multiplier=0.1, max=2, jitter=0.1),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        answered: _Answered = await retrying(ask)
        return answered

    async def _once(self, change: Change) -> _Answered:
        within = self.deadline
        if change.until is not None:
            within = timedelta(seconds=change.until - loop_time())
        if within <= timedelta():
            raise NotSent(change.name, TooLate(SENT_WITHIN))
        began = loop_time()
        at = await self.cluster.route(within)
        left = within - timedelta(seconds=loop_time() - began)
        try:
            answer = await self.cluster.brokers.ask(
                at,
                change.request,
                change.versions,
                self.deadline,
                idempotent=False,
                sent_within=left,
                permit=self.permit,
            )
        except NotSent:
            self.cluster.forget_route(at)
            raise
        return _Answered(answer, at)

    @property
    def timeout_ms(self) -> int:
        """How long the broker is to wait for the controller."""
        return int(self.deadline.total_seconds() * 1000)


class _Answered(NamedTuple):
    """The controller's answer, and the broker that it came through."""

    answer: Any
    at: Address


def elected(answer: Any) -> Iterable[tuple[TopicPartition, int]]:
    """What ElectLeaders was answered, in any version."""
    for topic in answer.replica_election_results:
        for partition in topic.partition_result:
            yield TopicPartition(topic.topic, partition.partition_id), partition.error_code


def _verdict(code: int, what: str, needs: str, relay: Relay | None) -> ElectionAnswer:
    reason = reason_for(code, what, needs=needs)
    if code == _ELECTION_NOT_NEEDED:
        return ElectionAnswer(Answer.NOT_NEEDED, reason, relay)
    if code in _FINAL:
        return ElectionAnswer(Answer.REFUSED, reason, relay)
    return ElectionAnswer(Answer.CHANGED if code in _NOT_DONE else Answer.UNANSWERED, reason, relay)
