"""A connection to a simulated broker: order, versions, and what is no request."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeClusterRequest, DescribeTopicPartitionsRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.settings import Settings
from kafka_recovery.simulator.wire.session import BadFrame, Session
from unit.simulator.wire.asking import Client, address, describe_quorum, frame_of


def session_of(kafka: SimulatedKafka, broker: int = 1) -> Session:
    """A connection to one broker."""
    return Session(kafka, BrokerId(broker), "tester", address)


def offered(kafka: SimulatedKafka) -> dict[int, int]:
    """The highest version of each request that a broker says it knows."""
    request = ApiVersionsRequest(client_software_name="tester", client_software_version="1")
    return {api.api_key: api.max_version for api in Client(kafka).ask(request, 4).api_keys}


def describe_cluster() -> Any:
    """A request that any broker answers at once."""
    return DescribeClusterRequest(include_cluster_authorized_operations=False)


def test_answers_come_in_the_order_of_the_questions() -> None:
    """The broker answers the second one only when the controller has answered the first."""
    kafka = SimulatedKafka(1)
    session, answers = session_of(kafka), list[bytes]()
    session.received(frame_of(describe_quorum(), 2, 7), answers.append)
    session.received(frame_of(describe_cluster(), 1, 8), answers.append)
    assert answers == []

    kafka.run_for(1)

    assert [struct.unpack_from(">i", answer)[0] for answer in answers] == [7, 8]


def test_a_process_that_is_gone_answers_nothing() -> None:
    """The broker was killed and started again while the controller decided."""
    kafka = SimulatedKafka(1)
    kafka.run_for(1)
    answers: list[bytes] = []
    kafka.controllers.pause("controller-1")
    session_of(kafka).received(frame_of(describe_quorum(), 2), answers.append)
    kafka.run_for(1)
    kafka.kill(1)
    kafka.start(1)
    kafka.controllers.thaw("controller-1")

    kafka.run_for(90)

    assert answers == []


def test_who_asks_for_apiversions_of_the_future_is_told_which_there_are() -> None:
    kafka = SimulatedKafka(1)
    frame = bytearray(frame_of(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4))
    struct.pack_into(">h", frame, 2, 99)
    answers: list[bytes] = []

    session_of(kafka).received(bytes(frame), answers.append)

    said = ApiVersionsResponse.decode(answers[0], version=0, header=True)
    assert said.error_code == 35
    assert [(api.api_key, api.min_version, api.max_version) for api in said.api_keys] == [(18, 0, 4)]


def test_a_client_that_does_not_say_what_it_is_is_refused() -> None:
    request = ApiVersionsRequest(client_software_name="no name!", client_software_version="1")

    assert Client(SimulatedKafka(1)).ask(request, 3).error_code == 42


@pytest.mark.parametrize(
    ("settings", "describe_cluster", "list_offsets", "fetch", "alter_reassignments"),
    [
        (Settings(release="3.9", elr=False, fenced_listed=False), 1, 9, 17, 0),
        (Settings(release="4.0"), 2, 10, 17, 0),
        (Settings(release="4.1"), 2, 10, 18, 1),
        (Settings(release="4.4"), 2, 11, 18, 1),
    ],
    ids=lambda value: value.release if isinstance(value, Settings) else None,
)
def test_each_release_offers_its_own_versions(
    settings: Settings, describe_cluster: int, list_offsets: int, fetch: int, alter_reassignments: int
) -> None:
    found = offered(SimulatedKafka(1, settings=settings))

    assert (found[60], found[2], found[1], found[45]) == (describe_cluster, list_offsets, fetch, alter_reassignments)


def test_what_only_kip_1275_knows_is_not_offered_without_it() -> None:
    kafka = SimulatedKafka(1)

    assert offered(kafka)[43] == 2
    assert 1275 not in offered(kafka)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0",
        b"GET / HTTP/1.1\r\n",
        struct.pack(">hhih", 60, 99, 1, -1),
        struct.pack(">hhih", 30_000, 0, 1, -1),
        struct.pack(">hhih", 60, 0, 1, 2000) + b"tester\0",
        struct.pack(">hhih", 60, 0, 1, -1) + b"\xff" * 9,
        frame_of(describe_cluster(), 1) + b"\0",
        frame_of(describe_cluster(), 1)[:-1],
    ],
    ids=[
        "nothing", "one byte", "http", "a version of the future", "an unknown request", "a client id beyond the end",
        "tagged fields without end", "one byte too many", "one byte too few",
    ],
)  # fmt: skip
def test_what_is_no_request_ends_the_connection(frame: bytes) -> None:
    with pytest.raises(BadFrame):
        session_of(SimulatedKafka(1)).received(frame, lambda answer: pytest.fail("was answered"))


def test_a_topic_without_a_name_ends_the_connection() -> None:
    make = DescribeTopicPartitionsRequest
    frame = frame_of(make(topics=[make.TopicRequest(name="")], response_partition_limit=1, cursor=None), 0)
    nameless = frame.replace(b"\x02\x01\0", b"\x02\0\0")
    assert nameless != frame

    with pytest.raises(BadFrame, match=r"topics\.name is null"):
        session_of(SimulatedKafka(1)).received(nameless, lambda answer: pytest.fail("was answered"))


KEYS = sorted({1, 2, 18, 32, 43, 45, 46, 55, 60, 75})


@given(key=st.sampled_from(KEYS), version=st.integers(0, 18), rest=st.binary(max_size=200))
def test_noise_is_refused_or_answered_and_nothing_else(key: int, version: int, rest: bytes) -> None:
    session = session_of(SimulatedKafka(1))
    with contextlib.suppress(BadFrame):
        session.received(struct.pack(">hhih", key, version, 1, -1) + rest, lambda answer: None)
