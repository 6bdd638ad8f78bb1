"""A run that is told to stop ends the waves that are under way and begins no other; its journal shows the truth."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from kafka_recovery.domain.election import ALL_OFFLINE, Relay
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.supervision import Permission
from unit.recovery.brokers import Fate
from unit.recovery.world import AUTO, ORDERS, PAYMENTS, World, code, crash, dies_in, policy
from unit.virtual import taking_no_time

ONE_BY_ONE = policy(Approval.AUTO, 1)
PARTITIONS = (ORDERS, PAYMENTS, TopicPartition("refunds", 0))
QUARANTINE = timedelta(seconds=60)


class Suspension:
    """Owners who suspend their run from some moment on."""

    def __init__(self) -> None:
        self.halt: Reason | None = None

    def suspend(self) -> None:
        self.halt = Reason("Suspended", "spec.suspend is true")

    async def permission(self) -> Permission:
        return Permission(ONE_BY_ONE, halt=self.halt)


def three_offline(directory: Path) -> World:
    world = World(directory)
    for id in PARTITIONS:
        world.offline(id=id)
    return world


@taking_no_time
@pytest.mark.parametrize("fates", [[], [Fate.LATE], [Fate.LOST]], ids=["answered", "late", "lost"])
async def test_a_run_that_is_told_to_stop_at_any_step_leaves_no_order_altered(memory: Path, fates: list[Fate]) -> None:
    """And whoever resumes or recovers goes on with what is left: stopped at each of its calls, one after the other.

    Of sleeps in a row the first one stands for all.
    """
    whole = three_offline(memory / "whole")
    whole.kafka.elect_fates = list(fates)
    await whole.recover(ONE_BY_ONE)
    stopped = 0
    for step, (before, name) in enumerate(pairwise(["", *whole.steps.calls]), start=1):
        if name == before == "sleep":
            continue
        world = three_offline(memory / str(step))
        world.kafka.elect_fates = list(fates)
        with world.process(ONE_BY_ONE) as engine:
            world.before(name, engine.stop, nth=whole.steps.calls[:step].count(name))
            report = await engine.recover(ALL_OFFLINE)

        assert world.kept_its_promises(), f"stopped before call {step}, {name}"
        led = [outcome for outcome in report.outcomes if outcome.outcome.is_recovered]
        assert len(led) == len(world.kafka.elected)
        assert all(outcome.order_restored for outcome in report.outcomes)
        stopped += len(led) < len(PARTITIONS)
        await world.resume(ONE_BY_ONE)
        assert (await world.recover(ONE_BY_ONE)).recovered
        assert sorted(id for id, _ in world.kafka.elected) == sorted(PARTITIONS)
        assert await world.open_runs() == []
        assert world.kept_its_promises()
    assert stopped > 10


async def test_a_stop_is_noticed_while_an_unanswered_request_is_waited_out(world: World) -> None:
    for id in PARTITIONS:
        world.offline(id=id)
    world.kafka.elect_fates = [Fate.LATE]
    told: list[timedelta] = []

    with world.process(ONE_BY_ONE) as engine:

        def stop() -> None:
            engine.stop()
            told.append(world.clock.monotonic())

        world.before("elect", lambda: world.clock.later(timedelta(seconds=20), stop))
        report = await engine.recover(ALL_OFFLINE)

    assert [why.code for why in world.waits] == ["InDoubt", "Interrupted"]
    assert "nothing more is begun" in world.waits[1].message
    assert world.clock.monotonic() - told[0] >= timedelta(seconds=39), "its order may not be touched before"
    assert [outcome.outcome for outcome in report.outcomes].count(Outcome.RECOVERED) == 1
    assert world.kept_its_promises()


@pytest.mark.parametrize("why", ["Suspended", "Interrupted"])
async def test_a_halt_is_told_while_a_relay_gives_no_sign_of_life_and_the_wait_goes_on(world: World, why: str) -> None:
    owners = Suspension()
    for id in PARTITIONS:
        world.offline(id=id)
    world.kafka.relay = Relay(BrokerId(3), "b3", 9092)
    world.kafka.elect_fates = [Fate.LOST]
    world.before("elect", lambda: setattr(world.kafka.nodes[3], "mute", True))
    world.before("elect", lambda: world.clock.later(timedelta(seconds=40), lambda: revive(world)))

    with world.process(owners) as engine:
        halt = engine.stop if why == "Interrupted" else owners.suspend
        world.before("elect", lambda: world.clock.later(timedelta(seconds=20), halt))
        report = await engine.recover(ALL_OFFLINE)

    codes = list(dict.fromkeys(each.code for each in world.waits))
    assert codes == ["RelaySilent", why, "InDoubt"]
    assert {outcome.outcome for outcome in report.outcomes} == {Outcome.REFUSED, Outcome.FAILED}
    assert world.kafka.elected == []
    assert world.kept_its_promises()


def revive(world: World) -> None:
    world.kafka.nodes[3].mute = False


async def cut_short(world: World) -> None:
    world.offline()
    world.before("elect", crash)
    await dies_in(world.recover(ONE_BY_ONE))
    world.calm_down()


@pytest.mark.parametrize("act", ["resume", "undo", "recover"])
async def test_a_stop_ends_the_wait_for_an_earlier_run_of_which_nothing_was_begun_yet(world: World, act: str) -> None:
    await cut_short(world)
    calls = world.changed()

    with world.process(AUTO) as engine:
        began = world.clock.monotonic()
        world.clock.later(timedelta(seconds=20), engine.stop)
        report = await (engine.recover(ALL_OFFLINE) if act == "recover" else getattr(engine, act)())

    assert world.clock.monotonic() - began < timedelta(seconds=25)
    assert not report[ORDERS].order_restored
    assert code(report) == ("OrderNotRestored" if act == "recover" else "Interrupted")
    assert world.changed() == calls
    assert len(await world.open_runs()) == 1
    assert (await world.undo())[ORDERS].order_restored
    assert world.kept_its_promises()


async def test_a_suspended_run_is_waited_for_and_put_back_all_the_same(world: World) -> None:
    """Who suspends, or aborts, wants no election: the orders that stand altered are wanted by nobody."""
    await cut_short(world)
    owners = Suspension()
    owners.suspend()

    report = await world.resume(owners)

    assert world.waited_out()
    assert code(report) == "Suspended"
    assert world.kafka.elected == []
    assert world.kept_its_promises()


async def test_a_stop_leaves_later_runs_of_the_journal_as_they_are(world: World) -> None:
    await cut_short(world)

    with world.process(AUTO) as engine:
        engine.stop()
        report = await engine.resume()

    assert (report[ORDERS].outcome, code(report), report[ORDERS].order_restored) == (
        Outcome.IN_DOUBT,
        "Interrupted",
        None,
    )
    assert report.plans == tuple(await world.open_runs())
