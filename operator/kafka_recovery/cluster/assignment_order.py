"""Driver `assignment-order`: designate a leader on any KRaft release by the order of the assignment.

An unclean election takes the first acceptable replica in assignment order (registered, unfenced, not stopping, log
directory online). So the order is set best first, the election held, and the original order put back: setting the same
replicas in another order completes at once, also on an offline partition, and changes neither leader nor epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from kafka_recovery.cluster.brokers import Permit
from kafka_recovery.cluster.codec import structure
from kafka_recovery.cluster.controller_requests import (
    ACCEPTED,
    DEADLINE,
    Answers,
    Change,
    ControllerRequests,
    always,
    elected,
    soon,
)
from kafka_recovery.cluster.errors import ClusterError
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest
from kafka_recovery.cluster.loop_time import loop_time
from kafka_recovery.cluster.metadata import by_topic
from kafka_recovery.domain.election import Answer, ElectionAnswer, ElectionRequest, Unseen
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.reason import Reason

_topic = structure(AlterPartitionReassignmentsRequest.ReassignableTopic, "name", "partitions")
_partition = structure(
    AlterPartitionReassignmentsRequest.ReassignableTopic.ReassignablePartition, "partition_index", "replicas"
)

_UNCLEAN = 1
_REASSIGNMENT_VERSIONS = (0, 1)
_NEEDS = "ALTER on the cluster"
_INVALID_ASSIGNMENT = "InvalidReplicationAssignment"
"""39: of an order that is another one of the same replicas, only an unregistered broker can be invalid."""


@dataclass(frozen=True, slots=True)
class AssignmentOrderElection:
    """Port `Election`. `attempts`: how often an order is set while a controller answers that it is none any more.

    An election is asked for once: that of a controller that resigned may still take place. An order may be set twice.

    `deadline`: for one request. `permit`: asked in the line before one is written; if it says why not, nothing is sent,
    and the answer is Changed.
    """

    cluster: KafkaCluster
    attempts: int = 3
    deadline: timedelta = DEADLINE
    permit: Permit = always

    async def designate(self, requests: Sequence[ElectionRequest]) -> Answers:
        """Set the orders that put the designated replica first, where they are not the present ones anyway."""
        wrong = {b.id: _not_by_order(b) for b in requests if b.order != b.assignment and b.order[0] != b.designated}
        answers = dict.fromkeys((request.id for request in requests), ACCEPTED) | wrong
        to_set = {b.id: b.order for b in requests if b.order != b.assignment and b.id not in wrong}
        return {**answers, **await self._order(to_set)}

    async def elect(self, requests: Sequence[ElectionRequest], until: float | None = None) -> Answers:
        """One unclean election of them all: each takes the first acceptable replica of its order.

        `until` (monotonic seconds): if it can't be sent by then, it is not held; soon, if nothing is said.
        """
        make = ElectLeadersRequest
        until = soon() if until is None else until
        try:
            alive = await self._alive_before(requests, timedelta(seconds=until - loop_time()))
        except ClusterError as error:
            return dict.fromkeys((request.id for request in requests), ElectionAnswer(Answer.CHANGED, error.reason))
        wrong = {b.id: _not_by_order(b) for b in requests if alive.intersection(_before(b))}
        ids = [request.id for request in requests if request.id not in wrong]
        if not ids:
            return wrong
        topics = [make.TopicPartitions(topic=name, partitions=indexes) for name, indexes in by_topic(ids).items()]
        controller = self._requests
        message = make(election_type=_UNCLEAN, topic_partitions=topics, timeout_ms=controller.timeout_ms)
        change = Change(message, (1, 2), elected, attempts=1, needs=_NEEDS, until=until)
        return {**await controller.decided(ids, change), **wrong}

    async def restore(self, requests: Sequence[ElectionRequest]) -> Answers:
        """Put back the orders that are still the requests'; the others are left as they are.

        One that could not be seen may be ours still: it is answered with Changed.
        """
        altered = [request for request in requests if request.order != request.assignment]
        answers = dict.fromkeys((request.id for request in requests), ACCEPTED)
        if not altered:
            return answers
        try:
            found = await self.cluster.read_current([request.id for request in altered], self.deadline)
        except ClusterError as error:
            return answers | dict.fromkeys((b.id for b in altered), ElectionAnswer(Answer.CHANGED, error.reason))
        absent = {b.id: found.absent(b.id) for b in altered if b.id not in found.states}
        unseen = {id: ElectionAnswer(Answer.CHANGED, it.reason) for id, it in absent.items() if isinstance(it, Unseen)}
        ours = {
            b.id: b.assignment
            for b in altered
            if (state := found.states.get(b.id)) and state.topic_id == b.topic_id and state.replicas == b.order
        }
        return {**answers, **unseen, **await self._order(ours)}

    async def _alive_before(self, requests: Sequence[ElectionRequest], deadline: timedelta) -> frozenset[BrokerId]:
        """Of the brokers that stand before a designated one, those that an election would take."""
        before = {broker for request in requests for broker in _before(request)}
        return await self.cluster.alive(before, deadline) if before else frozenset()

    @property
    def _requests(self) -> ControllerRequests:
        return ControllerRequests(self.cluster, self.deadline, self.permit)

    async def _order(self, orders: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> Answers:
        make = AlterPartitionReassignmentsRequest
        if not orders:
            return {}
        controller = self._requests
        try:
            at = await self.cluster.route(self.deadline)
            version = await self.cluster.brokers.version_for(at, make, _REASSIGNMENT_VERSIONS, self.deadline)
        except ClusterError as error:
            return dict.fromkeys(orders, ElectionAnswer(Answer.CHANGED, error.reason))
        topics = [
            _topic(name, [_partition(index, list(orders[TopicPartition(name, index)])) for index in indexes])
            for name, indexes in by_topic(orders).items()
        ]
        message = make(
            timeout_ms=controller.timeout_ms,
            topics=topics,
            **({"allow_replication_factor_change": False} if version >= 1 else {}),
        )
        change = Change(message, _REASSIGNMENT_VERSIONS, _reassigned, self.attempts, needs=_NEEDS, repeatable=True)
        return await self._named(orders, await controller.decided(orders, change))

    async def _named(self, orders: Mapping[TopicPartition, tuple[BrokerId, ...]], answers: Answers) -> Answers:
        """The answers, saying of those that an unregistered broker stands in the way of which broker that is."""
        stuck = [id for id, said in answers.items() if said.reason and said.reason.code == _INVALID_ASSIGNMENT]
        if not stuck:
            return answers
        missing = await self.cluster.unregistered({broker for id in stuck for broker in orders[id]}, self.deadline)
        refused = {id: _not_registered(id, [b for b in orders[id] if b in missing]) for id in stuck}
        return {**answers, **refused}


def _before(request: ElectionRequest) -> Sequence[BrokerId]:
    """The replicas that stand before the designated one."""
    order = request.order
    return order[: order.index(request.designated)] if request.designated in order else order


def _not_by_order(request: ElectionRequest) -> ElectionAnswer:
    message = (
        f"{request.id} was planned to be elected without another assignment order, but by the one it has, "
        f"{list(request.order)}, another replica than broker {request.designated} would lead; make a new plan"
    )
    return ElectionAnswer(Answer.CHANGED, Reason("PlanOutdated", message))


def _not_registered(id: TopicPartition, missing: Sequence[BrokerId]) -> ElectionAnswer:
    named = f"brokers {missing} are" if missing else "one of its replicas' brokers is"
    message = (
        f"the order of {id} can't be set: {named} not registered in the cluster, and Kafka takes no order that names "
        f"such a broker; reassign {id} to registered brokers first (kafka-reassign-partitions.sh --execute)"
    )
    return ElectionAnswer(Answer.REFUSED, Reason("OrderCannotBeSet", message))


def _reassigned(answer: Any) -> Iterable[tuple[TopicPartition, int]]:
    for topic in answer.responses:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition.error_code
