"""What one cluster's name server, disks and passwords cost the others: nothing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from kafka_recovery.cluster.errors import ClusterUnavailable
from kafka_recovery.cluster.kafka_cluster import KafkaCluster
from kafka_recovery.cluster.security import PLAINTEXT
from kafka_recovery.cluster.sockets import Address
from kafka_recovery.cluster.threads import CALLS, LOOKUPS, LOOKUPS_OF_A_NAME, Threads
from unit.cluster.name_server import NameServer
from unit.cluster.play import Play

pytestmark = pytest.mark.kernel

PATIENCE = timedelta(seconds=20)
SOON = timedelta(milliseconds=100)
MANY = 40
"""More than the loop's own threads, which are at most 32."""


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr("socket.getaddrinfo", server.getaddrinfo)
    yield server
    server.speaks.set()


@asynccontextmanager
async def in_the_dark() -> AsyncIterator[KafkaCluster]:
    """A cluster for none of whose many names there is an answer; it was tried already."""
    async with KafkaCluster([Address(f"kafka-{n}.dark.stage", 9092) for n in range(MANY)], PLAINTEXT, "dark") as dark:
        for _ in range(3):
            with pytest.raises(ClusterUnavailable):
                await dark.pulse(SOON)
        yield dark


@asynccontextmanager
async def lost(names: NameServer, threads: Threads, hosts: Sequence[str]) -> AsyncIterator[None]:
    """All of them are being looked up, as far as there is a place, to no avail."""
    lookups = [asyncio.create_task(threads.lookup(host, 9092)) for host in hosts]
    try:
        while len(names.asked) < min(LOOKUPS, LOOKUPS_OF_A_NAME * len(set(hosts))):
            await asyncio.sleep(0)
        yield
    finally:
        for lookup in lookups:
            lookup.cancel()
        await asyncio.wait(lookups)


def threads_of(cluster: str) -> int:
    return sum(thread.name == f"Kafka {cluster}" for thread in threading.enumerate())


class TestOneClusterInTheDark:
    async def test_others_are_looked_at_and_written_down_meanwhile(self, names: NameServer) -> None:
        names.leads["kafka.light.stage"] = ["127.0.0.1"]
        play = Play()
        async with play.staged(1, 2), in_the_dark():
            bootstrap = Address("kafka.light.stage", play.address(1).port)
            async with KafkaCluster([bootstrap], PLAINTEXT) as light, asyncio.timeout(PATIENCE.total_seconds()):
                pulse = await light.pulse(PATIENCE)
                journal = await asyncio.to_thread(lambda: "written")

            assert not names.speaks.is_set()
            assert [told.reachable for told in pulse.brokers.values()] == [True, True]
            assert journal == "written"

    async def test_it_keeps_a_few_threads_and_what_nobody_waits_for_is_not_looked_up(self, names: NameServer) -> None:
        async with in_the_dark() as dark:
            assert len(names.asked) == threads_of("dark") == LOOKUPS

            names.speaks.set()
            with pytest.raises(ClusterUnavailable, match=r"the name kafka-0\.dark\.stage can't be resolved"):
                await dark.pulse(PATIENCE)

    async def test_a_name_that_hangs_leaves_room_for_the_others(self, names: NameServer) -> None:
        names.leads["kafka.light.stage"] = ["127.0.0.1"]
        threads = Threads("grey")
        async with asyncio.timeout(PATIENCE.total_seconds()), lost(names, threads, ["kafka.dark.stage"] * MANY):
            [(_, place)] = await threads.lookup("kafka.light.stage", 9092)

        assert place == ("127.0.0.1", 9092)
        assert names.asked.count("kafka.dark.stage") == LOOKUPS_OF_A_NAME
        assert not names.speaks.is_set()

    async def test_its_sessions_are_renewed_and_addresses_without_a_name_need_nobody(self, names: NameServer) -> None:
        threads = Threads("dark")
        dark = [f"kafka-{n}.dark.stage" for n in range(MANY)]
        async with asyncio.timeout(PATIENCE.total_seconds()), lost(names, threads, dark):
            assert await threads.call(lambda: "hashed") == "hashed"
            assert [place for _, place in await threads.lookup("10.0.0.1", 9092)] == [("10.0.0.1", 9092)]
            assert [place for _, place in await threads.lookup("::1", 9092)] == [("::1", 9092)]

        assert not names.speaks.is_set()

    async def test_closing_does_not_wait_for_it(self, names: NameServer) -> None:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            async with in_the_dark() as dark:
                trying = asyncio.create_task(dark.pulse(PATIENCE))
            trying.cancel()
            await asyncio.wait([trying])

        assert not names.speaks.is_set()
        assert len(names.asked) == LOOKUPS

    def test_neither_does_the_end_of_the_process(self) -> None:
        """The threads of a loop, and of any ThreadPoolExecutor, are waited for; this name server never speaks."""
        subprocess.run([sys.executable, "-c", _A_COMMAND], check=True, timeout=PATIENCE.total_seconds())


_A_COMMAND = f"""
import asyncio, socket, threading
from datetime import timedelta
from kafka_recovery.cluster.errors import ClusterUnavailable
from kafka_recovery.cluster.kafka_cluster import Address, KafkaCluster
from kafka_recovery.cluster.security import PLAINTEXT

async def look():
    async with KafkaCluster([Address("kafka.dark.stage", 9092)], PLAINTEXT) as cluster:
        await cluster.pulse(timedelta(seconds={SOON.total_seconds()}))

socket.getaddrinfo = lambda *args, **kwargs: threading.Event().wait()
try:
    asyncio.run(look())
except ClusterUnavailable:
    pass
else:
    raise SystemExit("somebody answered")
"""


class TestPlaces:
    async def test_who_waits_gets_the_place_of_whoever_ends_in_whatever_way(self) -> None:
        threads = Threads("busy")
        go = threading.Event()

        def fail() -> None:
            go.wait(PATIENCE.total_seconds())
            raise OSError("no disk")

        failing = [asyncio.create_task(threads.call(fail)) for _ in range(CALLS)]
        given_up = asyncio.create_task(threads.call(go.wait))
        waiting = asyncio.create_task(threads.call(lambda: "done"))
        await asyncio.wait([given_up], timeout=SOON.total_seconds())
        given_up.cancel()
        busy = threads_of("busy")
        go.set()
        async with asyncio.timeout(PATIENCE.total_seconds()):
            ends = await asyncio.gather(*failing, return_exceptions=True)

            assert busy == CALLS
            assert [str(end) for end in ends] == ["no disk"] * CALLS
            assert await waiting == "done"
