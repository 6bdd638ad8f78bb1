"""Who gives no sign of life to who asks for a connection, on this machine's own network."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest

from kafka_recovery.cluster.sockets import Address, Sockets
from kafka_recovery.cluster.threads import Threads
from testbed.faults import BlackHole, Proxy
from unit.cluster.name_server import NameServer

pytestmark = pytest.mark.kernel

SOON, LONG = timedelta(milliseconds=200), timedelta(seconds=30)


@pytest.fixture
def hole() -> Iterator[BlackHole]:
    """A process that stands still."""
    with BlackHole() as hole:
        yield hole


@pytest.fixture
def sockets() -> Sockets:
    return Sockets(Threads("sockets"))


async def test_a_host_that_drops_every_packet_is_deaf(sockets: Sockets, hole: BlackHole) -> None:
    with Proxy(hole.address) as gone:
        gone.vanish()
        assert await sockets.is_deaf(Address.parse(gone.address), SOON)


async def test_one_whose_process_stands_still_is_not(sockets: Sockets, hole: BlackHole) -> None:
    assert not await sockets.is_deaf(Address.parse(hole.address), LONG)


async def test_nor_is_one_that_refuses(sockets: Sockets, hole: BlackHole) -> None:
    address = Address.parse(hole.address)
    hole.close()
    assert not await sockets.is_deaf(address, LONG)


async def test_a_sign_of_life_of_one_of_a_name_s_endpoints_is_enough(
    sockets: Sockets, hole: BlackHole, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(hole.address) as gone:
        gone.vanish()
        _, dead = Address.parse(gone.address)
        names = NameServer({"kafka-1": ["127.0.0.1", "127.0.0.2"]})
        monkeypatch.setattr("socket.getaddrinfo", names.getaddrinfo)
        # Nobody listens at the second one: it refuses.
        assert not await sockets.is_deaf(Address("kafka-1", dead), SOON)


async def test_a_name_that_is_not_found_says_nothing_of_its_host_nor_does_a_slow_name_server(
    sockets: Sockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = NameServer()
    monkeypatch.setattr("socket.getaddrinfo", names.getaddrinfo)
    asked = asyncio.create_task(sockets.is_deaf(Address("kafka-1.stage", 9092), timedelta()))
    await asyncio.wait([asked], timeout=0.2)
    assert not asked.done()
    names.speaks.set()
    assert await asked is False
