"""The same asyncio code on virtual time: no second of a real clock, no chance, no lost wake-up left waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest

from kafka_recovery.simulator.host.loop import Standstill, VirtualClock, VirtualLoop
from kafka_recovery.simulator.host.mortality import Killed, MortalClock, Process
from kafka_recovery.simulator.model.scheduler import FIRST_INSTANT, Scheduler


def test_a_day_of_sleeping_is_one_step_and_waits_for_no_real_clock() -> None:
    scheduler = Scheduler()

    VirtualLoop(scheduler).finish(asyncio.sleep(86_400))

    assert scheduler.now == 86_400
    assert scheduler.events_run == 0


def test_sleepers_wake_in_the_order_of_time_among_the_models_own_events() -> None:
    scheduler, heard = Scheduler(), list[str]()
    scheduler.at(1.5, lambda: heard.append("model at 1.5"))
    scheduler.at(2.5, lambda: heard.append("model at 2.5"))

    async def sleeper(seconds: float) -> None:
        await asyncio.sleep(seconds)
        heard.append(f"woke at {scheduler.now:g}")

    async def main() -> None:
        await asyncio.gather(sleeper(3), sleeper(2), sleeper(1))

    VirtualLoop(scheduler).finish(main())

    assert heard == ["woke at 1", "model at 1.5", "woke at 2", "model at 2.5", "woke at 3"]


def test_what_the_model_answers_wakes_who_waits_at_that_moment() -> None:
    scheduler = Scheduler()

    async def main() -> float:
        answer = asyncio.get_running_loop().create_future()
        scheduler.at(7, lambda: answer.set_result(None))
        await answer
        return scheduler.now

    assert VirtualLoop(scheduler).finish(main()) == 7


def test_a_deadline_cuts_off_what_is_never_answered() -> None:
    scheduler = Scheduler()

    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.get_running_loop().create_future()
        return scheduler.now

    assert VirtualLoop(scheduler).finish(main()) == 5


def test_waiting_for_what_can_never_happen_is_an_error_not_a_hang() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Standstill):
        VirtualLoop(Scheduler()).finish(main())


def test_whoever_is_left_at_the_end_is_cancelled() -> None:
    ended = list[str]()

    async def forever(name: str) -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            ended.append(name)

    async def main() -> None:
        kept.extend(asyncio.create_task(forever(name)) for name in ("one", "two"))
        await asyncio.sleep(1)

    kept = list[asyncio.Task[None]]()
    VirtualLoop(Scheduler()).finish(main())

    assert ended == ["one", "two"]


def test_the_wall_clock_jumps_and_the_monotonic_one_does_not() -> None:
    loop = VirtualLoop(Scheduler())
    clock = VirtualClock(loop)

    async def main() -> None:
        await clock.sleep(timedelta(seconds=10))
        clock.jumped = timedelta(days=-1)

    loop.finish(main())

    assert clock.monotonic() == timedelta(seconds=10)
    assert clock.now() == FIRST_INSTANT + timedelta(seconds=10) - timedelta(days=1)


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_process_dies_at_its_io_step_and_does_nothing_more(at: int) -> None:
    loop = VirtualLoop(Scheduler())
    process = Process("engine", kill_at=at)
    clock, done = MortalClock(process, VirtualClock(loop)), list[int]()

    async def live() -> None:
        for number in range(5):
            await clock.sleep(timedelta(seconds=1))
            done.append(number)

    async def main() -> None:
        with pytest.raises(Killed):
            await live()
        with pytest.raises(Killed):
            await live()

    loop.finish(main())

    assert len(done) == (at - 1) // 2
    assert process.died_at is not None


def test_the_moment_of_death_is_heard() -> None:
    heard = list[str]()
    process = Process("engine")
    say: Callable[[], None] = lambda: heard.append("dead")  # noqa: E731
    process.when_dead(say)

    process.kill("by its host")
    process.kill("again")

    assert heard == ["dead"]


def test_how_finely_the_hosts_clock_ticks_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event loop lets timers fire together that lie within one tick of the host's clock."""

    def story() -> list[float]:
        scheduler, woke = Scheduler(), list[float]()

        async def sleeper(seconds: float) -> None:
            await asyncio.sleep(seconds)
            woke.append(scheduler.now)

        async def main() -> None:
            await asyncio.gather(sleeper(1.0), sleeper(1.01), sleeper(1.02))

        VirtualLoop(scheduler).finish(main())
        return woke

    fine = story()
    coarse = SimpleNamespace(resolution=1 / 64)
    monkeypatch.setattr(time, "get_clock_info", lambda name: coarse)

    assert story() == fine == [1.0, 1.01, 1.02]
