"""Connections of the testbed: one that went well is used again, as long as the same process is at its other end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest

from testbed.wire import Connection


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)
        yield listening


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def accepted(server: socket.socket) -> socket.socket | None:
    """The next connection that was opened, None if there was none."""
    server.setblocking(False)
    try:
        return server.accept()[0]
    except BlockingIOError:
        return None


def test_one_that_went_well_is_used_by_whoever_asks_next(server: socket.socket) -> None:
    with Connection(address(server)):
        first = accepted(server)
    with Connection(address(server)):
        second = accepted(server)

    assert first
    assert second is None
    first.close()


def test_two_at_a_time_are_two(server: socket.socket) -> None:
    with Connection(address(server)), Connection(address(server)):
        opened = [accepted(server), accepted(server)]

    assert all(opened)
    for each in opened:
        assert each
        each.close()


def test_one_on_which_something_went_wrong_is_not_used_again(server: socket.socket) -> None:
    with suppress(TimeoutError), Connection(address(server)):
        first = accepted(server)
        raise TimeoutError
    with Connection(address(server)):
        second = accepted(server)

    assert first
    assert second
    first.close()
    second.close()


def test_one_whose_other_end_is_gone_is_not_used_again(server: socket.socket) -> None:
    with Connection(address(server)):
        first = accepted(server)
    assert first
    first.close()
    with Connection(address(server)):
        second = accepted(server)

    assert second
    second.close()
