"""The operator's process is told to end: the wave under way comes to its end, and nothing more is begun."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from kafka_recovery.domain.election import ElectionAnswer, ElectionRequest
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.kube.resources.kinds import FINALIZER
from kafka_recovery.recovery.ports import JournalUnwritable
from unit.kube.journal.journals import NAME, NAMESPACE, journal_of
from unit.kube.office import Office
from unit.kube.our_objects import inhabited
from unit.recovery.world import ORDERS, PAYMENTS, World


async def stopped_at(office: Office, call: str) -> None:
    """Its process is told to end right after this call in Kafka took effect."""
    hit = asyncio.Event()
    office.world.after(call, hit.set)
    office.takes_up()
    async with asyncio.timeout(100):
        await hit.wait()
    await office.all.stop()
    await office.queue.stop(timedelta(0))


@pytest.mark.parametrize("call", ["designate", "elect", "restore"])
async def test_the_wave_under_way_comes_to_its_end(office: Office, call: str) -> None:
    await stopped_at(office, call)

    assert office.world.unrestored() == []
    assert any("wave-0001-ended" in name for name in office.api.records())


async def test_no_further_wave_is_begun_and_the_next_process_begins_it(world: World) -> None:
    world.offline(id=PAYMENTS)
    office = Office(world, inhabited(ORDERS, PAYMENTS, waveSizes=[1]))
    await stopped_at(office, "elect")

    assert {world.leader(), world.leader(PAYMENTS)} == {None, 2}
    assert world.unrestored() == []

    again = Office(world, office.api)
    again.takes_up()
    await again.until("Recovered")
    assert (world.leader(), world.leader(PAYMENTS)) == (2, 2)


async def test_so_does_the_one_of_a_recovery_that_was_deleted_by_force(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = office.world.kafka.restore

    async def slow(requests: Sequence[ElectionRequest]) -> Mapping[TopicPartition, ElectionAnswer]:
        await asyncio.sleep(5)
        return await real(requests)

    monkeypatch.setattr(office.world.kafka, "restore", slow)
    hit = asyncio.Event()
    office.world.after("elect", hit.set)
    office.takes_up()
    async with asyncio.timeout(100):
        await hit.wait()
    office.remove()
    await asyncio.sleep(1)
    assert office.world.unrestored()

    await office.all.stop()

    assert office.world.unrestored() == []
    await office.queue.stop(timedelta(0))


async def test_what_takes_too_long_is_left_as_by_a_crash(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(requests: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(office.world.kafka, "restore", hangs)
    began = asyncio.get_running_loop().time()
    await stopped_at(office, "elect")

    assert asyncio.get_running_loop().time() - began < 30
    assert office.api.finalizers(NAMESPACE, NAME) == [FINALIZER]


async def test_nothing_is_taken_up_any_more(world: World) -> None:
    """Queues are worked off for a moment after the waves have ended."""
    world.offline(id=PAYMENTS)
    office = Office(world, inhabited(ORDERS))
    office.open()

    await office.all.stop()
    office.another("prod-second", PAYMENTS)
    office.see("prod-second")
    await asyncio.sleep(60)
    await office.queue.stop(timedelta(0))

    assert (world.leader(PAYMENTS), office.api.records()) == (None, {})


async def test_a_wave_that_could_not_be_begun_is_not_waited_for(office: Office, plan: Plan) -> None:
    journal = journal_of(office.api)
    name = await journal.record(plan)
    await journal.approved(name, "ann")
    office.api.refusing = lambda what: "started" in what

    with pytest.raises(JournalUnwritable):
        await journal.wave_started(name, 1, (ORDERS,))

    assert not journal.waves_under_way
