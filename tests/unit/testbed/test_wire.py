"""Connections of the testbed: one that went well is used again, as long as the same process is at its other end."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kafka.protocol.metadata import ApiVersionsResponse

from testbed.wire import Connection


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def accepted(server: socket.socket) -> socket.socket:
    """The next connection that was opened."""
    server.settimeout(1)
    return server.accept()[0]


def none_came(server: socket.socket) -> bool:
    server.setblocking(False)
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return True
    return False


def answer(server: socket.socket, beside: int = 0) -> socket.socket:
    """Answers the next request of a new connection; `beside`: not the number that was asked, but one beside it."""
    connection = accepted(server)
    asked = connection.recv(1000)
    (number,) = struct.unpack_from(">i", asked, 8)
    body = ApiVersionsResponse(error_code=0, api_keys=[], throttle_time_ms=0).encode(version=3)
    connection.sendall(struct.pack(">ii", 4 + len(body), number + beside) + body)
    return connection


def test_one_that_went_well_is_used_by_whoever_asks_next(server: socket.socket) -> None:
    with Connection(address(server)):
        first = accepted(server)
    with Connection(address(server)):
        assert none_came(server)

    first.close()


def test_two_at_a_time_are_two(server: socket.socket) -> None:
    with Connection(address(server)), Connection(address(server)):
        for each in (accepted(server), accepted(server)):
            each.close()


def test_one_on_which_no_answer_came_is_not_used_again(server: socket.socket) -> None:
    """Whoever asked may go on without it."""
    with Connection(address(server), deadline=0.01) as silent:
        first = accepted(server)
        with pytest.raises(TimeoutError):
            silent.api_versions()
    with Connection(address(server)):
        accepted(server).close()

    first.close()


def test_an_answer_to_another_question_is_none_and_its_connection_is_not_used_again(server: socket.socket) -> None:
    with ThreadPoolExecutor() as other, Connection(address(server)) as confused:
        answering = other.submit(answer, server, beside=1)
        with pytest.raises(ConnectionError, match="answered"):
            confused.api_versions()
    with Connection(address(server)):
        accepted(server).close()

    answering.result().close()


def test_the_answer_to_the_question_is_had_and_its_connection_used_again(server: socket.socket) -> None:
    with ThreadPoolExecutor() as other, Connection(address(server)) as good:
        answering = other.submit(answer, server)
        assert good.api_versions().error_code == 0
    with Connection(address(server)):
        assert none_came(server)

    answering.result().close()


def test_one_whose_other_end_is_gone_is_not_used_again(server: socket.socket) -> None:
    with Connection(address(server)):
        first = accepted(server)
    first.close()
    with Connection(address(server)):
        accepted(server).close()
