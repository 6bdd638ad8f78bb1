"""Brokers that are kept away while leaders are elected: for how long, where a person is asked in between."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.recovery.execution import Stages
from unit.recovery.brokers import Crash, Fate, port
from unit.recovery.test_consent import MIXED, both_offline
from unit.recovery.world import MANUAL, ORDERS, PAYMENTS, World, crash


class Kept:
    """Port `Hold`: notes for which elections brokers were kept away, and whether they are."""

    def __init__(self, world: World, *, keeps_away: bool = False) -> None:
        self.steps = world.steps
        self.keeps_away = keeps_away
        self.elections: list[tuple[TopicPartition, ...]] = []

    @port
    async def hold(self, plan: Plan, partitions: Sequence[TopicPartition]) -> None:
        self.keeps_away = True
        self.elections.append(tuple(partitions))

    @port
    async def let_go(self) -> None:
        self.keeps_away = False


async def dies_in_the_first_wave(world: World) -> Plan:
    """Of orders; payments are left. The approval is gone by the time that the next process goes on."""
    both_offline(world)
    plan = await world.plan(MIXED)
    world.after("elect", crash)
    with pytest.raises(Crash), world.process(MIXED, stages=Stages(hold=Kept(world))) as engine:
        await engine.execute(plan)
    world.approved.clear()
    return plan


async def test_whom_a_crash_left_kept_away_is_let_go_before_a_person_is_asked_about_the_rest(world: World) -> None:
    plan = await dies_in_the_first_wave(world)
    kept, asked = Kept(world, keeps_away=True), []
    world.before("granted", lambda: asked.append(kept.keeps_away))

    with world.process(MIXED, stages=Stages(hold=kept)) as engine:
        report = await engine.execute(plan)

    assert report.recovered
    assert asked == [False]
    assert kept.elections == [(PAYMENTS,)]
    assert world.kept_its_promises()


async def test_nobody_is_let_go_to_ask_while_an_order_is_not_seen_to_be_put_back(world: World) -> None:
    plan = await dies_in_the_first_wave(world)
    world.kafka.restore_fates = [Fate.LOST] * 20
    kept, asked = Kept(world, keeps_away=True), []
    world.before("granted", lambda: asked.append(kept.keeps_away))

    with world.process(MIXED, stages=Stages(hold=kept)) as engine:
        await engine.execute(plan)

    assert asked == [True]
    assert ORDERS in world.unrestored()


async def test_nobody_is_let_go_where_the_approval_stands(world: World) -> None:
    """Else a broker could come back between the approval and the election that it is kept away for."""
    world.offline()
    plan = await world.plan(MANUAL)
    world.before("designate", crash)
    with pytest.raises(Crash), world.process(MANUAL, stages=Stages(hold=Kept(world))) as engine:
        await engine.execute(plan)

    with world.process(MANUAL, stages=Stages(hold=Kept(world, keeps_away=True))) as engine:
        report = await engine.execute(plan)

    assert report.recovered
    assert "let_go" not in world.steps.calls
