"""A defect of the model ends the connection that it came over, in one line, and nobody else's."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
from kafka.protocol.admin import CreateTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.broker import Broker
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.topic_requests import TopicRequests
from kafka_recovery.simulator.wire import described
from unit.simulator.play.playing import Played, played
from unit.simulator.wire.asking import frame_of


@pytest.fixture
def cluster() -> Iterator[Played]:
    """Three brokers without topics."""
    with played(SimulatedKafka(1)) as found:
        yield found


def connected(cluster: Played) -> socket.socket:
    """A connection to broker 1."""
    return socket.create_connection(cluster.server.address(BrokerId(1)), timeout=10)


def sized(frame: bytes) -> bytes:
    """As it travels."""
    return len(frame).to_bytes(4) + frame


def clusters() -> bytes:
    """A question that works."""
    return sized(frame_of(DescribeClusterRequest(include_cluster_authorized_operations=False), 1))


def configs() -> bytes:
    """A question that the broker answers by itself."""
    topic = DescribeConfigsRequest.DescribeConfigsResource(resource_type=2, resource_name="orders")
    return sized(frame_of(DescribeConfigsRequest(resources=[topic]), 4))


def new_topic() -> bytes:
    """A question that the broker passes on to the controller."""
    return sized(frame_of(CreateTopicsRequest(topics=[], timeout_ms=1000, validate_only=False), 7))


def broken(*_: object) -> None:
    """What a defect looks like."""
    raise LookupError("no such\nthing")


@pytest.mark.parametrize(
    ("owner", "method", "asked"),
    [
        pytest.param(Broker, "topic_state", configs(), id="at the broker"),
        pytest.param(described, "_configs_of", configs(), id="while it is encoded"),
        pytest.param(TopicRequests, "create", new_topic(), id="at the controller"),
    ],
)
def test_that_connection_ends_and_others_go_on(
    cluster: Played,
    owner: object,
    method: str,
    asked: bytes,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(owner, method, broken)
    with connected(cluster) as good, connected(cluster) as bad:
        bad.sendall(asked)

        assert bad.recv(1) == b""
        good.sendall(clusters())
        assert len(good.recv(4)) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "of broker 1 ends" in line
    assert "LookupError" in line
    assert "no such thing" in line


def test_an_event_that_fails_is_told_and_time_goes_on(cluster: Played, capsys: pytest.CaptureFixture[str]) -> None:
    happened = threading.Event()
    cluster.do(lambda: cluster.kafka.scheduler.after(0.01, broken))
    cluster.do(lambda: cluster.kafka.scheduler.after(0.02, happened.set))

    assert happened.wait(10)

    assert "the simulated cluster goes on after LookupError" in capsys.readouterr().err
