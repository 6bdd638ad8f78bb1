"""Whatever ends a run: its waves end, their orders are restored, what is known is told, and so is every error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

import pytest

from kafka_recovery.domain.election import ALL_OFFLINE, Relay
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome, Report
from kafka_recovery.domain.policy import Approval, Policy
from kafka_recovery.recovery.engine import Engine
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.ports import JournalUnwritable
from unit.recovery.brokers import CLUSTER, Fate
from unit.recovery.world import AUTO, BRIEF, ORDERS, PromptStorage, World, code, policy

MANY = tuple(TopicPartition("orders", partition) for partition in range(5))


def fails(error: Exception) -> Callable[[], None]:
    """Something that raises this."""

    def fail() -> None:
        raise error

    return fail


async def broken_off(
    world: World, error: type[Exception], policy: Policy = AUTO, meanwhile: Callable[[Engine], None] = lambda _: None
) -> tuple[Exception, Report]:
    """A recovery that ends with this error: the error, and what the engine knows all the same."""
    with world.process(policy) as engine:
        meanwhile(engine)
        with pytest.raises(error) as raised:
            await engine.recover(ALL_OFFLINE)
        return raised.value, engine.so_far()


async def test_an_error_that_ends_a_run_leaves_what_was_concluded(world: World) -> None:
    for id in MANY:
        world.offline(id=id)
    world.before("wave_started", fails(JournalUnwritable("full")), nth=3)

    _, known = await broken_off(world, JournalUnwritable, policy(Approval.AUTO, 1))

    recovered = [outcome for outcome in known.outcomes if outcome.outcome is Outcome.RECOVERED]
    assert [outcome.id for outcome in known.outcomes] == list(MANY)
    assert len(recovered) == len(world.kafka.elected) == 2
    assert {code(known, outcome.id) for outcome in known.outcomes} == {None, "JournalUnwritable"}
    assert known.plans == tuple(await world.open_runs())
    assert world.kept_its_promises()


async def test_no_error_of_several_waves_is_swallowed_and_a_defect_comes_first(world: World) -> None:
    for id in MANY:
        world.offline(id=id)
    world.kafka.lag = timedelta(seconds=3)
    first, second = JournalUnwritable("full"), TypeError("odd")
    world.before("wave_ended", fails(first))
    world.before("wave_ended", fails(second), nth=2)

    raised, known = await broken_off(world, TypeError, policy(Approval.AUTO, 1))

    assert raised is second
    assert isinstance(raised.__cause__, ExceptionGroup)
    assert raised.__cause__.exceptions == (first,)
    recovered = [outcome for outcome in known.outcomes if outcome.outcome is Outcome.RECOVERED]
    assert len(recovered) == len(world.kafka.elected) > 1
    assert world.kept_its_promises()


async def test_a_wave_that_was_prepared_ahead_gets_its_orders_back(world: World) -> None:
    """The first new leader answers, the second one does not yet: so the next wave is prepared already."""
    for id in MANY:
        world.offline({3: 15, 2: 27} if id.partition % 2 else {2: 15, 3: 27}, id)
    world.kafka.nodes[3].busy = True
    world.clock.later(timedelta(seconds=5), lambda: setattr(world.kafka.nodes[3], "busy", False))
    altered: list[int] = []

    def fail() -> None:
        altered.append(len(world.unrestored()))
        raise JournalUnwritable("full")

    world.before("wave_ended", fail)

    await broken_off(world, JournalUnwritable, policy(Approval.AUTO, 2, 3))

    assert altered[0] > 0, "the next wave was designated already"
    assert world.kept_its_promises()


async def test_who_is_cancelled_while_a_run_is_broken_off_leaves_no_wave_at_work(world: World) -> None:
    """The next run of the same process would change the same orders beside it."""
    for id in MANY:
        world.offline(id=id)
    world.kafka.lag = timedelta(seconds=3)
    before = asyncio.all_tasks()

    def fail() -> None:
        world.clock.later(timedelta(milliseconds=100), running.cancel)
        raise JournalUnwritable("full")

    world.before("wave_started", fail, nth=3)
    with world.process(policy(Approval.AUTO, 1)) as engine:
        running = asyncio.create_task(engine.recover(ALL_OFFLINE))
        with pytest.raises(asyncio.CancelledError):
            await running

    assert asyncio.all_tasks() <= before


@pytest.mark.parametrize("call", ["designate", "elect"])
async def test_a_driver_with_a_defect_leaves_a_request_in_doubt_and_no_order_altered(world: World, call: str) -> None:
    """What it had sent by then nobody knows: it is waited out, then the order is restored, then the defect is told."""
    for id in MANY[:2]:
        world.offline(id=id)
    world.after(call, fails(TypeError("odd answer")))

    raised, known = await broken_off(world, TypeError, policy(Approval.AUTO, 1))

    assert str(raised) == "odd answer"
    assert world.waited_out()
    assert len(world.kafka.elected) == (call == "elect")
    assert [outcome.outcome for outcome in known.outcomes].count(Outcome.RECOVERED) == (call == "elect")
    assert world.kept_its_promises()


async def test_a_cluster_with_a_defect_does_not_keep_the_orders_of_a_wave_from_being_restored(world: World) -> None:
    world.offline()
    world.before("answering", fails(TypeError("odd answer")))

    _, known = await broken_off(world, TypeError)

    assert (known[ORDERS].outcome, code(known), known[ORDERS].order_restored) == (Outcome.IN_DOUBT, "TypeError", True)
    assert world.kept_its_promises()
    assert (await world.resume())[ORDERS].outcome is Outcome.RECOVERED


# A disk that hangs


HANGING = {
    "write plan.json": 0,
    "write begun.json": 0,
    "write wave-0001-started.json": 0,
    "write wave-0001-ended.json": 1,
    "write wave-0002-started.json": 1,
}


@pytest.mark.parametrize("what", HANGING)
async def test_a_disk_that_hangs_ends_the_run_with_every_order_restored(world: World, what: str) -> None:
    for id in MANY[:3]:
        world.offline(id=id)
    world.hangs_at = what

    raised, known = await broken_off(world, JournalUnwritable, policy(Approval.AUTO, 1))

    assert "gave no answer within 0.5 s" in str(raised)
    assert what in str(raised)
    assert [outcome.outcome for outcome in known.outcomes].count(Outcome.RECOVERED) >= HANGING[what]
    assert world.kept_its_promises()

    world.hangs_at = ""
    await world.resume(AUTO)
    assert (await world.recover()).recovered
    assert await world.open_runs() == []


async def test_a_doubt_that_the_disk_does_not_note_is_waited_out_all_the_same(world: World) -> None:
    world.offline()
    world.kafka.relay = Relay(BrokerId(3), "b3", 9092)
    world.kafka.elect_fates = [Fate.LATE]
    world.hangs_at = "doubt|ended"

    _, known = await broken_off(world, JournalUnwritable)

    assert world.waited_out()
    assert known[ORDERS].outcome is Outcome.RECOVERED
    assert world.kept_its_promises()


async def test_a_doubt_that_did_not_end_and_was_not_noted_is_told(world: World) -> None:
    """Whoever goes on with the run would not know whom to wait for."""
    world.offline()
    world.kafka.relay = Relay(BrokerId(3), "b3", 9092)
    world.kafka.elect_fates = [Fate.LOST]
    world.before("elect", lambda: setattr(world.kafka.nodes[3], "mute", True))
    world.hangs_at = "doubt"

    raised, known = await broken_off(world, JournalUnwritable)

    assert "doubt-3" in str(raised)
    assert (known[ORDERS].outcome, known[ORDERS].order_restored) == (Outcome.IN_DOUBT, False)
    assert world.unrestored() == [ORDERS]


async def test_a_disk_that_hung_is_not_written_again(world: World) -> None:
    """The first try may still be at it, and two beside each other could tear the file."""
    world.offline()
    plan = await world.plan()
    storage = PromptStorage(world.directory, CLUSTER, "begun")
    journal = FileJournal(storage, world.clock.now, BRIEF)
    name = await journal.record(plan)
    with pytest.raises(JournalUnwritable, match=r"begun\.json"):
        await journal.approved(name, None)
    storage.hangs_at = ""

    with pytest.raises(JournalUnwritable, match=r"begun\.json"):
        await journal.approved(name, None)

    assert await world.open_runs() == []
