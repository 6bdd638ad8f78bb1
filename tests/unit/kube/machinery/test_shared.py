"""One read for many: never older than a question, and nobody's end is another's."""

from __future__ import annotations

import asyncio

import pytest

from kafka_recovery.kube.machinery.shared import SharedReads
from unit.virtual import taking_no_time


class Shelf:
    """Reading takes a second, and finds what was there in the middle of it."""

    def __init__(self) -> None:
        self.holds = 0
        self.reads = 0
        self.broken = False
        self.shared: SharedReads[str, int] = SharedReads(self._read)

    async def _read(self, key: str) -> int:
        self.reads += 1
        await asyncio.sleep(0.5)
        found = self.holds
        await asyncio.sleep(0.5)
        if self.broken:
            raise ConnectionError(key)
        return found

    def ask(self, key: str = "a") -> asyncio.Task[int]:
        return asyncio.get_running_loop().create_task(self.shared(key))


@taking_no_time
async def test_who_asks_while_it_is_read_gets_what_is_there_after_the_question() -> None:
    shelf = Shelf()
    first = shelf.ask()
    await asyncio.sleep(0.6)
    shelf.holds = 1
    later = [shelf.ask() for _ in range(100)]

    assert (await first, await asyncio.gather(*later), shelf.reads) == (0, [1] * 100, 2)


@taking_no_time
async def test_nobody_waits_for_more_than_two_reads() -> None:
    shelf = Shelf()
    began = asyncio.get_running_loop().time()
    asked = [shelf.ask()]
    for _ in range(8):
        await asyncio.sleep(0.1)
        asked.append(shelf.ask())
    await asyncio.gather(*asked)

    assert asyncio.get_running_loop().time() - began <= 2.1


@taking_no_time
async def test_different_things_do_not_wait_for_each_other() -> None:
    shelf = Shelf()
    began = asyncio.get_running_loop().time()
    await asyncio.gather(shelf.ask("a"), shelf.ask("b"))

    assert shelf.reads == 2
    assert asyncio.get_running_loop().time() - began == pytest.approx(1)


@taking_no_time
async def test_who_is_cancelled_takes_nothing_from_the_others() -> None:
    shelf = Shelf()
    first, other = shelf.ask(), shelf.ask()
    await asyncio.sleep(0.2)
    first.cancel()

    assert (await other, shelf.reads) == (0, 1)


@taking_no_time
async def test_a_read_that_fails_fails_for_all_who_asked_and_for_nobody_after_them() -> None:
    shelf = Shelf()
    shelf.broken = True
    failed = await asyncio.gather(shelf.ask(), shelf.ask(), return_exceptions=True)
    shelf.broken = False

    assert [type(each) for each in failed] == [ConnectionError] * 2
    assert await shelf.ask() == 0


@taking_no_time
async def test_nobody_waits_for_a_read_that_hangs_but_who_asked_for_it() -> None:
    reads: list[str] = []

    async def read(key: str) -> int:
        reads.append(key)
        await asyncio.sleep(3600 if len(reads) == 1 else 0)
        return len(reads)

    shared: SharedReads[str, int] = SharedReads(read)
    hangs = asyncio.get_running_loop().create_task(shared("a"))
    await asyncio.sleep(0.1)

    async with asyncio.timeout(2):
        assert [await shared("a"), await shared("a")] == [2, 3]
    hangs.cancel()
