"""What the proxies of the testbed do that no other test would miss: `test_weather` shows the rest."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest
from kafka.protocol.admin import ElectLeadersRequest
from kafka.protocol.metadata import ApiVersionsRequest

from testbed.faults import Proxy, Server
from testbed.waiting import wait_until

pytestmark = pytest.mark.brokers


def test_a_proxy_that_drops_answers_still_hands_on_requests() -> None:
    with Recorder() as server, Proxy(server.address) as proxy, connected(proxy) as client:
        proxy.drop_answers()
        client.sendall(b"elect")
        wait_until("the request has arrived", lambda: bytes(server.received), lambda seen: seen == b"elect")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)


def test_who_vanished_neither_answers_nor_hangs_up_nor_lets_anybody_in_until_it_is_back() -> None:
    with Recorder() as server, Proxy(server.address) as proxy, connected(proxy) as client:
        client.sendall(b"here")
        assert client.recv(4, socket.MSG_WAITALL) == b"here"
        proxy.vanish()
        client.sendall(b"gone")
        server.hang_up()
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        with pytest.raises(TimeoutError):
            connected(proxy, patience=0.2)

        proxy.restore()

        with connected(proxy) as again:
            again.sendall(b"back")
            assert again.recv(4, socket.MSG_WAITALL) == b"back"


@pytest.mark.parametrize("lost", [True, False], ids=["lost", "late"])
def test_requests_of_one_kind_are_held_back_then_lost_or_late(lost: bool) -> None:
    held, other = (request_of(kind) for kind in (ElectLeadersRequest, ApiVersionsRequest))
    with Recorder() as server, Proxy(server.address) as proxy:
        proxy.hold(ElectLeadersRequest)
        with connected(proxy) as client:
            client.sendall(other + held)
            wait_until("one is held", lambda: proxy.holding, lambda holding: holding == 1)
            wait_until("the other has come", lambda: bytes(server.received), lambda seen: seen == other)
            if lost:
                proxy.cut()
            proxy.restore()
            wait_until("none is held", lambda: proxy.holding, lambda holding: holding == 0)
            come = other if lost else other + held
            wait_until("what is late has come", lambda: bytes(server.received), lambda seen: seen == come)
        with connected(proxy) as client:
            client.sendall(held)
            wait_until("so has the next", lambda: bytes(server.received), lambda seen: seen == come + held)


def test_requests_that_are_withheld_come_no_further_on_connections_that_were_open() -> None:
    held, other = (request_of(kind) for kind in (ElectLeadersRequest, ApiVersionsRequest))
    with Recorder() as server, Proxy(server.address) as proxy, connected(proxy) as before:
        before.sendall(other)
        assert before.recv(len(other), socket.MSG_WAITALL) == other
        proxy.stall()

        proxy.withhold(ElectLeadersRequest)

        assert before.recv(1) == b""
        with connected(proxy) as client:
            client.sendall(other + held)
            wait_until("one is held", lambda: proxy.holding, lambda holding: holding == 1)
            wait_until("the other has come", lambda: bytes(server.received), lambda seen: seen == other + other)
            proxy.cut()


class Recorder(Server):
    """Keeps what it is sent and answers it."""

    def __init__(self) -> None:
        self.received = bytearray()
        super().__init__()

    def _serve(self, client: socket.socket) -> None:
        while part := client.recv(1024):
            self.received += part
            client.sendall(part)

    def hang_up(self) -> None:
        self._hang_up()


def connected(server: Server, patience: float = 10) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=patience)


def request_of(kind: type[Any]) -> bytes:
    """One as it goes over the wire, as far as a proxy looks at it."""
    return struct.pack(">ihh8s", 12, kind.API_KEY, 0, b"whatever")
