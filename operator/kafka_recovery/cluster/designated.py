"""Driver `designated`: KIP-1275's own request names the leader, so there is nothing to prepare and nothing to restore.

A designated replica that may not lead is an error for its partition; nobody else is elected in its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kafka_recovery.cluster.assignment_order import AssignmentOrderElection
from kafka_recovery.cluster.brokers import Permit
from kafka_recovery.cluster.controller_requests import (
    ACCEPTED,
    DEADLINE,
    SENT_WITHIN,
    Answers,
    Change,
    ControllerRequests,
    always,
    elected,
    soon,
)
from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.cluster.errors import ClusterError, UnsupportedRequest
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.kip_1275 import DESIGNATED, DESIGNATED_VERSIONS, PARTITIONS_A_REQUEST, ElectLeadersRequest
from kafka_recovery.cluster.metadata import by_topic
from kafka_recovery.domain.election import Answer, ElectionAnswer, ElectionRequest
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.reason import Reason

_NEEDS = "CLUSTER_ACTION on the cluster"


@dataclass(frozen=True, slots=True)
class DesignatedElection:
    """Port `Election`. `attempts`: how often an election is tried to be sent, while it certainly was not.

    One that may have been sent is never sent again. `deadline`: for one request. `permit`: asked in the line before one
    is written; if it says why not, nothing is sent, and the answer is Changed.
    """

    cluster: KafkaCluster
    attempts: int = 3
    deadline: timedelta = DEADLINE
    permit: Permit = always

    async def offered(self) -> bool:
        """Whether the broker that elections go through takes designated leaders. Raises ClusterError."""
        try:
            at = await self.cluster.route(SENT_WITHIN)
            await self.cluster.brokers.version_for(at, ElectLeadersRequest, DESIGNATED_VERSIONS, SENT_WITHIN)
        except UnsupportedRequest:
            return False
        return True

    async def designate(self, requests: Sequence[ElectionRequest]) -> Answers:
        """Nothing to do."""
        return {request.id: _altering(request) if alters_order(request) else ACCEPTED for request in requests}

    async def elect(self, requests: Sequence[ElectionRequest], until: float | None = None) -> Answers:
        """Each request has as many elections as a controller serves; they are sent soon, or not at all.

        `until` (monotonic seconds): what is not sent by then is not sent.
        """
        answers = {request.id: _altering(request) for request in requests if alters_order(request)}
        mine = [request for request in requests if request.id not in answers]
        controller = ControllerRequests(self.cluster, self.deadline, self.permit)
        until = soon() if until is None else until
        for part in _parts(mine):
            message = _request(part, controller.timeout_ms)
            change = Change(message, DESIGNATED_VERSIONS, elected, self.attempts, needs=_NEEDS, until=until)
            answers |= await controller.decided([request.id for request in part], change)
        return answers

    async def restore(self, requests: Sequence[ElectionRequest]) -> Answers:
        """Nothing of its own; what the other driver left behind in an earlier run is put back."""
        by_order = AssignmentOrderElection(self.cluster, self.attempts, self.deadline, self.permit)
        return await by_order.restore(requests)


@dataclass(frozen=True, slots=True)
class ElectionAsPlanned:
    """Port `Election` for `auto`: each election is held as it was planned, if the cluster still offers that."""

    by_order: AssignmentOrderElection
    by_request: DesignatedElection

    async def designate(self, requests: Sequence[ElectionRequest]) -> Answers:
        """Set the orders that were planned to be set."""
        plain = [request for request in requests if not alters_order(request)]
        altering = [request for request in requests if alters_order(request)]
        return {**await self.by_request.designate(plain), **await self.by_order.designate(altering)}

    async def elect(self, requests: Sequence[ElectionRequest]) -> Answers:
        """By the request where no order was altered and brokers take it, else by order."""
        until = soon()
        plain = [request for request in requests if not alters_order(request)]
        try:
            offered = bool(plain) and await self.by_request.offered()
        except ClusterError as error:
            return dict.fromkeys((request.id for request in requests), ElectionAnswer(Answer.CHANGED, error.reason))
        others = [request for request in requests if not offered or alters_order(request)]
        return {
            **(await self.by_order.elect(others, until) if others else {}),
            **(await self.by_request.elect(plain, until) if offered else {}),
        }

    async def restore(self, requests: Sequence[ElectionRequest]) -> Answers:
        """Put back the orders that are still the requests'."""
        return await self.by_order.restore(requests)


def election_in(
    cluster: KafkaCluster, attempts: int = 3, permit: Permit = always
) -> AssignmentOrderElection | DesignatedElection | ElectionAsPlanned:
    """The driver that the cluster is configured with."""
    by_order = AssignmentOrderElection(cluster, attempts, permit=permit)
    by_request = DesignatedElection(cluster, attempts, permit=permit)
    match cluster.kip_1275.driver:
        case Driver.ASSIGNMENT_ORDER:
            return by_order
        case Driver.DESIGNATED:
            return by_request
        case Driver.AUTO:
            return ElectionAsPlanned(by_order, by_request)


def alters_order(request: ElectionRequest) -> bool:
    """Whether the plan wants another order to stand during the election."""
    return request.order != request.assignment


def _altering(request: ElectionRequest) -> ElectionAnswer:
    message = (
        f"{request.id} was planned to be elected by the assignment order {list(request.order)}, which the driver "
        "designated does not set; make a new plan, or give the driver assignment-order"
    )
    return ElectionAnswer(Answer.CHANGED, Reason("PlanOutdated", message))


def _parts(requests: Sequence[ElectionRequest]) -> Iterator[Sequence[ElectionRequest]]:
    return (requests[i : i + PARTITIONS_A_REQUEST] for i in range(0, len(requests), PARTITIONS_A_REQUEST))


def _request(requests: Sequence[ElectionRequest], timeout_ms: int) -> Any:
    leaders = {request.id: request.designated for request in requests}
    make = ElectLeadersRequest
    topics = [
        make.TopicPartitions(
            topic=name,
            partitions=indexes,
            designated_leaders=[leaders[TopicPartition(name, index)] for index in indexes],
        )
        for name, indexes in by_topic(leaders).items()
    ]
    return make(election_type=DESIGNATED, topic_partitions=topics, timeout_ms=timeout_ms)
