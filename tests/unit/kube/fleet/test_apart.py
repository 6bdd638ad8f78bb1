"""Calls that hang: they keep no more than their own storage's threads, and those only until they end."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from kafka_recovery.kube.fleet import apart as apart_module
from kafka_recovery.kube.fleet.apart import THREADS, Apart, storage_of

SOON = timedelta(milliseconds=50)
LATER = timedelta(seconds=5)


class Hanging:
    """What is called hangs until it is over; `calls`: how many threads that took."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1
        self.over.wait()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.over.set()


async def hang(apart: Apart, url: str, hanging: Hanging, times: int = THREADS) -> None:
    async def once() -> None:
        with pytest.raises(TimeoutError):
            await apart.call(url, hanging, SOON)

    await asyncio.gather(*(once() for _ in range(times)))


async def test_a_storage_that_hangs_gets_no_more_threads_however_often_it_is_asked(hanging: Hanging) -> None:
    apart = Apart()
    await hang(apart, "s3://dead", hanging, times=20)
    await hang(apart, "s3://dead", hanging, times=20)

    assert hanging.calls == THREADS


async def test_many_storages_that_hang_get_no_more_threads_than_there_are(
    hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apart_module, "ALL_THREADS", 3)
    apart = Apart()
    for number in range(5):
        await hang(apart, f"s3://dead-{number}", hanging)

    assert hanging.calls == 3


async def test_one_that_stops_waiting_for_a_thread_leaves_its_place(hanging: Hanging) -> None:
    apart = Apart()
    await hang(apart, "s3://b", hanging)
    waiting = asyncio.create_task(apart.call("s3://b", lambda: 7, LATER))
    await asyncio.sleep(0)
    waiting.cancel()
    hanging.over.set()

    assert await asyncio.gather(*(apart.call("s3://b", lambda: 7, LATER) for _ in range(5))) == [7] * 5


def test_a_thread_that_hangs_does_not_hold_the_process() -> None:
    program = (
        "import asyncio, threading\n"
        "from datetime import timedelta\n"
        "from kafka_recovery.kube.fleet.apart import Apart\n"
        "asyncio.run(Apart().call('s3://b', threading.Event().wait, timedelta(milliseconds=50)))\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)

    assert "TimeoutError" in ended.stderr


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("s3://b/results", "s3://b/results/run-1", True),
        ("s3://b/results", "s3://c/results", False),
        ("s3://b/r?endpoint_override=one", "s3://b/r?endpoint_override=two", False),
        ("file:///mnt/a/results", "file:///mnt/a/results/run-1", True),
        ("file:///mnt/a/results", "file:///mnt/b/results", False),
    ],
)
def test_what_hangs_as_one_is_one_storage(one: str, other: str, same: bool) -> None:
    assert (storage_of(one) == storage_of(other)) is same
