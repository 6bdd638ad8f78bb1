"""What others bring to a run: a step before any order is set, and one for what is recovered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.execution import Stages
from unit.recovery.brokers import port
from unit.recovery.world import AUTO, ORDERS, PAYMENTS, World, code, crash, dies_in

NO_SPACE = Reason("NoSpace", "the suffix has 40 GB, and the vault 2 GB left")


class Step:
    """Port `Stage`: notes what it was given."""

    def __init__(self, world: World, fails: Mapping[TopicPartition, Reason] | None = None) -> None:
        self.steps = world.steps
        self.given: list[tuple[TopicPartition, ...]] = []
        self._fails = fails or {}

    @port
    async def go_through(
        self, plan: Plan, digest: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Reason]:
        self.given.append(tuple(partitions))
        return {id: why for id, why in self._fails.items() if id in partitions}


@pytest.fixture
def world(world: World) -> World:
    world.offline()
    world.offline({3: 8, 4: 9}, PAYMENTS)
    return world


async def recover(world: World, stages: Stages) -> Report:
    with world.process(AUTO, stages=stages) as engine:
        return await engine.recover(ALL_OFFLINE)


async def test_what_is_to_be_saved_is_saved_between_the_approval_and_the_first_order(world: World) -> None:
    save, after = Step(world), Step(world)

    report = await recover(world, Stages(save, after))

    assert report.recovered
    assert (save.given, after.given) == ([(ORDERS, PAYMENTS)], [(ORDERS, PAYMENTS)])
    told = ("approved", "stage_entered", "go_through", "stage_left", "designate", "elect", "wave_ended", "finished")
    calls = [call for call in world.steps.calls if call in told]
    assert calls[:5] == ["approved", "stage_entered", "go_through", "stage_left", "designate"]
    assert calls[-5:] == ["wave_ended", "stage_entered", "go_through", "stage_left", "finished"]


async def test_what_could_not_be_saved_is_not_elected(world: World) -> None:
    report = await recover(world, Stages(save=Step(world, {ORDERS: NO_SPACE})))

    assert (report[ORDERS].outcome, code(report)) == (Outcome.REFUSED, "NoSpace")
    assert report[PAYMENTS].outcome is Outcome.RECOVERED
    assert world.kafka.elected == [(PAYMENTS, 4)]


async def test_what_could_not_be_seen_to_afterwards_is_warned_of(world: World) -> None:
    report = await recover(world, Stages(after=Step(world, {ORDERS: NO_SPACE})))

    assert report.recovered
    assert report[ORDERS].warnings == (NO_SPACE.message,)


async def test_a_step_that_a_crash_cut_short_is_gone_through_again_and_a_whole_one_is_not(world: World) -> None:
    save = Step(world)
    world.after("go_through", crash)
    await dies_in(recover(world, Stages(save)))
    world.before("designate", crash)
    await dies_in(resume(world, save))

    report = await resume(world, save)

    assert report.recovered
    assert save.given == [(ORDERS, PAYMENTS)] * 2
    assert world.kept_its_promises()


async def resume(world: World, save: Step) -> Report:
    with world.process(AUTO, stages=Stages(save)) as engine:
        return await engine.resume()
