"""What happens to simulated brokers is seen on their ports."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator

import pytest
from kafka.protocol.admin import DescribeClusterRequest

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.play.server import PlayServer, PortTaken
from unit.simulator.play.playing import Played, eventually, played
from unit.simulator.wire.asking import frame_of


@pytest.fixture
def cluster() -> Iterator[Played]:
    """Three brokers without topics."""
    with played(SimulatedKafka(1)) as found:
        yield found


def connected(cluster: Played, broker: int = 1) -> socket.socket:
    """A connection to one broker."""
    return socket.create_connection(cluster.server.address(BrokerId(broker)), timeout=10)


def question() -> bytes:
    """A request with its length."""
    frame = frame_of(DescribeClusterRequest(include_cluster_authorized_operations=False), 1)
    return struct.pack(">i", len(frame)) + frame


def ended(line: socket.socket) -> bool:
    """Whether the broker ends the connection."""
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True


def refuses(cluster: Played, broker: int) -> bool:
    """Whether nobody listens there."""
    try:
        connected(cluster, broker).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_killed_broker_breaks_its_connections_and_refuses_new_ones(cluster: Played) -> None:
    with connected(cluster) as old:
        cluster.do(lambda: cluster.kafka.kill(1))

        assert ended(old)
        eventually(lambda: refuses(cluster, 1))

        cluster.do(lambda: cluster.kafka.start(1))
        eventually(lambda: not refuses(cluster, 1))


def test_a_paused_broker_takes_connections_and_answers_when_it_goes_on(cluster: Played) -> None:
    cluster.do(lambda: cluster.kafka.pause(2))
    with connected(cluster, 2) as line:
        line.sendall(question())
        line.settimeout(0.3)
        with pytest.raises(TimeoutError):
            line.recv(1)

        cluster.do(lambda: cluster.kafka.thaw(2))

        line.settimeout(10)
        assert len(line.recv(4)) == 4


def test_a_host_that_lost_power_says_nothing(cluster: Played) -> None:
    with connected(cluster, 3) as line:
        cluster.do(lambda: cluster.kafka.host_crash(3))
        line.sendall(question())
        line.settimeout(0.3)
        with pytest.raises(TimeoutError):
            line.recv(1)


@pytest.mark.parametrize(
    "noise", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\2\0\0"]
)
def test_noise_ends_the_connection_and_no_other(cluster: Played, noise: bytes) -> None:
    with connected(cluster) as good, connected(cluster) as bad:
        bad.sendall(noise)

        assert ended(bad)
        good.sendall(question())
        assert len(good.recv(4)) == 4


def test_a_client_that_says_more_than_it_hears_is_not_read_without_end(cluster: Played) -> None:
    """The broker stands still; what is sent meanwhile waits with the client, not in memory."""
    cluster.do(lambda: cluster.kafka.pause(1))
    with connected(cluster) as line:
        line.setblocking(False)
        sent = 0
        while sent < 200_000_000:
            try:
                sent += line.send(question() * 10_000)
            except BlockingIOError:
                break

    assert sent < 200_000_000


async def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(PortTaken, match=str(port)):
            async with PlayServer(SimulatedKafka(1), port):
                pass


async def test_where_the_machine_is_too_slow_time_goes_slower() -> None:
    """An event that takes ten seconds of the real clock is not followed by ten seconds of the model's at once."""
    real = [0.0]
    kafka = SimulatedKafka(1)
    kafka.scheduler.after(1.0, lambda: real.__setitem__(0, real[0] + 10))
    async with PlayServer(kafka, clock=lambda: real[0]) as server:
        serving = asyncio.create_task(server.serve())
        real[0] = 1.5
        while real[0] < 10:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        serving.cancel()

    assert kafka.scheduler.now == pytest.approx(1.5)
