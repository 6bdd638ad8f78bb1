"""The work queue: nothing is lost, nothing runs twice at a time, and who always fails bothers nobody."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from kafka_recovery.kube.machinery import logs
from kafka_recovery.kube.machinery.work_queue import Requeue, WorkQueue
from unit.virtual import in_no_time, taking_no_time

SECOND = timedelta(seconds=1)
AT_ONCE = timedelta(0)

Look = Callable[[str], Awaitable[timedelta | None]]


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Looks:
    """Keeps when each key was looked at; `does` says what a look is."""

    does: Look | None = None
    began: list[tuple[str, float]] = field(default_factory=list)
    running: Counter[str] = field(default_factory=Counter)
    most_at_once: int = 0

    async def __call__(self, key: str) -> timedelta | None:
        assert not self.running[key], f"{key} is looked at twice at a time"
        self.began.append((key, round(now(), 6)))
        self.running[key] += 1
        self.most_at_once = max(self.most_at_once, self.running.total())
        try:
            return await self.does(key) if self.does else None
        finally:
            self.running[key] -= 1

    def times(self, key: str) -> list[float]:
        return [at for each, at in self.began if each == key]


@contextlib.asynccontextmanager
async def working(
    looks: Look, workers: int = 8, longest_pause: timedelta = 60 * SECOND, seed: int = 1
) -> AsyncIterator[WorkQueue[str]]:
    queue = WorkQueue(looks, owner=str, workers=workers, longest_pause=longest_pause, chance=random.Random(seed))
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    yield queue
    await queue.stop(AT_ONCE)
    await task


async def slowly(key: str) -> None:
    await asyncio.sleep(5)


async def badly(key: str) -> None:
    raise ConnectionError("no way")


class TestInLine:
    @taking_no_time
    async def test_of_what_is_due_already_no_later_wish_counts(self) -> None:
        looks = Looks()
        queue = WorkQueue(looks, owner=str)
        queue.add("a")
        queue.add("a", timedelta(seconds=30))
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(60)
        await queue.stop(AT_ONCE)
        await task

        assert looks.began == [("a", 0.0)]

    @taking_no_time
    async def test_what_is_added_while_it_runs_is_looked_at_once_more_afterwards(self) -> None:
        """The present look may have read before the change."""
        looks = Looks(slowly)
        async with working(looks) as queue:
            queue.add("a")
            await asyncio.sleep(1)
            for _ in range(10):
                queue.add("a")
            await asyncio.sleep(60)

        assert looks.times("a") == [0.0, 5.0]

    @taking_no_time
    async def test_no_more_than_the_workers_run_and_first_come_is_first_served(self) -> None:
        looks = Looks(slowly)
        async with working(looks, workers=2) as queue:
            for key in "abcde":
                queue.add(key)
            await asyncio.sleep(60)

        assert looks.began == [("a", 0.0), ("b", 0.0), ("c", 5.0), ("d", 5.0), ("e", 10.0)]
        assert looks.most_at_once == 2

    @taking_no_time
    async def test_of_several_wishes_the_earliest_counts(self) -> None:
        looks = Looks()
        async with working(looks) as queue:
            queue.add("a", 30 * SECOND)
            queue.add("a", 10 * SECOND)
            queue.add("a", 20 * SECOND)
            await asyncio.sleep(60)

        assert looks.times("a") == [10.0]

    @taking_no_time
    async def test_a_look_says_when_the_next_one_is_due(self) -> None:
        async def again(key: str) -> timedelta:
            return 20 * SECOND

        looks = Looks(again)
        async with working(looks) as queue:
            queue.add("a")
            await asyncio.sleep(25)
            queue.add("a")  # told in between: the next one counts from here
            await asyncio.sleep(30)

        assert looks.times("a") == [0.0, 20.0, 25.0, 45.0]

    @taking_no_time
    async def test_what_is_gone_is_forgotten(self) -> None:
        looks = Looks()
        async with working(looks) as queue:
            queue.add("a", 10 * SECOND)
            queue.add("b", 10 * SECOND)
            queue.forget("a")
            await asyncio.sleep(60)
            assert queue.depth == (0, 0, 0, 0)

        assert looks.began == [("b", 10.0)]

    def test_a_look_that_does_not_end_is_seen(self) -> None:
        async def story() -> list[timedelta]:
            seen = []
            async with working(Looks(slowly), workers=1) as queue:
                seen.append(queue.longest_look)
                queue.add("running")
                await asyncio.sleep(0.5)
                seen.append(queue.longest_look)
                await asyncio.sleep(3600)
                seen.append(queue.longest_look)
            return seen

        assert in_no_time(story()) == [timedelta(0), SECOND / 2, timedelta(0)]

    def test_the_depth_tells_what_is_going_on(self) -> None:
        async def story() -> tuple[int, ...]:
            async with working(Looks(slowly), workers=1) as queue:
                queue.add("running")
                queue.add("due")
                queue.add("later", SECOND)
                await asyncio.sleep(0.5)
                return queue.depth

        assert in_no_time(story()) == (1, 1, 1, 0)


class TestFailing:
    @taking_no_time
    async def test_pauses_double_and_end_at_the_longest(self) -> None:
        looks = Looks(badly)
        async with working(looks, longest_pause=4 * SECOND) as queue:
            queue.add("a")
            await asyncio.sleep(20)
            assert queue.depth.failing == 1
        times = looks.times("a")
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)]

        assert pauses[:6] == pytest.approx([0.5, 1, 2, 4, 4, 4], rel=0.11)
        assert len(set(pauses[3:])) > 1, "without chance in them, what failed together comes back together"

    @taking_no_time
    async def test_being_told_brings_it_back_sooner_but_not_at_once(self) -> None:
        looks = Looks(badly)
        async with working(looks) as queue:
            queue.add("a")
            await asyncio.sleep(10)  # failed at about 0, 0.5, 1.5, 3.5, 7.5; on its own again at about 15
            for _ in range(20):
                queue.add("a")
                await asyncio.sleep(0.05)
        late = [at for at in looks.times("a") if at >= 9.9]

        assert [round(at, 1) for at in late] == [10.0, 10.5, 11.0]

    @taking_no_time
    async def test_after_a_success_the_next_failure_begins_small_again(self) -> None:
        outcomes = iter([False, False, False, True, False, False])

        async def now_and_then(key: str) -> None:
            if not next(outcomes, True):
                raise ConnectionError

        looks = Looks(now_and_then)
        async with working(looks) as queue:
            queue.add("a")
            await asyncio.sleep(100)
            queue.add("a")
            await asyncio.sleep(100)
            assert queue.depth.failing == 0
        times = looks.times("a")

        assert len(times) == 7
        assert times[5] - times[4] == pytest.approx(0.5, rel=0.11)

    @taking_no_time
    async def test_a_lost_race_is_no_failure(self) -> None:
        async def loses(key: str) -> None:
            raise Requeue(2 * SECOND)

        looks = Looks(loses)
        async with working(looks) as queue:
            queue.add("a")
            await asyncio.sleep(7)
            assert queue.depth.failing == 0

        assert looks.times("a") == [0.0, 2.0, 4.0, 6.0]

    @taking_no_time
    async def test_a_look_whose_own_task_was_cancelled_is_not_lost(self) -> None:
        async def waits_for_a_dead_one(key: str) -> None:
            task = asyncio.create_task(asyncio.sleep(100))
            task.cancel()
            await task

        looks = Looks(waits_for_a_dead_one)
        async with working(looks) as queue:
            queue.add("a")
            await asyncio.sleep(0.6)

        assert len(looks.times("a")) == 2

    @taking_no_time
    async def test_what_nobody_may_survive_ends_the_queue(self) -> None:
        class LeaseLost(BaseException):
            pass

        async def stops(key: str) -> None:
            raise LeaseLost

        queue = WorkQueue(stops, owner=str)
        queue.add("a")
        with pytest.raises(LeaseLost):
            await queue.run()


class TestStopping:
    @taking_no_time
    async def test_what_runs_may_end_within_the_grace_and_nothing_new_begins(self) -> None:
        looks = Looks(slowly)
        async with working(looks, workers=1) as queue:
            queue.add("running")
            queue.add("due")
            queue.add("later", SECOND)
            await asyncio.sleep(2)
            left = await queue.stop(10 * SECOND)
            assert now() == 5.0
            queue.add("too late")
            await asyncio.sleep(60)

        assert left == []
        assert looks.began == [("running", 0.0)]

    def test_what_takes_longer_is_cancelled_and_named(self) -> None:
        async def story() -> tuple[list[str], float]:
            async with working(Looks(slowly)) as queue:
                queue.add("slow")
                await asyncio.sleep(1)
                return await queue.stop(2 * SECOND), now()

        assert in_no_time(story()) == (["slow"], 3.0)

    def test_one_that_will_not_be_cancelled_does_not_hold_up_the_end(self) -> None:
        async def stubborn(key: str) -> None:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(10)
                    return

        async def story() -> tuple[list[str], float]:
            async with working(Looks(stubborn)) as queue:
                queue.add("a")
                await asyncio.sleep(1)
                return await queue.stop(AT_ONCE), now()

        assert in_no_time(story()) == (["a"], 2.0)

    @taking_no_time
    async def test_a_stopped_queue_does_not_run(self) -> None:
        queue = WorkQueue(Looks(), owner=str)
        await queue.stop(AT_ONCE)
        await queue.run()


class TestAmongNamespaces:
    """Keys are of the owner that they begin with."""

    @staticmethod
    async def began(does: Look, workers: int, *keys: str) -> list[tuple[str, float]]:
        looks = Looks(does)
        queue = WorkQueue(looks, workers=workers, owner=lambda key: key[0])
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(0)
        for key in keys:
            queue.add(key)
        await asyncio.sleep(1000)
        await queue.stop(AT_ONCE)
        await task
        return looks.began

    @taking_no_time
    async def test_who_comes_after_a_thousand_of_another_waits_for_none_of_them(self) -> None:
        began = await self.began(slowly, 8, *[f"a-{number}" for number in range(1000)], "b-1", "c-1")

        assert ("b-1", 0.0) in began
        assert ("c-1", 5.0) in began

    @taking_no_time
    async def test_looks_that_never_end_leave_a_worker_to_others(self) -> None:
        async def of_a_never(key: str) -> None:
            await asyncio.sleep(0 if key[0] == "b" else 2000)

        began = await self.began(of_a_never, 4, *[f"a-{number}" for number in range(9)], "b-1", "b-2")

        assert [key for key, _ in began] == ["a-0", "a-1", "a-2", "b-1", "b-2"]

    @taking_no_time
    async def test_two_with_much_to_do_take_turns(self) -> None:
        began = await self.began(slowly, 1, "a-1", "a-2", "a-3", "b-1", "b-2", "b-3")

        assert [key for key, _ in began] == ["a-1", "a-2", "b-1", "a-3", "b-2", "b-3"]

    @taking_no_time
    async def test_who_has_the_fewest_looks_is_next(self) -> None:
        async def of_a_for_long(key: str) -> None:
            await asyncio.sleep(100 if key[0] == "a" else 5)

        began = await self.began(of_a_for_long, 5, *[f"{of}-{number}" for number in range(6) for of in "ab"])

        assert [key for key, at in began if at == 5] == ["b-2", "b-3"]

    @taking_no_time
    async def test_while_something_is_urgent_for_one_each_other_has_a_look_at_most(self) -> None:
        looks, urgent = Looks(slowly), ["b"]
        queue = WorkQueue(looks, workers=4, owner=lambda key: key[0], urgent=lambda: urgent)
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(0)
        for key in ("a-1", "a-2", "a-3", "b-1", "b-2", "a-4"):
            queue.add(key)
        await asyncio.sleep(6)
        urgent.clear()
        await asyncio.sleep(100)
        await queue.stop(AT_ONCE)
        await task

        assert looks.began == [("a-1", 0), ("b-1", 0), ("b-2", 0), ("a-2", 5), ("a-3", 10), ("a-4", 10)]

    @taking_no_time
    async def test_an_owner_has_no_more_looks_at_once_than_it_may_though_workers_are_free(self) -> None:
        looks, urgent = Looks(slowly), list[str]()
        queue = WorkQueue(looks, workers=8, owner=lambda key: key[0], at_once=2, urgent=lambda: urgent)
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(0)
        for number in range(8):
            queue.add(f"a-{number}")
        await asyncio.sleep(4)
        assert len(looks.began) == 2
        urgent.append("a")
        await asyncio.sleep(3)
        await queue.stop(AT_ONCE)
        await task

        assert len(looks.began) == 8

    @taking_no_time
    async def test_what_was_forgotten_leaves_no_turn_behind(self) -> None:
        looks = Looks()
        queue = WorkQueue(looks, workers=1, owner=lambda key: key[0])
        for key in ("a-1", "b-1", "b-2"):
            queue.add(key)
        queue.forget("a-1")
        queue.forget("b-1")
        assert queue.depth.due == 1
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(1)
        await queue.stop(AT_ONCE)
        await task

        assert [key for key, _ in looks.began] == ["b-2"]


@pytest.mark.parametrize("seed", range(20))
@taking_no_time
async def test_whatever_happens_the_last_change_is_seen(seed: int) -> None:
    """Random events, failures and lost races on a few keys: at the end each key was looked at after its last change."""
    chance = random.Random(seed)
    changed: dict[str, float] = {}
    seen: dict[str, float] = {}

    async def look(key: str) -> timedelta | None:
        read_at = now()
        await asyncio.sleep(chance.choice([0, 0.01, 1, 5]))
        match chance.choice(["good", "good", "bad", "lost"]):
            case "bad":
                raise ConnectionError
            case "lost":
                raise Requeue
        seen[key] = read_at
        return chance.choice([None, None, 30 * SECOND])

    async with working(Looks(look), workers=3, seed=seed) as queue:
        for _ in range(200):
            key = chance.choice("abcdef")
            changed[key] = now()
            queue.add(key)
            await asyncio.sleep(chance.choice([0, 0, 0.01, 0.5, 3]))
        await asyncio.sleep(2000)
    missed = {key for key, at in changed.items() if seen.get(key, -1.0) < at}

    assert not missed, f"seed {seed}"


@taking_no_time
async def test_what_a_look_logs_is_not_about_who_asked_for_it(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("kafka_recovery.test")

    async def look(key: str) -> None:
        log.warning("looked at %s", key)

    handlers = logging.root.handlers[:]
    logs.set_up(logs.LogFormat.PLAIN)
    async with working(look) as queue:
        with logs.about(recovery="kafka/another"):
            queue.add("kafka/one")
        await asyncio.sleep(1)
    logging.root.handlers[:] = handlers

    told = capsys.readouterr().err

    assert "looked at kafka/one" in told
    assert "kafka/another" not in told
