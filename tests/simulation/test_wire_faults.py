"""What the wire does to answers, and what the real client makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from kafka.protocol.admin import DescribeClusterRequest, ListPartitionReassignmentsRequest

from kafka_recovery.cluster.connection import Connection
from kafka_recovery.cluster.kip_1275 import ElectLeadersRequest, ElectLeadersResponse
from kafka_recovery.cluster.security import Security
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.cluster.threads import Threads
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.histories.overhearing import Requests
from kafka_recovery.simulator.host.dialing import Names, SimulatedDial
from kafka_recovery.simulator.host.loop import VirtualLoop
from kafka_recovery.simulator.host.mortality import Process
from kafka_recovery.simulator.host.weather import WAITS_FOR_THE_NEXT, Weather, WireFault
from kafka_recovery.simulator.model.kafka import SimulatedKafka

BROKER = BrokerId(1)


def connected(weather: Weather, then: Callable[[Connection, SimulatedKafka], Awaitable[None]]) -> None:
    """A connection of the real client to a simulated broker, in this weather."""
    kafka = SimulatedKafka(1)
    kafka.run_for(2)
    dial = SimulatedDial(kafka, Process("engine"), Names(tuple(kafka.brokers)), weather)

    async def main() -> None:
        address = Address("kafka-1", 9092)
        connection = await Connection.open(address, Security(), "engine", Threads("test"), dial)
        try:
            await then(connection, kafka)
        finally:
            await connection.close()

    VirtualLoop(kafka.scheduler).finish(main())


def test_answers_out_of_order_each_reach_who_asked() -> None:
    weather = Weather(Random(1), {WireFault.OUT_OF_ORDER: 1.0})
    came: list[str] = []

    async def ask(connection: Connection, kafka: SimulatedKafka) -> None:
        first = connection.send(DescribeClusterRequest(), 1)
        second = connection.send(ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None), 0)
        first.add_done_callback(lambda _: came.append("first"))
        second.add_done_callback(lambda _: came.append("second"))
        cluster, ongoing = await asyncio.gather(first, second)
        assert cluster.cluster_id == kafka.cluster_id
        assert ongoing.topics == []

    connected(weather, ask)

    assert came == ["second", "first"]
    assert weather.struck == {WireFault.OUT_OF_ORDER: [0.0]}


def test_an_answer_that_no_other_follows_is_late_and_comes() -> None:
    weather = Weather(Random(1), {WireFault.OUT_OF_ORDER: 1.0})

    async def ask(connection: Connection, kafka: SimulatedKafka) -> None:
        began = kafka.scheduler.now
        answer = await connection.send(DescribeClusterRequest(), 1)
        assert answer.cluster_id == kafka.cluster_id
        assert WAITS_FOR_THE_NEXT <= kafka.scheduler.now - began < WAITS_FOR_THE_NEXT + 1

    connected(weather, ask)


@pytest.mark.parametrize("twice", [False, True], ids=["answers that were asked for", "one that came twice before"])
def test_what_comes_behind_an_answer_that_nobody_asked_for_has_not_arrived(*, twice: bool) -> None:
    """Where one answer came twice a client gives the connection up, and never reads the next."""
    requests = Requests(lambda what, about: None, lambda: 0.0)
    ear = requests.tap()
    body = ElectLeadersResponse(throttle_time_ms=0, error_code=0, replica_election_results=[]).encode(version=1)
    question, elected = framed(answer(1)), framed(answer(2) + bytes(body))

    ear.sending(asked(DescribeClusterRequest(), 0, 1))
    ear.sending(asked(ElectLeadersRequest(election_type=1, topic_partitions=None, timeout_ms=1000), 1, 2))
    ear.arrived(question * (1 + twice) + elected)

    assert (requests.written[0].codes is None) is twice


def asked(message: Any, version: int, correlation_id: int) -> bytes:
    """A request's frame."""
    message.API_VERSION = version
    message.with_header(correlation_id=correlation_id, client_id="engine")
    return bytes(message.encode(version=version, header=True, framed=True))


def answer(correlation_id: int) -> bytes:
    """The header of an answer."""
    return correlation_id.to_bytes(4, "big")


def framed(message: bytes) -> bytes:
    """With its length."""
    return len(message).to_bytes(4, "big") + message
