"""Journals whose recovery was deleted by force: their orders are put back, and what lies about is removed later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.facts import FACT_LABEL, OWNED_LABEL
from kafka_recovery.kube.journal.orphans import OrphanedJournal, orphaned, prune
from kafka_recovery.kube.resources.labels import CLUSTER_LABEL, PLAN_LABEL, RECOVERY_LABEL, RECOVERY_UID_LABEL
from kafka_recovery.recovery.ports import JournalUnwritable
from unit.kube.journal.journals import NAME, NAMESPACE, PLACE, RECOVERED, RECOVERY, UID, begin, engine, journal_of
from unit.kube.kubernetes_in_memory import NOON, KubernetesInMemory
from unit.recovery.brokers import CLUSTER, Crash
from unit.recovery.world import ORDERS, World, crash, dies_in

DAY = timedelta(days=1)


async def mid_way(world: World, api: KubernetesInMemory) -> None:
    """The operator died after an election: the assignment order is altered still."""
    world.after("elect", crash)
    await dies_in(engine(world, api).recover(ALL_OFFLINE))
    assert world.unrestored() == [ORDERS]


def removed_by_force(api: KubernetesInMemory) -> None:
    """Its finalizer was taken off by hand."""
    del api.objects[RECOVERY]


async def left_behind(world: World, api: KubernetesInMemory) -> OrphanedJournal:
    """The journal of such an operator, of a recovery that was removed by force then."""
    await mid_way(world, api)
    removed_by_force(api)
    (journal,) = await orphans(api)
    return journal


async def restored(world: World, api: KubernetesInMemory, journal: OrphanedJournal) -> None:
    """What the next operator does, and that nothing is left of it."""
    await engine(world, api, journal=journal).undo()
    assert world.kept_its_promises()
    assert await orphans(api) == []


async def orphans(api: KubernetesInMemory, *living: str) -> list[OrphanedJournal]:
    return await orphaned(api, NAMESPACE, CLUSTER, living)


async def pruned(api: KubernetesInMemory, *living: str, older_than: timedelta = DAY) -> int:
    return await prune(api, NAMESPACE, CLUSTER, living, api.now - older_than)


async def test_an_undoing_that_was_cut_short_is_found_again(world: World, api: KubernetesInMemory) -> None:
    journal = await left_behind(world, api)
    world.before("restore", crash)
    await dies_in(engine(world, api, journal=journal).undo())

    (journal,) = await orphans(api)
    await restored(world, api, journal)


async def test_a_recovery_that_lives_is_no_orphan(world: World, api: KubernetesInMemory) -> None:
    await mid_way(world, api)

    assert await orphans(api, UID) == []
    assert await orphans(api) == [], "it may be younger than the list of those that live"
    api.put_recovery(NAMESPACE, NAME, "another-uid")
    assert len(await orphans(api, "another-uid")) == 1


async def test_orphans_of_other_clusters_and_plans_that_never_began_are_left_alone(
    world: World, api: KubernetesInMemory
) -> None:
    await begin(journal_of(api, cluster_id="another"), await world.plan())
    await journal_of(api).record(await engine(world, api).plan(ALL_OFFLINE))
    removed_by_force(api)

    assert await orphans(api) == []
    assert len(await orphaned(api, NAMESPACE, "another", ())) == 1


async def test_nothing_new_is_begun_for_a_recovery_that_is_gone(world: World, api: KubernetesInMemory) -> None:
    journal = await left_behind(world, api)
    (run,) = await journal.unfinished()

    for begin_it in (lambda: journal.record(run.plan), lambda: journal.approved(run.digest, "ann")):
        with pytest.raises(JournalUnwritable, match=f"{NAME} is gone"):
            await begin_it()


def labelled_as_owned(api: KubernetesInMemory, *facts: str) -> None:
    """By whoever may write the status of recoveries: to others the admission policy refuses it."""
    for each in api.records().values():
        if each["metadata"]["labels"][FACT_LABEL] in facts:
            each["metadata"]["labels"][OWNED_LABEL] = "true"


@pytest.mark.parametrize("owned", [("begun",), ("wave-0001-started", "plan")], ids="+".join)
async def test_an_orphan_is_found_though_some_of_it_is_labelled_as_owned(
    world: World, api: KubernetesInMemory, owned: tuple[str, ...]
) -> None:
    """What was handed over whole had ended; a part of it says nothing."""
    await mid_way(world, api)
    labelled_as_owned(api, *owned)
    removed_by_force(api)

    (journal,) = await orphans(api)
    assert await journal.altered() == {ORDERS}
    await restored(world, api, journal)


@pytest.mark.parametrize("owned", [(), ("begun",), ("begun", "wave-0001-started")], ids=str)
async def test_a_journal_with_something_left_to_undo_is_never_pruned(
    world: World, api: KubernetesInMemory, owned: tuple[str, ...]
) -> None:
    """Its plan is all that tells of the original orders."""
    await mid_way(world, api)
    labelled_as_owned(api, *owned)
    removed_by_force(api)
    api.pass_time(1000 * DAY)
    before = api.records().keys()

    assert await pruned(api) == 0
    assert api.records().keys() == before


async def test_the_orders_of_a_recovery_that_was_removed_by_force_are_put_back_and_its_record_stays_until_it_is_old(
    world: World, api: KubernetesInMemory
) -> None:
    await restored(world, api, await left_behind(world, api))
    kept = len(api.records())

    assert await pruned(api) == 0
    api.pass_time(2 * DAY)
    assert await pruned(api) == kept > 0
    assert api.objects == {}


async def test_a_pruning_that_was_cut_short_never_leaves_half_a_run(world: World, api: KubernetesInMemory) -> None:
    journal = await left_behind(world, api)
    await engine(world, api, journal=journal).undo()
    api.pass_time(2 * DAY)

    for _ in range(len(api.records())):
        api.faults = {len(api.writes) + 1: (False, Crash())}
        try:
            await pruned(api)
        except Crash:
            api.died = None
        assert await orphans(api) == []

    assert api.records() == {}


async def test_times_are_read_as_the_api_server_writes_them(world: World, api: KubernetesInMemory) -> None:
    name = await journal_of(api).record(await world.plan())
    made = api.objects[f"{PLACE}/{NAME}-{name[:16]}-plan"]["metadata"]["creationTimestamp"]
    removed_by_force(api)

    assert made == "2026-11-21T12:00:00Z"
    assert await prune(api, NAMESPACE, CLUSTER, (), NOON) == 0
    assert await prune(api, NAMESPACE, CLUSTER, (), NOON + timedelta(seconds=1)) == 1


# Damage


def copied(api: KubernetesInMemory, fact: str, uid: str, *, plan: str | None = None, name: str = "a-copy") -> None:
    """Somebody applied a RecoveryRecord of the journal once more, as an editor shows it; whose it is was changed."""
    head = next(each for at, each in api.records().items() if at.endswith(fact))
    meta = head["metadata"]
    labels = {**meta["labels"], RECOVERY_UID_LABEL: uid, PLAN_LABEL: plan or meta["labels"][PLAN_LABEL]}
    made = {**head, "metadata": {**meta, "name": name, "uid": name, "labels": labels}}
    api.objects[f"{PLACE}/{name}"] = made


def lose(api: KubernetesInMemory, *facts: str) -> None:
    """Somebody deleted RecoveryRecords."""
    for name in [at for at in api.records() if at.endswith(facts)]:
        del api.objects[f"{PLACE}/{name}"]


def relabel(api: KubernetesInMemory, fact: str) -> None:
    """Something labels all objects of the namespace as it thinks right."""
    name = next(at for at in api.records() if at.endswith(fact))
    api.objects[f"{PLACE}/{name}"]["metadata"]["labels"][RECOVERY_LABEL] = "another"


def copied_but_no_plan(api: KubernetesInMemory) -> None:
    copied(api, "begun", UID)
    lose(api, "-plan")


async def test_a_record_that_only_looks_like_ours_keeps_no_orphan_from_being_restored(
    world: World, api: KubernetesInMemory
) -> None:
    await mid_way(world, api)
    removed_by_force(api)
    copied(api, "begun", "of-nobody")

    journals = {each.recovery.uid: each for each in await orphans(api)}
    await engine(world, api, journal=journals[UID]).undo()

    assert world.kept_its_promises()
    with pytest.raises(InvalidDocument, match="RecoveryRecord a-copy: its labels are not"):
        await journals["of-nobody"].unfinished()


async def test_a_damaged_record_of_a_recovery_that_lives_is_its_own_run_s_concern(
    world: World, api: KubernetesInMemory
) -> None:
    await mid_way(world, api)
    copied(api, "begun", UID)

    assert await orphans(api) == []


async def orphaned_and(
    damage: Callable[[KubernetesInMemory], None], world: World, api: KubernetesInMemory
) -> OrphanedJournal:
    """The journal of a recovery that was removed by force, and then damaged."""
    digest = await begin(journal_of(api), await world.plan())
    await journal_of(api).wave_ended(digest, 1, (RECOVERED,))
    removed_by_force(api)
    damage(api)
    (journal,) = await orphans(api)
    return journal


@pytest.mark.parametrize(
    "damage",
    [
        lambda api: lose(api, "-plan"),
        lambda api: lose(api, "-started"),
        lambda api: copied(api, "begun", UID),
        lambda api: relabel(api, "begun"),
        lambda api: relabel(api, "-plan"),
    ],
    ids=["no plan", "no wave", "begun twice", "begun relabelled", "plan relabelled"],
)
async def test_a_damaged_journal_holds_the_partitions_that_it_still_names(
    world: World, api: KubernetesInMemory, damage: Callable[[KubernetesInMemory], None]
) -> None:
    journal = await orphaned_and(damage, world, api)

    assert await journal.altered() == {ORDERS}


@pytest.mark.parametrize(
    "damage",
    [
        lambda api: lose(api, "-plan", "-started"),
        copied_but_no_plan,
        lambda api: copied(api, "begun", UID, plan="0123456789abcdef"),
    ],
    ids=["neither plan nor wave", "begun twice without a plan", "of a plan that is not there"],
)
async def test_of_a_journal_that_names_no_partitions_any_more_it_is_said(
    world: World, api: KubernetesInMemory, damage: Callable[[KubernetesInMemory], None]
) -> None:
    journal = await orphaned_and(damage, world, api)

    with pytest.raises(InvalidDocument, match="RecoveryRecord"):
        await journal.altered()


async def test_a_record_that_names_no_recovery_is_named_itself(world: World, api: KubernetesInMemory) -> None:
    await begin(journal_of(api), await world.plan())
    copied(api, "begun", "of-nobody")
    meta = api.objects[f"{PLACE}/a-copy"]["metadata"]
    meta["labels"] = {name: meta["labels"][name] for name in (CLUSTER_LABEL, FACT_LABEL)}

    (journal,) = await orphans(api)

    with pytest.raises(InvalidDocument, match="RecoveryRecord a-copy"):
        await journal.altered()
