"""A run in the journal that can't be read: nobody is elected where it may have been, and all others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval
from kafka_recovery.recovery.ports import DamagedRun
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import AUTO, ORDERS, PAYMENTS, World, code, crash, dies_in, policy

OTHERS = TopicPartition("others", 0)


async def cut_short(world: World, id: TopicPartition, point: str = "elect") -> Path:
    """A run of this partition that ended before this call; returns its directory."""
    before = set((world.directory / CLUSTER).glob("*/"))
    world.offline({3: 15, 2: 27}, id)
    world.before(point, crash)
    await dies_in(world.recover(policy(Approval.AUTO, 1)))
    world.calm_down()
    (made,) = set((world.directory / CLUSTER).glob("*/")) - before
    return made


@contextmanager
def unseen(world: World, run: Path, id: TopicPartition) -> Iterator[None]:
    """Nobody knows of this run and its partition meanwhile, so nobody puts back what it altered."""
    held, away = world.kafka.partitions.pop(id), world.directory / run.name
    run.rename(away)
    yield
    away.rename(run)
    world.kafka.partitions[id] = held


def plan_changed(run: Path) -> None:
    plan = run / "plan.json"
    plan.write_bytes(plan.read_bytes().replace(b'"leader":2', b'"leader":3'))


def plan_lost(run: Path) -> None:
    (run / "plan.json").unlink()


def start_torn(run: Path) -> None:
    (run / "wave-0001-started.json").write_bytes(b'{"at": ')


def start_of_no_partition(run: Path) -> None:
    started = run / "wave-0001-started.json"
    started.write_text(started.read_text().replace("orders-0", "orders"))


def begun_lost(run: Path) -> None:
    (run / "begun.json").unlink()


def end_torn(run: Path) -> None:
    (run / "wave-0001-ended.json").write_bytes(b"")


def end_without_start(run: Path) -> None:
    (run / "wave-0002-ended.json").write_text('{"at": "2026-11-21T04:00:00+00:00", "wave": 2, "outcomes": []}')


def newer_fact(run: Path) -> None:
    (run / "wave-0001-salvaged.json").write_text("{}")


def newer_field(run: Path) -> None:
    started = run / "wave-0001-started.json"
    started.write_text(started.read_text().replace('"wave"', '"throttle": 3,\n "wave"'))


def unreadable(run: Path) -> None:
    (run / "wave-0001-started.json").unlink()
    (run / "wave-0001-started.json").mkdir()


Damage = Callable[[Path], None]
DAMAGES = (
    plan_changed,
    plan_lost,
    start_torn,
    start_of_no_partition,
    begun_lost,
    end_torn,
    end_without_start,
    newer_fact,
    newer_field,
    unreadable,
)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_run_is_left_alone_and_another_recovery_goes_on(world: World, damage: Damage) -> None:
    run = await cut_short(world, ORDERS)
    damage(run)
    world.offline(id=PAYMENTS)
    calls = len(world.changed())

    report = await world.recover()

    assert (report[ORDERS].outcome, code(report), report[ORDERS].order_restored) == (
        Outcome.REFUSED,
        "JournalDamaged",
        None,
    )
    assert report[PAYMENTS].outcome is Outcome.RECOVERED
    assert len(report.damaged) == 1
    assert str(run) in report.damaged[0].message, "what to move away, once a person has looked"
    assert world.unrestored() == [ORDERS], "its order is the damaged run's own affair"
    assert len(world.changed()) == calls + 3
    assert [id for id, _ in world.kafka.elected] == [PAYMENTS]


@pytest.mark.parametrize("damage", DAMAGES)
async def test_resume_and_undo_tell_of_a_damaged_run_and_see_to_the_others(world: World, damage: Damage) -> None:
    damaged = await cut_short(world, ORDERS)
    with unseen(world, damaged, ORDERS):
        await cut_short(world, PAYMENTS)
    damage(damaged)
    assert world.unrestored() == [PAYMENTS, ORDERS]

    undone = await world.undo()
    again = await world.resume()

    assert undone[PAYMENTS].order_restored
    for report in (undone, again):
        assert (report[ORDERS].outcome, report[ORDERS].order_restored) == (Outcome.IN_DOUBT, None)
        assert code(report) == "JournalDamaged"
    assert world.unrestored() == [ORDERS]
    assert await world.open_runs() == [damaged.name]


async def test_a_run_of_which_nothing_tells_what_it_began_may_have_begun_anything(world: World) -> None:
    run = await cut_short(world, ORDERS)
    plan_lost(run)
    (run / "wave-0001-started.json").unlink()
    world.offline(id=PAYMENTS)

    report = await world.recover()

    assert {code(report, id) for id in (ORDERS, PAYMENTS)} == {"JournalDamaged"}
    assert "no partition is recovered" in report.damaged[0].message
    assert world.kafka.elected == []
    assert world.unrestored() == [ORDERS]


async def test_a_run_of_which_nothing_tells_what_it_began_lets_others_be_undone(world: World) -> None:
    damaged = await cut_short(world, ORDERS, "designate")
    with unseen(world, damaged, ORDERS):
        await cut_short(world, PAYMENTS)
    plan_lost(damaged)
    (damaged / "wave-0001-started.json").unlink()

    report = await world.undo()

    assert [outcome.id for outcome in report.outcomes] == [PAYMENTS]
    assert len(report.damaged) == 1
    assert world.unrestored() == []


async def test_what_a_damaged_plan_would_have_elected_later_is_kept_off_unless_its_waves_tell(world: World) -> None:
    world.offline(id=PAYMENTS)
    run = await cut_short(world, ORDERS)
    plan_changed(run)
    with world.journal() as journal:
        (told,) = await journal.unfinished()
    start_torn(run)
    with world.journal() as journal:
        (untold,) = await journal.unfinished()

    assert isinstance(told, DamagedRun)
    assert isinstance(untold, DamagedRun)
    assert told.partitions == frozenset({ORDERS}), "one wave began, with one partition"
    assert untold.partitions is None, "neither its waves nor its plan can be read"


async def test_a_damaged_run_with_a_hole_between_its_waves_may_have_begun_all_that_it_elects(world: World) -> None:
    """Whatever the wave began whose facts are gone, its orders may be altered."""
    world.offline(id=PAYMENTS)
    run = await cut_short(world, ORDERS)
    started = (run / "wave-0001-started.json").rename(run / "wave-0002-started.json")
    started.write_text(started.read_text().replace('"wave": 1', '"wave": 2'))
    begun_lost(run)
    with world.journal() as journal:
        (told,) = await journal.unfinished()
    plan_lost(run)
    with world.journal() as journal:
        (untold,) = await journal.unfinished()

    assert isinstance(told, DamagedRun)
    assert isinstance(untold, DamagedRun)
    assert told.partitions == frozenset({ORDERS, PAYMENTS}), "the plan tells"
    assert untold.partitions is None, "neither its waves nor its plan tell"


async def test_a_plan_whose_wave_can_not_be_read_may_have_begun_all_that_it_elects(world: World) -> None:
    world.offline(id=PAYMENTS)
    run = await cut_short(world, ORDERS)
    start_torn(run)

    report = await world.recover()

    assert {code(report, id) for id in (ORDERS, PAYMENTS)} == {"JournalDamaged"}


async def test_a_plan_whose_run_is_damaged_is_not_executed_again(world: World) -> None:
    world.offline()
    plan = await world.plan()
    world.before("elect", crash)
    await dies_in(world.execute(plan))
    world.calm_down()
    (run,) = (world.directory / CLUSTER).glob("*/")
    plan_lost(run)
    calls = world.changed()

    report = await world.execute(plan)

    assert (report[ORDERS].outcome, code(report)) == (Outcome.IN_DOUBT, "JournalDamaged")
    assert world.changed() == calls
    assert not (run / "plan.json").exists()


async def test_a_run_that_is_gone_on_with_keeps_off_what_a_damaged_one_may_have_altered(world: World) -> None:
    damaged = await cut_short(world, ORDERS)
    with unseen(world, damaged, ORDERS):
        world.offline(id=PAYMENTS)
        world.offline(id=OTHERS)
        plan = await world.plan(policy(Approval.AUTO, 1))
        world.before("elect", crash)
        await dies_in(world.execute(plan))
        world.calm_down()
    started = damaged / "wave-0001-started.json"
    started.write_text(started.read_text().replace("orders-0", "payments-0"))
    plan_lost(damaged)

    report = await world.execute(plan)

    assert code(report, PAYMENTS) == "JournalDamaged"
    assert PAYMENTS not in {id for id, _ in world.kafka.elected}


async def test_a_fact_that_was_mended_is_read_again(world: World) -> None:
    run = await cut_short(world, ORDERS)
    raw = (run / "plan.json").read_bytes()
    plan_changed(run)
    assert (await world.resume(AUTO)).damaged
    (run / "plan.json").write_bytes(raw)

    report = await world.resume(AUTO)

    assert (report.damaged, report.recovered) == ((), True)
    assert world.kept_its_promises()


async def test_a_plan_that_does_not_hold_together_is_damage_of_its_own_run(world: World) -> None:
    world.offline()
    plan = replace(await world.plan(), waves=())
    world.offline(id=PAYMENTS)
    with world.journal() as journal:
        await journal.approved(await journal.record(plan), None)

    report = await world.recover()

    assert (code(report), report[PAYMENTS].outcome) == ("JournalDamaged", Outcome.RECOVERED)
    assert "waves are not exactly the partitions" in report.damaged[0].message
