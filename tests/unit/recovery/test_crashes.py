"""The process ends at any call over any port; the journal and a fresh look at Kafka are enough to go on, or to undo."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import astuple, dataclass, replace
from datetime import timedelta
from pathlib import Path

import pytest

from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval
from unit.recovery.brokers import Crash, Fate
from unit.recovery.world import COARSE, ORDERS, PAYMENTS, World, crash, dies_in, policy
from unit.virtual import taking_no_time

TWO_WAVES = policy(Approval.MANUAL, 1, 1)
MOST_STEPS = 400


def quiet(world: World) -> None:
    """Nothing else goes wrong."""


def candidate_dies(world: World) -> None:
    world.before("elect", lambda: world.kafka.kill(2))


def election_is_not_answered(world: World) -> None:
    world.kafka.elect_fates = [Fate.LATE]


def election_stops_halfway(world: World) -> None:
    world.kafka.elect_fates = [Fate.LOST]


def restore_is_not_answered(world: World) -> None:
    world.kafka.restore_fates = [Fate.LOST]


def clean_member_returns(world: World) -> None:
    world.before("elect", lambda: world.kafka.start(1))


Trouble = Callable[[World], None]
TROUBLES: list[Trouble] = [
    quiet,
    candidate_dies,
    election_is_not_answered,
    election_stops_halfway,
    restore_is_not_answered,
    clean_member_returns,
]


def two_offline(directory: Path, trouble: Trouble) -> World:
    world = World(directory)
    world.timing = replace(COARSE, look=timedelta(seconds=20))  # a minute that is waited out has three steps, not sixty
    world.offline({3: 15, 2: 27})
    world.offline({3: 15, 4: 40}, PAYMENTS)
    trouble(world)
    return world


CHANGING = frozenset(
    ("record", "approved", "wave_started", "designate", "elect", "restore", "wave_ended", "finished"),
)
"""Calls that leave something behind; in others a process looks, asks or waits."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Before or after the nth call of its name, or at the nth step of all."""

    when: str
    nth: int
    call: str = ""

    def arm(self, world: World) -> None:
        if self.when == "step":
            world.steps.crash_at = self.nth
        else:
            world.steps.hook(f"{self.when} {self.call}", self.nth, crash)


Moments = Callable[[World], Iterator[Moment]]


def of_each_change(told: World) -> Iterator[Moment]:
    """After each call that changes something, and around the first call of each name.

    Who dies between two changes, at whatever step, leaves the same behind.
    """
    counted = Counter[str]()
    for call in told.steps.calls:
        counted[call] += 1
        if counted[call] == 1:
            yield Moment("before", 1, call)
        if counted[call] == 1 or call in CHANGING:
            yield Moment("after", counted[call], call)


def of_each_step(told: World) -> Iterator[Moment]:
    return (Moment("step", step) for step in range(1, told.steps.taken + 1))


RESUME, UNDO, RECOVER = range(3)


async def crashed(memory: Path, trouble: Trouble, moments: Moments, then: int) -> AsyncIterator[World]:
    """One world for each of these moments: a recovery ended there, and nothing else goes wrong any more.

    Of each change a third is for each of what may come then, in each trouble another one: a crash is played once.
    """
    whole = two_offline(memory / "whole", trouble)
    await whole.recover(TWO_WAVES)
    assert set(whole.steps.calls) >= CHANGING, "it never came to its end"
    for number, moment in enumerate(moments(whole), start=TROUBLES.index(trouble)):
        if moments is of_each_change and number % 3 != then:
            continue
        world = two_offline(memory / "-".join(map(str, astuple(moment))), trouble)
        moment.arm(world)
        await dies_in(world.recover(TWO_WAVES))
        world.calm_down()
        yield world


at_any_moment = pytest.mark.parametrize("moments", [of_each_change, pytest.param(of_each_step, marks=pytest.mark.full)])
in_any_trouble = pytest.mark.parametrize("trouble", TROUBLES)


@at_any_moment
@in_any_trouble
@taking_no_time
async def test_resume_goes_on_from_any_point(trouble: Trouble, moments: Moments, memory: Path) -> None:
    async for world in crashed(memory, trouble, moments, RESUME):
        world.approver = None  # nobody is asked twice
        begun = bool(await world.open_runs())

        report = await world.resume(TWO_WAVES)

        assert world.kept_its_promises()
        assert await world.open_runs() == []
        assert bool(report.outcomes) is begun
        for outcome in report.outcomes:
            dead_candidate = outcome.id == ORDERS and not world.kafka.nodes[2].alive
            assert outcome.outcome.is_recovered or dead_candidate, f"{world.directory.name}: {outcome}"
            assert outcome.outcome.is_recovered is (world.leader(outcome.id) is not None), f"{world.directory.name}"


@at_any_moment
@in_any_trouble
@taking_no_time
async def test_undo_puts_every_order_back_from_any_point(trouble: Trouble, moments: Moments, memory: Path) -> None:
    async for world in crashed(memory, trouble, moments, UNDO):
        elected = len(world.kafka.requests)

        report = await world.undo()

        assert world.kept_its_promises()
        assert await world.open_runs() == []
        assert len(world.kafka.requests) == elected
        assert all(outcome.order_restored for outcome in report.outcomes)


@at_any_moment
@in_any_trouble
@taking_no_time
async def test_whoever_recovers_anew_after_a_crash_puts_the_orders_back_before_planning(
    trouble: Trouble, moments: Moments, memory: Path
) -> None:
    async for world in crashed(memory, trouble, moments, RECOVER):
        report = await world.recover(TWO_WAVES)

        assert world.kept_its_promises()
        assert await world.open_runs() == []
        assert report.recovered, f"{world.directory.name}: {report}"
        assert all(world.leader(id) is not None for id in (ORDERS, PAYMENTS))


async def execute_until(world: World, plan: Plan, step: int | None) -> bool:
    world.steps.taken, world.steps.crash_at = 0, step
    try:
        await world.execute(plan)
    except Crash:
        return True
    return False


@taking_no_time
async def test_a_plan_that_was_cut_short_can_be_executed_again(memory: Path) -> None:
    for step in range(1, MOST_STEPS):
        world = two_offline(memory / str(step), quiet)
        plan = await world.plan(TWO_WAVES)
        if not await execute_until(world, plan, step):
            break

        if step_finished := [call for call in world.steps.calls if call == "finished"]:
            assert len(step_finished) == 1
        else:
            assert not await execute_until(world, plan, None)
        assert world.kept_its_promises()
        assert all(world.leader(id) is not None for id in (ORDERS, PAYMENTS))
    else:
        pytest.fail("the run never came to its end")


@taking_no_time
async def test_the_second_process_may_crash_at_any_point_as_well(memory: Path) -> None:
    for step in range(1, MOST_STEPS):
        world = two_offline(memory / str(step), quiet)
        world.before("restore", crash)
        await dies_in(world.recover(TWO_WAVES))
        world.steps.taken, world.steps.crash_at = 0, step
        try:
            await world.resume(TWO_WAVES)
        except Crash:
            world.steps.crash_at = None
            await world.resume(TWO_WAVES)
            assert world.kept_its_promises()
            assert await world.open_runs() == []
        else:
            break
    else:
        pytest.fail("the run never came to its end")


async def test_what_a_killed_run_elected_is_told_by_the_next_one_with_its_own_order_back(world: World) -> None:
    world.offline()
    world.after("elect", crash)
    await dies_in(world.recover())
    world.calm_down()

    report = await world.recover(scope=Scope((ORDERS,)))

    assert world.kept_its_promises()
    assert report[ORDERS].outcome.is_recovered
    assert report[ORDERS].order_restored is True
