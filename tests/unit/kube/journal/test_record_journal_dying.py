"""The journal in records: what a death at any write leaves, doing it again repairs; others that write as well."""

from __future__ import annotations

from functools import partial
from itertools import count
from pathlib import Path

import pytest

from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.journal import packed
from kafka_recovery.kube.journal.record_journal import JournalWriterConflict
from kafka_recovery.kube.machinery.api import ApiError, Unanswered
from kafka_recovery.kube.resources.kinds import FINALIZER
from kafka_recovery.recovery.ports import JournalUnwritable, PlanFinished
from unit.kube.journal.journals import (
    NAME,
    NAMESPACE,
    OTHERS,
    RECOVERED,
    UID,
    begin,
    engine,
    journal_of,
    unowned,
    whole_story,
)
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.recovery.brokers import Crash
from unit.recovery.world import ORDERS, PAYMENTS, World, dies_in, policy

ONE_BY_ONE = policy(Approval.AUTO, 1, 1)


# A death


async def test_a_process_that_dies_at_any_write_leaves_what_doing_it_again_repairs(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "LARGEST_PIECE", 600)
    orderly = await after_a_death(plan, None, done=False)
    deaths = 0
    for at in range(len(orderly.writes)):
        for done in (False, True):
            api = await after_a_death(plan, at, done=done)
            deaths += 1
            assert sorted(api.records()) == sorted(orderly.records()), (at, done)
            assert unowned(api) == [], (at, done)
            assert api.finalizers(NAMESPACE, NAME) == [], (at, done)
    assert deaths > 20


async def after_a_death(plan: Plan, at: int | None, *, done: bool) -> KubernetesInMemory:
    """The whole story, cut short at one write and begun anew; between the two it must hold together."""
    api = KubernetesInMemory()
    api.put_recovery(NAMESPACE, NAME, UID)
    if at is not None:
        api.faults = {at: (done, Crash())}
        await dies_in(whole_story(journal_of(api), plan))
        api.faults, api.died = {}, None
    runs = await journal_of(api).unfinished()
    assert [run.plan for run in runs] == [plan] * len(runs), (at, done)
    assert not runs or FINALIZER in api.finalizers(NAMESPACE, NAME), (at, done)
    assert not runs or not set(api.records()) - set(unowned(api)), (at, done)
    journal = journal_of(api)
    try:
        name = await journal.record(plan)
    except PlanFinished:
        await journal.finished(digest(plan))
        return api
    await journal.approved(name, "ann")
    if f"{NAME}-{name[:16]}-wave-0001-started" not in api.records():
        await journal.wave_started(name, 1, (ORDERS,))
    await journal.wave_ended(name, 1, () if any(run.in_flight for run in runs) else (RECOVERED,))
    await journal.finished(name)
    return api


async def test_a_death_while_finishing_is_repaired_by_settling(plan: Plan) -> None:
    """`finished` may be durable, so that nobody asks for it again."""
    for deaths in count():
        api = KubernetesInMemory()
        api.put_recovery(NAMESPACE, NAME, UID)
        name = await begin(journal_of(api), plan)
        api.faults = {len(api.writes) + 1 + deaths: (False, Crash())}
        try:
            await journal_of(api).finished(name)
            break
        except Crash:
            api.died = None
        assert await journal_of(api).unfinished() == []
        assert FINALIZER in api.finalizers(NAMESPACE, NAME)
        await journal_of(api).settle()
        assert (unowned(api), api.finalizers(NAMESPACE, NAME)) == ([], []), deaths

    assert deaths == 6, "five owner references, and the finalizer"


@pytest.mark.parametrize("done", [False, True])
async def test_an_engine_whose_process_dies_at_any_write_is_taken_over(tmp_path: Path, done: bool) -> None:
    for deaths in count():
        world, api = World(tmp_path / str(deaths)), KubernetesInMemory()
        world.offline({3: 15, 2: 27})
        world.offline({3: 15, 4: 40}, PAYMENTS)
        api.put_recovery(NAMESPACE, NAME, UID)
        api.faults = {deaths: (done, Crash())}
        api.at_death = partial(setattr, world.steps, "dead", True)
        died = await dies(world, api)
        if died:
            api.died = None
            await engine(world, api, ONE_BY_ONE).resume()
            await engine(world, api, ONE_BY_ONE).recover(ALL_OFFLINE)
            await journal_of(api).settle()
        assert (world.leader(), world.leader(PAYMENTS)) == (2, 4), deaths
        assert world.kept_its_promises(), deaths
        assert api.finalizers(NAMESPACE, NAME) == [], deaths
        assert await journal_of(api).unfinished() == [], deaths
        if not died:
            break

    assert deaths > 12


async def dies(world: World, api: KubernetesInMemory) -> bool:
    try:
        await engine(world, api, ONE_BY_ONE).recover(ALL_OFFLINE)
    except Crash:
        return True
    return False


async def test_half_of_a_plan_is_no_plan(api: KubernetesInMemory, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "LARGEST_PIECE", 300)
    api.faults = {2: (True, Crash())}
    await dies_in(journal_of(api).record(plan))
    api.died = None

    assert len(api.records()) == 3
    assert await journal_of(api).kept(digest(plan)) is None
    assert await journal_of(api).plans() == []


async def test_an_answer_that_was_lost_is_no_reason_not_to_write_it_again(api: KubernetesInMemory, plan: Plan) -> None:
    journal = journal_of(api)
    for write in (
        lambda: journal.record(plan),
        lambda: journal.approved(digest(plan), "ann"),
        lambda: journal.wave_started(digest(plan), 1, (ORDERS,)),
        lambda: journal.wave_ended(digest(plan), 1, (RECOVERED,)),
        lambda: journal.finished(digest(plan)),
    ):
        api.faults = {len(api.writes): (True, Unanswered(0, "Unanswered", "POST …: TimeoutError"))}
        with pytest.raises(JournalUnwritable, match="may have been written all the same"):
            await write()
        await write()

    assert (unowned(api), api.finalizers(NAMESPACE, NAME)) == ([], [OTHERS])


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (ApiError(403, "Forbidden", 'recoveryrecords is forbidden: User "x" cannot create'), "operator's Role needs"),
        (ApiError(403, "Forbidden", "unable to create: it is being terminated"), "namespace is being deleted"),
        (ApiError(403, "Forbidden", "exceeded quota: objects"), "raise the namespace's ResourceQuota"),
        (ApiError(404, "NotFound", 'namespaces "kafka" not found'), "namespace is gone"),
        (ApiError(422, "Invalid", "policy says no"), "admission webhook"),
        (ApiError(429, "TooManyRequests", "throttled"), "next try looks first"),
        (ApiError(500, "InternalError", "etcdserver: request timed out"), "next try looks first"),
        (Unanswered(0, "Unanswered", "POST: TimeoutError"), "next try looks first"),
    ],
)
async def test_a_journal_that_can_not_be_written_says_why_and_nothing_is_changed(
    world: World, error: ApiError, hint: str
) -> None:
    for write in (0, 2, 3):  # the plan, that it begins, its first wave
        api = KubernetesInMemory()
        api.put_recovery(NAMESPACE, NAME, UID)
        api.faults = {write: (False, error)}
        with pytest.raises(JournalUnwritable, match=f"(?s){NAME}.*{hint}"):
            await engine(world, api).recover(ALL_OFFLINE)

        assert world.changed() == []


# Somebody else writes as well


async def test_a_wave_is_begun_by_one_process_only(api: KubernetesInMemory, plan: Plan) -> None:
    name = await begin(journal_of(api), plan)

    with pytest.raises(JournalWriterConflict, match="begun by another process"):
        await journal_of(api).wave_started(name, 1, (ORDERS,))


async def test_who_was_taken_over_notices_at_the_end_of_its_wave(api: KubernetesInMemory, plan: Plan) -> None:
    slow, heir = journal_of(api), journal_of(api)
    name = await begin(slow, plan)
    await heir.wave_ended(name, 1, ())

    with pytest.raises(JournalWriterConflict, match="took this run over"):
        await slow.wave_ended(name, 1, (RECOVERED,))


async def test_an_end_that_arrived_late_is_good_for_who_takes_over(api: KubernetesInMemory, plan: Plan) -> None:
    slow, heir = journal_of(api), journal_of(api)
    name = await begin(slow, plan)
    await slow.wave_ended(name, 1, (RECOVERED,))

    await heir.wave_ended(name, 1, ())

    assert list(await heir.outcomes()) == [RECOVERED]
