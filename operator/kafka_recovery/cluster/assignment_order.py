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

from kafka_recovery.cluster.controller_requests import (
    ACCEPTED,
    DEADLINE,
    Answers,
    Change,
    ControllerRequests,
    elected,
    soon,
)
from kafka_recovery.cluster.errors import ClusterError
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest
from kafka_recovery.cluster.metadata import by_topic
from kafka_recovery.domain.election import Answer, Ballot, ElectionAnswer
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.reason import Reason

_UNCLEAN = 1
_REASSIGNMENT_VERSIONS = (0, 1)
_NEEDS = "ALTER on the cluster"


@dataclass(frozen=True, slots=True)
class AssignmentOrderElection:
    """Port `Election`. `attempts`: how often an order is set while a controller answers that it is none any more.

    An election is asked for once: that of a controller that resigned may still take place. An order may be set twice.

    `deadline`: for one request.
    """

    cluster: KafkaCluster
    attempts: int = 3
    deadline: timedelta = DEADLINE

    async def designate(self, ballots: Sequence[Ballot]) -> Answers:
        """Set the orders that put the designated replica first, where they are not the present ones anyway."""
        wrong = {ballot.id: _not_by_order(ballot) for ballot in ballots if not elects_by_order(ballot)}
        answers = dict.fromkeys((ballot.id for ballot in ballots), ACCEPTED) | wrong
        to_set = {b.id: b.order for b in ballots if b.order != b.assignment and b.id not in wrong}
        return {**answers, **await self._order(to_set)}

    async def elect(self, ballots: Sequence[Ballot], until: float | None = None) -> Answers:
        """One unclean election of them all: each takes the first acceptable replica of its order.

        `until` (monotonic seconds): if it can't be sent by then, it is not held; soon, if nothing is said.
        """
        make = ElectLeadersRequest
        wrong = {ballot.id: _not_by_order(ballot) for ballot in ballots if not elects_by_order(ballot)}
        ids = [ballot.id for ballot in ballots if ballot.id not in wrong]
        if not ids:
            return wrong
        topics = [make.TopicPartitions(topic=name, partitions=indexes) for name, indexes in by_topic(ids).items()]
        requests = ControllerRequests(self.cluster, self.deadline)
        request = make(election_type=_UNCLEAN, topic_partitions=topics, timeout_ms=requests.timeout_ms)
        change = Change(request, (1, 2), elected, attempts=1, needs=_NEEDS, until=soon() if until is None else until)
        return {**await requests.decided(ids, change), **wrong}

    async def restore(self, ballots: Sequence[Ballot]) -> Answers:
        """Put back the orders that are still the ballots'; the others are left as they are.

        Where the topic may not be seen, nobody knows whose order stands there: that is no answer that ends a plan.
        """
        altered = [ballot for ballot in ballots if ballot.order != ballot.assignment]
        answers = dict.fromkeys((ballot.id for ballot in ballots), ACCEPTED)
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
        unseen = {b.id: ElectionAnswer(Answer.CHANGED, why) for b in altered if (why := found.unseen_of(b.id))}
        return {**answers, **unseen, **await self._order(ours)}

    async def _order(self, orders: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> Answers:
        make = AlterPartitionReassignmentsRequest
        if not orders:
            return {}
        requests = ControllerRequests(self.cluster, self.deadline)
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
            timeout_ms=requests.timeout_ms,
            topics=topics,
            **({"allow_replication_factor_change": False} if version >= 1 else {}),
        )
        change = Change(request, _REASSIGNMENT_VERSIONS, _reassigned, self.attempts, needs=_NEEDS, repeatable=True)
        return await requests.decided(orders, change)


def elects_by_order(ballot: Ballot) -> bool:
    """Whether an unclean election takes the designated replica while the ballot's order stands."""
    return ballot.order[0] == ballot.designated


def _not_by_order(ballot: Ballot) -> ElectionAnswer:
    message = (
        f"{ballot.id} was planned to be elected by the request of KIP-1275 alone: by its assignment order, "
        f"{list(ballot.order)}, another replica than broker {ballot.designated} would lead; make a new plan"
    )
    return ElectionAnswer(Answer.CHANGED, Reason("PlannedForAnotherDriver", message))


def _reassigned(answer: Any) -> Iterable[tuple[TopicPartition, int]]:
    for topic in answer.responses:
        for partition in topic.partitions:
            yield TopicPartition(topic.name, partition.partition_index), partition.error_code
