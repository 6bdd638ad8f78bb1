"""Whatever records say, and whatever is taken away: what an operator altered is restored, or is not called restored."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta

import pytest

from kafka_recovery.domain.election import Answer, ElectionAnswer, ElectionRequest, Sighting, Unseen
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.journal import record_journal
from kafka_recovery.kube.journal.finalizer import OrderFinalizer
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.resources.kinds import CLUSTERS, FINALIZER, RECOVERIES
from unit.kube.journal.forging import BEGUN, forge
from unit.kube.journal.journals import NAME, NAMESPACE, journal_of
from unit.kube.kubernetes_in_memory import NOON
from unit.kube.office import Office
from unit.kube.operated import Going, Operated, died
from unit.kube.our_objects import KEY, PROD, inhabited
from unit.recovery.world import ORDERS, PAYMENTS, World, crash

LEAVING = {"finalizers": ["example.com/others"], "deletionTimestamp": "2026-11-20T12:00:00Z"}
"""Somebody deleted it, and it waits for somebody else."""
GONE = Reason("InvalidReference", "Secret ca is gone")
Answers = Mapping[TopicPartition, ElectionAnswer]


async def killed_with_an_order_altered(office: Office, monkeypatch: pytest.MonkeyPatch, after: str = "elect") -> None:
    """Its process has gone, and could not restore."""

    async def hangs(requests: object) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(office.world.kafka, "restore", hangs)
    hit = asyncio.Event()
    office.world.after(after, hit.set)
    office.takes_up()
    await hit.wait()
    await office.all.stop()
    await office.queue.stop(timedelta(0))
    assert office.world.unrestored()


@pytest.mark.parametrize("how", ["status.begun is lost", "the end is forged"])
async def test_an_abort_without_a_cluster_ends_nothing_that_had_begun(
    office: Office, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """No Kafka can be asked how the orders stand, so nobody says that they are restored."""
    await killed_with_an_order_altered(office, monkeypatch)
    recovery = office.api.recovery()
    if how == "the end is forged":
        (digest,) = recovery["status"]["begun"]["plans"]
        await forge(office.api, digest, finished=BEGUN)
    else:
        del recovery["status"]["begun"]
        office.api.objects[RECOVERIES.path(NAMESPACE, NAME)] = recovery
    office.api.objects.pop(CLUSTERS.path(*PROD))
    office.api.change(RECOVERIES, NAME, abort=True)

    again = Office(office.world, office.api)
    again.see()
    await asyncio.sleep(60)

    assert not again.status().get("finished")
    assert again.api.finalizers(NAMESPACE, NAME) == [FINALIZER]
    assert all(each["metadata"]["finalizers"] for name, each in again.api.records().items() if "finished" not in name)


async def test_an_end_that_is_forged_while_an_order_can_not_be_restored_ends_nothing(
    automatic: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process carried the plan out itself, and has not finished it."""

    async def refuses(requests: Sequence[ElectionRequest]) -> Answers:
        return {request.id: ElectionAnswer(Answer.REFUSED, Reason("Denied", "no")) for request in requests}

    monkeypatch.setattr(record_journal, "BLANK", 0.0)
    monkeypatch.setattr(automatic.world.kafka, "restore", refuses)
    going = Going(automatic.process())
    await asyncio.sleep(100)
    (open_,) = await going.run.journal.unfinished()

    await forge(automatic.api, open_.digest, finished=BEGUN)
    going.run.wake()
    await asyncio.sleep(100)

    assert going.run.progress.end is None
    assert automatic.world.unrestored()
    await going.killed()


async def test_an_abort_after_a_forged_end_ends_nothing_while_no_order_can_be_seen(
    automatic: Operated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers that show nothing of a partition don't say that its order is its own."""
    automatic.world.after("elect", crash)
    await died(automatic)
    (digest,) = automatic.api.recovery()["status"]["begun"]["plans"]
    await forge(automatic.api, digest, finished=BEGUN)

    async def shows_nothing(partitions: Sequence[TopicPartition], *how: object) -> Mapping[TopicPartition, Sighting]:
        return {id: Unseen(id, Reason("NotRegistered", "the answer is without it")) for id in partitions}

    monkeypatch.setattr(record_journal, "BLANK", 0.0)
    monkeypatch.setattr(automatic.world.kafka, "leaders", shows_nothing)
    automatic.api.change(RECOVERIES, NAME, abort=True)
    going = Going(automatic.process())
    await asyncio.sleep(100)

    assert (going.run.progress.end, going.run.progress.reason.code) == (None, "OrderNotRestored")
    assert automatic.world.unrestored()
    assert automatic.api.finalizers(NAMESPACE, NAME) == [FINALIZER]
    await going.killed()


async def test_a_recovery_that_was_deleted_by_force_is_at_work_until_its_orders_are_restored(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cluster must not be closed under it."""
    go, real = asyncio.Event(), office.world.kafka.restore

    async def slow(requests: Sequence[ElectionRequest]) -> Answers:
        await go.wait()
        return await real(requests)

    monkeypatch.setattr(office.world.kafka, "restore", slow)
    hit = asyncio.Event()
    office.world.after("elect", hit.set)
    office.takes_up()
    await hit.wait()
    await asyncio.sleep(1)

    office.remove()
    await asyncio.sleep(2)
    assert office.all.at_work(PROD)

    go.set()
    await asyncio.sleep(30)
    assert office.world.unrestored() == []
    assert not office.all.at_work(PROD)


async def test_with_a_cluster_that_only_restores_no_further_wave_is_begun_nor_a_recovery(world: World) -> None:
    """Who takes the Secret away has taken the right to elect away."""
    world.offline(id=PAYMENTS)
    office = Office(world, inhabited(ORDERS, PAYMENTS, waveSizes=[1]))
    cluster = office.open()

    def secret_gone() -> None:
        cluster.only_restores = GONE
        office.changed()

    world.after("elect", secret_gone)
    office.see()
    await asyncio.sleep(60)

    assert None in (world.leader(), world.leader(PAYMENTS))
    assert world.unrestored() == []
    assert not office.all.at_work(PROD), "nothing keeps the cluster open any more"

    office.another("second", ORDERS)
    office.see("second")
    await asyncio.sleep(60)
    assert office.reason("second") == GONE.code


async def test_a_run_holds_its_watched_cluster_before_anything_is_altered(office: Office) -> None:
    """What the Kafka is reached with stands there."""
    held: list[object] = []
    office.world.after(
        "designate", lambda: held.append(office.api.objects[CLUSTERS.path(*PROD)]["metadata"]["finalizers"])
    )

    office.takes_up()
    await office.until("Recovered")

    assert held == [[FINALIZER]]


async def test_nothing_is_begun_with_a_watched_cluster_that_is_being_deleted(office: Office) -> None:
    office.api.objects[CLUSTERS.path(*PROD)]["metadata"] |= LEAVING

    office.takes_up()
    await office.until("WatchedClusterDeleted")

    assert (office.world.leader(), office.api.finalizers(NAMESPACE, NAME)) == (None, [])


async def test_a_cluster_that_is_deleted_between_the_question_and_the_first_record_has_nothing_begun(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on = OrderFinalizer.put_on

    async def meanwhile(finalizer: OrderFinalizer) -> Object:
        if finalizer.kind is CLUSTERS:
            office.api.objects[CLUSTERS.path(*PROD)]["metadata"] |= LEAVING
        return await put_on(finalizer)

    monkeypatch.setattr(OrderFinalizer, "put_on", meanwhile)
    office.takes_up()
    await office.until("WatchedClusterDeleted")

    assert (office.world.leader(), office.world.unrestored()) == (None, [])
    assert "status" not in office.api.recovery() or "begun" not in office.status()


async def test_a_process_that_starts_while_its_cluster_is_being_deleted_restores_and_elects_nobody(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.world.offline(id=PAYMENTS)
    with monkeypatch.context() as slow:
        await killed_with_an_order_altered(office, slow, after="designate")
    office.api.objects[CLUSTERS.path(*PROD)]["metadata"] |= LEAVING
    again = Office(office.world, office.api)
    again.another("younger", PAYMENTS)
    assert not again.all.is_restored(KEY), "nobody has looked"

    again.takes_up(only_restores=GONE, untaken={"an-older-one": NOON - timedelta(days=1)})
    again.see("younger")
    await asyncio.sleep(100)

    assert again.world.unrestored() == []
    assert again.all.is_restored(KEY)
    assert again.reason("younger") == GONE.code
    assert (again.world.leader(), again.world.leader(PAYMENTS)) == (None, None)


async def test_a_run_of_which_nobody_was_shown_the_plan_is_never_called_restored(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as slow:
        await killed_with_an_order_altered(office, slow)
    recovery = office.api.recovery()
    del recovery["status"]["begun"]
    office.api.objects[RECOVERIES.path(NAMESPACE, NAME)] = recovery
    again = Office(office.world, office.api)

    again.takes_up()
    await again.until("PlanNotShown")

    assert not again.all.is_restored(KEY)


async def test_the_plan_of_a_run_that_nobody_was_shown_is_held(office: Office, plan: Plan) -> None:
    """With status.begun lost it may be all that tells of the original orders."""
    journal = journal_of(office.api)
    digest = await journal.record(plan)
    await journal.approved(digest, "ann")
    await journal.wave_started(digest, 1, (ORDERS,))
    recovery = office.api.recovery()
    del recovery["status"]["begun"]
    office.api.objects[RECOVERIES.path(NAMESPACE, NAME)] = recovery

    await journal_of(office.api).settle()

    assert all(record["metadata"].get("finalizers") for record in office.api.records().values())
