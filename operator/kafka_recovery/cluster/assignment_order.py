"""Driver `assignment-order`: designate a leader on any KRaft release by the order of the assignment.

An unclean election takes the first acceptable replica in assignment order (registered, unfenced, not stopping, log
directory online). So the order is set best first, the election held, and the original order put back: setting the same
replicas in another order completes at once, also on an offline partition, and changes neither leader nor epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_exponential_jitter

from kafka_recovery.cluster.errors import ClusterError, Unanswered, reason_for
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import by_topic
from kafka_recovery.cluster.versions import request_name
from kafka_recovery.domain.election import Answer, Ballot, ElectionAnswer
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.reason import Reason

_UNCLEAN = 1
_REASSIGNMENT_VERSIONS = (0, 1)
_NONE, _ELECTION_NOT_NEEDED = 0, 84
_NOT_CONTROLLER = 41
_UNDECIDED = frozenset({-1, 7, 13, _NOT_CONTROLLER})
"""REQUEST_TIMED_OUT, NETWORK_EXCEPTION: the broker gave up waiting for the controller, which may still do it.
NOT_CONTROLLER, UNKNOWN_SERVER_ERROR: a controller that resigns fails with these what it has not yet committed, after
the records went to Raft (QuorumController's deferred events): its successor may commit them."""
_FINAL = frozenset({29, 31, 35, 42, 87})
"""Not authorized, unsupported version, invalid request, invalid record: the same request fails the same way again."""
_ACCEPTED = ElectionAnswer(Answer.ACCEPTED)

SENT_WITHIN = timedelta(seconds=5)
"""An election that could not be sent so soon is not held: the last look at its candidates would be too old by then."""


@dataclass(frozen=True, slots=True)
class AssignmentOrderElection:
    """Port `Election`. `attempts`: how often an order is set while a controller answers that it is none any more.

    An election is asked for once: that of a controller that resigned may still take place. An order may be set twice.

    `deadline`: for one request. The controller works off 5000 partitions in about a second.
    """

    cluster: KafkaCluster
    attempts: int = 3
    deadline: timedelta = timedelta(seconds=20)

    async def designate(self, ballots: Sequence[Ballot]) -> Mapping[TopicPartition, ElectionAnswer]:
        """Set the orders that put the designated replica first, where they are not the present ones anyway."""
        answers = dict.fromkeys((ballot.id for ballot in ballots), _ACCEPTED)
        return {**answers, **await self._order({b.id: b.order for b in ballots if b.order != b.assignment})}

    async def elect(self, ballots: Sequence[Ballot]) -> Mapping[TopicPartition, ElectionAnswer]:
        """One unclean election of them all: each takes the first acceptable replica of its order."""
        make = ElectLeadersRequest
        ids = [ballot.id for ballot in ballots]
        topics = [make.TopicPartitions(topic=name, partitions=indexes) for name, indexes in by_topic(ids).items()]
        request = make(election_type=_UNCLEAN, topic_partitions=topics, timeout_ms=self._timeout_ms)
        return await self._decided(ids, request, (1, 2), _elected, attempts=1, sent_within=SENT_WITHIN)

    async def restore(self, ballots: Sequence[Ballot]) -> Mapping[TopicPartition, ElectionAnswer]:
        """Put back the orders that are still the ballots'; the others are left as they are."""
        altered = [ballot for ballot in ballots if ballot.order != ballot.assignment]
        answers = dict.fromkeys((ballot.id for ballot in ballots), _ACCEPTED)
        if not altered:
            return answers
        try:
            found = await self.cluster.read_current([ballot.id for ballot in altered], self.deadline)
        except ClusterError as error:
            return answers | dict.fromkeys((b.id for b in altered), ElectionAnswer(Answer.CHANGED, error.reason))
        ours = {
            b.id: b.assignment
            for b in altered
            if (state := found.states.get(b.id)) and state.topic_id == b.topic_id and state.replicas == b.order
        }
        return {**answers, **await self._order(ours)}

    async def _order(
        self, orders: Mapping[TopicPartition, tuple[BrokerId, ...]]
    ) -> Mapping[TopicPartition, ElectionAnswer]:
        make = AlterPartitionReassignmentsRequest
        if not orders:
            return {}
        try:
            at = await self.cluster.route(self.deadline)
            version = await self.cluster.brokers.version_for(at, make, _REASSIGNMENT_VERSIONS, self.deadline)
        except ClusterError as error:
            return dict.fromkeys(orders, ElectionAnswer(Answer.CHANGED, error.reason))
        topics = [
            make.ReassignableTopic(
                name=name,
                partitions=[
                    make.ReassignableTopic.ReassignablePartition(
                        partition_index=index, replicas=list(orders[TopicPartition(name, index)])
                    )
                    for index in indexes
                ],
            )
            for name, indexes in by_topic(orders).items()
        ]
        request = make(
            timeout_ms=self._timeout_ms,
            topics=topics,
            **({"allow_replication_factor_change": False} if version >= 1 else {}),
        )
        return await self._decided(orders, request, _REASSIGNMENT_VERSIONS, _reassigned, self.attempts)

    async def _decided(
        self,
        ids: Iterable[TopicPartition],
        request: Any,
        versions: tuple[int, int],
        read: Callable[[Any], Iterable[tuple[TopicPartition, int]]],
        attempts: int,
        sent_within: timedelta | None = None,
    ) -> Mapping[TopicPartition, ElectionAnswer]:
        """Send one request that changes something and read an answer for every partition."""
        try:
            answer = await self._while_not_controller(request, versions, read, attempts, sent_within)
        except Unanswered as error:
            return dict.fromkeys(ids, ElectionAnswer(Answer.UNANSWERED, error.reason))
        except ClusterError as error:
            return dict.fromkeys(ids, ElectionAnswer(Answer.CHANGED, error.reason))
        name = request_name(request)
        silent = ElectionAnswer(Answer.UNANSWERED, Reason("LeftOut", f"the answer to {name} left this partition out"))
        decided = dict.fromkeys(ids, silent if not answer.error_code else _verdict(answer.error_code, name))
        for id, code in read(answer):
            if id in decided:
                decided[id] = _verdict(code, f"{name} of {id}")
        return decided

    async def _while_not_controller(
        self,
        request: Any,
        versions: tuple[int, int],
        read: Callable[[Any], Iterable[tuple[TopicPartition, int]]],
        attempts: int,
        sent_within: timedelta | None,
    ) -> Any:
        """The controller's answer; asked so many times, while it is NOT_CONTROLLER for every partition."""
        resigned = False

        def not_controller(answer: Any) -> bool:
            codes = {answer.error_code} if answer.error_code else {code for _, code in read(answer)}
            return codes == {_NOT_CONTROLLER}

        async def ask() -> Any:
            nonlocal resigned
            try:
                began, within = loop_time(), self.deadline if sent_within is None else sent_within
                at = await self.cluster.route(within)
                left = within - timedelta(seconds=loop_time() - began)
                answer = await self.cluster.brokers.ask(
                    at, request, versions, self.deadline, idempotent=False, sent_within=left
                )
            except ClusterError as error:
                if not resigned or isinstance(error, Unanswered):
                    raise
                # That this try was not sent says nothing about the one before.
                raise Unanswered(request_name(request), error) from error
            resigned = not_controller(answer)
            return answer

        retrying = AsyncRetrying(
            retry=retry_if_result(not_controller),
            stop=stop_after_attempt(attempts),
            wait=wait_exponential_jitter(multiplier=0.1, max=2, jitter=0.1),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome else None,
        )
        return await retrying(ask)

    @property
    def _timeout_ms(self) -> int:
        return int(self.deadline.total_seconds() * 1000)


def _reassigned(answer: Any) -> Iterable[tuple[TopicPartition, int]]:
    for topic in answer.responses:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition.error_code


def _elected(answer: Any) -> Iterable[tuple[TopicPartition, int]]:
    for topic in answer.replica_election_results:
        for partition in topic.partition_result:
            yield TopicPartition(topic.topic, partition.partition_id), partition.error_code


def _verdict(code: int, what: str) -> ElectionAnswer:
    if code == _NONE:
        return _ACCEPTED
    reason = reason_for(code, what, needs="ALTER on the cluster")
    if code == _ELECTION_NOT_NEEDED:
        return ElectionAnswer(Answer.NOT_NEEDED, reason)
    if code in _UNDECIDED:
        return ElectionAnswer(Answer.UNANSWERED, reason)
    return ElectionAnswer(Answer.REFUSED if code in _FINAL else Answer.CHANGED, reason)
