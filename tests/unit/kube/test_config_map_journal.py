"""The journal in ConfigMaps: whole or not at all, repaired by doing it again, and gone only when nothing is altered."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from kafka_recovery.domain.documents import InvalidDocument, digest
from kafka_recovery.domain.election import ALL_OFFLINE
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval
from kafka_recovery.kube import facts
from kafka_recovery.kube.api import ApiError, Conflict, Object, Unanswered
from kafka_recovery.kube.config_map_journal import ConfigMapJournal, JournalTaken
from kafka_recovery.kube.orphans import orphaned
from kafka_recovery.kube.resources import FINALIZER
from kafka_recovery.recovery.journal_files import JournalUnwritable
from kafka_recovery.recovery.ports import PlanFinished
from unit.kube.journals import CONFIG_MAPS, NAME, NAMESPACE, RECOVERY, UID, begin, engine, journal_of, unowned
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.recovery.brokers import Crash
from unit.recovery.world import ORDERS, PAYMENTS, World, policy

RECOVERED = PartitionOutcome(ORDERS, Outcome.RECOVERED)
OTHERS = "example.com/others"
ONE_BY_ONE = policy(Approval.AUTO, 1, 1)


@pytest.fixture
def api() -> KubernetesInMemory:
    """A namespace with one recovery, which somebody else's finalizer holds as well."""
    api = KubernetesInMemory()
    api.put_recovery(NAMESPACE, NAME, UID, finalizers=[OTHERS])
    return api


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path)
    world.offline()
    return world


@pytest.fixture
async def plan(world: World) -> Plan:
    return await world.plan()


async def another(world: World) -> Plan:
    world.clock.advance(timedelta(seconds=1))
    return await world.plan()


async def whole_story(journal: ConfigMapJournal, plan: Plan) -> None:
    name = await begin(journal, plan)
    await journal.wave_ended(name, 1, (RECOVERED,))
    await journal.finished(name)


# What is kept


async def test_a_run_reads_back_as_it_was_written(api: KubernetesInMemory, plan: Plan) -> None:
    name = await begin(journal_of(api), plan)
    await journal_of(api).wave_ended(name, 1, (RECOVERED,))
    await journal_of(api).wave_started(name, 2, (ORDERS, PAYMENTS))

    (run,) = await journal_of(api).unfinished()

    assert name == digest(plan)
    assert (run.digest, run.plan, run.approved_by) == (name, plan, "ann")
    assert (run.waves, run.in_flight, run.outcomes) == (2, (2,), (RECOVERED,))
    assert run.begun == {ORDERS, PAYMENTS}


async def test_a_plan_is_a_run_once_it_is_approved_and_until_it_is_finished(
    api: KubernetesInMemory, plan: Plan
) -> None:
    journal = journal_of(api)
    name = await journal.record(plan)
    assert (await journal.unfinished(), journal.begun) == ([], False)
    await journal.approved(name, None)
    assert ([run.approved_by for run in await journal.unfinished()], journal.begun) == ([None], True)
    await journal.approved(name, "ann")
    await journal.approved(name, "bob")
    assert [run.approved_by for run in await journal.unfinished()] == ["ann"], "the first approval stands"
    await journal.finished(name)
    assert await journal.unfinished() == []


async def test_every_record_may_be_made_twice(api: KubernetesInMemory, plan: Plan) -> None:
    journal, name = journal_of(api), digest(plan)
    for _ in range(2):
        assert await begin(journal, plan) == name
        await journal.wave_ended(name, 1, (RECOVERED,))
    kept = sorted(api.config_maps())
    await journal.finished(name)
    await journal.finished(name)

    assert sorted(api.config_maps()) == sorted([*kept, f"{NAME}-{name[:16]}-finished"])


async def test_a_plan_that_has_ended_is_not_recorded_again(api: KubernetesInMemory, plan: Plan) -> None:
    await whole_story(journal_of(api), plan)

    with pytest.raises(PlanFinished):
        await journal_of(api).record(plan)
    assert await journal_of(api).kept(digest(plan)) is None


async def test_runs_and_outcomes_come_oldest_first_also_within_one_second(
    api: KubernetesInMemory, world: World, plan: Plan
) -> None:
    later = await another(world)
    journal = journal_of(api)
    lost, found = (PartitionOutcome(ORDERS, outcome) for outcome in (Outcome.UNKNOWN, Outcome.RECOVERED))
    for one, outcome in ((plan, lost), (later, found)):
        await journal.wave_ended(await begin(journal, one), 1, (outcome,))

    assert [run.plan for run in await journal.unfinished()] == [plan, later]
    assert await journal.plans() == [plan, later]
    await journal.finished(digest(plan))
    assert list(await journal.outcomes()) == [lost, found], "those of plans that ended are known as well"


async def test_thousands_of_waves_keep_their_numbers(api: KubernetesInMemory, plan: Plan) -> None:
    journal = journal_of(api)
    name = await begin(journal, plan)
    for number in (9_999, 12_345):
        await journal.wave_started(name, number, ())
        await journal.wave_ended(name, number, (RECOVERED,) if number > 9_999 else ())

    (run,) = await journal.unfinished()
    assert (run.waves, run.in_flight, run.outcomes) == (12_345, (1,), (RECOVERED,))


async def test_what_is_too_large_for_one_config_map_lies_in_several(
    api: KubernetesInMemory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "LARGEST_PART", 300)
    journal = journal_of(api)
    many = tuple(RECOVERED for _ in range(2000))

    name = await begin(journal, plan)
    await journal.wave_ended(name, 1, many)

    sizes = [len(base64.b64decode(each["binaryData"]["json.gz"])) for each in api.config_maps().values()]
    assert len(sizes) > 6
    assert max(sizes) == 300
    (run,) = await journal.unfinished()
    assert (run.plan, run.outcomes) == (plan, many)
    assert await journal.plan(name) == plan


async def test_equal_facts_have_equal_bytes(world: World, plan: Plan) -> None:
    both = []
    for _ in range(2):
        api = KubernetesInMemory()
        await journal_of(api).record(plan)
        both.append({name: each["binaryData"] for name, each in api.config_maps().items()})

    assert both[0] == both[1]


@pytest.mark.parametrize("cluster_id", ["_1abcdefghijklmnopqr_w", "-" * 22, "a" * 64])
async def test_a_cluster_id_need_not_be_a_label(api: KubernetesInMemory, plan: Plan, cluster_id: str) -> None:
    name = await begin(journal_of(api, cluster_id=cluster_id), plan)
    del api.objects[RECOVERY]

    (journal,) = await orphaned(api, NAMESPACE, cluster_id, ())
    assert [run.digest for run in await journal.unfinished()] == [name]


# What holds the recovery


async def test_a_recovery_is_held_from_the_beginning_of_a_run_to_its_end(
    api: KubernetesInMemory, world: World, plan: Plan
) -> None:
    journal = journal_of(api)
    other = await journal.record(await another(world))
    name = await journal.record(plan)
    assert api.finalizers(NAMESPACE, NAME) == [OTHERS]

    for each in (name, other):
        await journal.approved(each, "ann")
        assert api.finalizers(NAMESPACE, NAME) == [OTHERS, FINALIZER]
    await journal.finished(name)
    assert api.finalizers(NAMESPACE, NAME) == [OTHERS, FINALIZER], "another run is not finished"
    await journal.finished(other)
    assert api.finalizers(NAMESPACE, NAME) == [OTHERS]


async def test_nobody_owns_the_journal_until_its_run_is_finished(api: KubernetesInMemory, plan: Plan) -> None:
    journal = journal_of(api)
    name = await begin(journal, plan)
    assert len(unowned(api)) == len(api.config_maps()) == 4

    await journal.finished(name)

    assert unowned(api) == []
    api.objects[RECOVERY]["metadata"]["finalizers"] = []
    await api.delete(RECOVERY)
    assert api.objects == {}, "all goes with the recovery"


async def test_a_recovery_that_is_being_deleted_goes_as_soon_as_its_run_is_finished(
    api: KubernetesInMemory, plan: Plan
) -> None:
    name = await begin(journal_of(api), plan)
    api.objects[RECOVERY]["metadata"]["finalizers"].remove(OTHERS)
    await api.delete(RECOVERY)
    assert RECOVERY in api.objects

    await journal_of(api).finished(name)

    assert api.objects == {}


async def test_a_plan_that_will_not_begin_goes_with_the_recovery_and_one_that_has_begun_is_not_discarded(
    api: KubernetesInMemory, world: World, plan: Plan
) -> None:
    journal = journal_of(api)
    name, refused = await begin(journal, plan), await journal.record(await another(world))

    await journal.discard(refused)
    with pytest.raises(ValueError, match="has begun"):
        await journal.discard(name)

    assert f"{NAME}-{refused[:16]}-plan" not in unowned(api)
    assert f"{NAME}-{name[:16]}-plan" in unowned(api)


async def test_a_replaced_plan_is_deleted_and_one_that_has_begun_is_not(
    api: KubernetesInMemory, world: World, plan: Plan
) -> None:
    journal = journal_of(api)
    name, replaced = await begin(journal, plan), await journal.record(await another(world))

    await journal.replace(replaced)
    with pytest.raises(ValueError, match="has begun"):
        await journal.replace(name)

    assert not [each for each in api.config_maps() if replaced[:16] in each]
    assert f"{NAME}-{name[:16]}-plan" in unowned(api)


@pytest.mark.parametrize("case", ["being deleted", "gone", "another of that name"])
async def test_nothing_of_a_recovery_that_goes_is_begun(api: KubernetesInMemory, plan: Plan, case: str) -> None:
    name = await journal_of(api).record(plan)
    if case == "being deleted":
        await api.delete(RECOVERY)
    else:
        del api.objects[RECOVERY]
    if case == "another of that name":
        api.put_recovery(NAMESPACE, NAME, "another-uid")

    with pytest.raises(JournalUnwritable, match=rf"{NAME} is (being deleted|gone)"):
        await journal_of(api).approved(name, "ann")

    assert await journal_of(api).unfinished() == []
    if case != "gone":
        assert FINALIZER not in api.finalizers(NAMESPACE, NAME)


async def test_who_writes_the_recovery_at_the_same_moment_is_not_written_over(
    api: KubernetesInMemory, plan: Plan
) -> None:
    name = await journal_of(api).record(plan)
    api.faults = {len(api.writes) + n: (False, Conflict(409, "Conflict", "modified")) for n in range(3)}

    await journal_of(api).approved(name, "ann")
    assert api.finalizers(NAMESPACE, NAME) == [OTHERS, FINALIZER]

    api.faults = {n: (False, Conflict(409, "Conflict", "modified")) for n in range(1000)}
    with pytest.raises(JournalUnwritable, match="others write it all the time"):
        await journal_of(api).let_go()


# What goes wrong


async def test_a_process_that_dies_at_any_write_leaves_what_doing_it_again_repairs(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "LARGEST_PART", 600)
    orderly = await after_a_death(plan, None, done=False)
    deaths = 0
    for at in range(len(orderly.writes)):
        for done in (False, True):
            api = await after_a_death(plan, at, done=done)
            deaths += 1
            assert sorted(api.config_maps()) == sorted(orderly.config_maps()), (at, done)
            assert unowned(api) == [], (at, done)
            assert api.finalizers(NAMESPACE, NAME) == [], (at, done)
    assert deaths > 20


async def after_a_death(plan: Plan, at: int | None, *, done: bool) -> KubernetesInMemory:
    """The whole story, cut short at one write and begun anew; between the two it must hold together."""
    api = KubernetesInMemory()
    api.put_recovery(NAMESPACE, NAME, UID)
    if at is not None:
        api.faults = {at: (done, Crash())}
        with pytest.raises(Crash):
            await whole_story(journal_of(api), plan)
        api.faults, api.died = {}, None
    runs = await journal_of(api).unfinished()
    assert [run.plan for run in runs] == [plan] * len(runs), (at, done)
    assert not runs or FINALIZER in api.finalizers(NAMESPACE, NAME), (at, done)
    assert not runs or not set(api.config_maps()) - set(unowned(api)), (at, done)
    journal = journal_of(api)
    try:
        name = await journal.record(plan)
    except PlanFinished:
        await journal.finished(digest(plan))
        return api
    await journal.approved(name, "ann")
    if f"{NAME}-{name[:16]}-wave-0001-started" not in api.config_maps():
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


async def test_a_finalizer_put_on_for_a_run_that_never_began_is_taken_off_by_settling(
    api: KubernetesInMemory, plan: Plan
) -> None:
    name = await journal_of(api).record(plan)
    api.faults = {len(api.writes) + 1: (False, Crash())}
    with pytest.raises(Crash):
        await journal_of(api).approved(name, "ann")
    api.died = None
    assert FINALIZER in api.finalizers(NAMESPACE, NAME)

    await journal_of(api).settle()

    assert api.finalizers(NAMESPACE, NAME) == [OTHERS]
    assert f"{NAME}-{name[:16]}-plan" in unowned(api), "it may still be approved"


async def test_half_of_a_plan_is_no_plan(api: KubernetesInMemory, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "LARGEST_PART", 300)
    api.faults = {2: (True, Crash())}
    with pytest.raises(Crash):
        await journal_of(api).record(plan)
    api.died = None

    assert len(api.config_maps()) == 3
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
        (ApiError(403, "Forbidden", 'configmaps is forbidden: User "x" cannot create'), "operator's Role needs"),
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

    with pytest.raises(JournalTaken, match="begun by another process"):
        await journal_of(api).wave_started(name, 1, (ORDERS,))


async def test_who_was_taken_over_notices_at_the_end_of_its_wave(api: KubernetesInMemory, plan: Plan) -> None:
    slow, heir = journal_of(api), journal_of(api)
    name = await begin(slow, plan)
    await heir.wave_ended(name, 1, ())

    with pytest.raises(JournalTaken, match="took this run over"):
        await slow.wave_ended(name, 1, (RECOVERED,))


async def test_an_end_that_arrived_late_is_good_for_who_takes_over(api: KubernetesInMemory, plan: Plan) -> None:
    slow, heir = journal_of(api), journal_of(api)
    name = await begin(slow, plan)
    await slow.wave_ended(name, 1, (RECOVERED,))

    await heir.wave_ended(name, 1, ())

    assert list(await heir.outcomes()) == [RECOVERED]


Tamper = Callable[[KubernetesInMemory, str], None]


def put(api: KubernetesInMemory, name: str, **changes: object) -> None:
    api.objects[f"{CONFIG_MAPS}/{name}"].update(changes)


def content_of(api: KubernetesInMemory, name: str) -> bytes:
    return gzip.decompress(base64.b64decode(api.config_maps()[name]["binaryData"]["json.gz"]))


def with_content(raw: bytes) -> Object:
    """Deleted and created anew, with everything in it as it should be."""
    packed = base64.b64encode(gzip.compress(raw)).decode()
    return {"binaryData": {"json.gz": packed}, "data": {"sha256": hashlib.sha256(raw).hexdigest()}}


def other_content(api: KubernetesInMemory, name: str) -> None:
    put(api, name, **with_content(content_of(api, name).replace(b'"leader":2', b'"leader":3')))


def other_content_without_its_hash(api: KubernetesInMemory, name: str) -> None:
    put(api, name, binaryData=with_content(b"{}")["binaryData"])


def cut_off(api: KubernetesInMemory, name: str) -> None:
    packed = base64.b64decode(api.config_maps()[name]["binaryData"]["json.gz"])
    put(api, name, binaryData={"json.gz": base64.b64encode(packed[:-20]).decode()})


def not_base64(api: KubernetesInMemory, name: str) -> None:
    put(api, name, binaryData={"json.gz": "&&&"})


def emptied(api: KubernetesInMemory, name: str) -> None:
    put(api, name, binaryData=None, data=None)


def mutable(api: KubernetesInMemory, name: str) -> None:
    put(api, name, immutable=None)


def unlabelled(api: KubernetesInMemory, name: str) -> None:
    del api.objects[f"{CONFIG_MAPS}/{name}"]["metadata"]["annotations"]


def deleted(api: KubernetesInMemory, name: str) -> None:
    del api.objects[f"{CONFIG_MAPS}/{name}"]


def with_a_part_that_is_none(api: KubernetesInMemory, name: str) -> None:
    put(api, name, data={"sha256": "", "parts": "../secrets/admin"})


PLAN_TAMPERED: list[Tamper] = [
    other_content,
    other_content_without_its_hash,
    cut_off,
    not_base64,
    emptied,
    mutable,
    unlabelled,
    with_a_part_that_is_none,
]


@pytest.mark.parametrize("tamper", PLAN_TAMPERED)
async def test_a_plan_that_was_tampered_with_is_not_gone_on_with(
    api: KubernetesInMemory, world: World, plan: Plan, tamper: Tamper
) -> None:
    journal = journal_of(api)
    name = await begin(journal, plan)
    tamper(api, f"{NAME}-{name[:16]}-plan")

    reads: list[Callable[[], Awaitable[object]]] = [
        journal.unfinished,
        journal.plans,
        lambda: journal.plan(name),
        lambda: journal.kept(name),
        lambda: journal.record(plan),
        engine(world, api).resume,
        engine(world, api).undo,
    ]
    for act in reads:
        with pytest.raises(InvalidDocument, match=rf"{NAME}-{name[:16]}-plan: (?s:.*)Restore it from a backup"):
            await act()
    assert world.changed() == []


@pytest.mark.parametrize("fact", ["plan", "begun", "wave-0001-started"])
async def test_a_fact_that_was_deleted_is_missed(api: KubernetesInMemory, plan: Plan, fact: str) -> None:
    journal = journal_of(api)
    name = await begin(journal, plan)
    await journal.wave_ended(name, 1, ())
    deleted(api, f"{NAME}-{name[:16]}-{fact}")

    with pytest.raises(InvalidDocument, match=f"{NAME}-{name[:16]}-{fact}: it is missing.*Restore it from a backup"):
        await journal.unfinished()


@pytest.mark.parametrize("tamper", [deleted, not_base64, other_content_without_its_hash])
async def test_a_part_that_was_tampered_with_is_named(
    api: KubernetesInMemory, plan: Plan, tamper: Tamper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "LARGEST_PART", 300)
    name = await journal_of(api).record(plan)
    part = next(each for each in api.config_maps() if "-plan-002-" in each)
    tamper(api, part)

    with pytest.raises(InvalidDocument, match=rf"{NAME}-{name[:16]}-plan.*Restore it"):
        await journal_of(api).kept(name)


@pytest.mark.parametrize("fact", ["approval", "wave-0001-started", "wave-0001-ended"])
async def test_a_fact_that_can_not_be_read_is_named(api: KubernetesInMemory, plan: Plan, fact: str) -> None:
    journal = journal_of(api)
    name = await begin(journal, plan)
    await journal.wave_ended(name, 1, ())
    put(api, f"{NAME}-{name[:16]}-{fact}", **with_content(b'{"wave": "one"}'))

    with pytest.raises(InvalidDocument, match=f"{NAME}-{name[:16]}-{fact}: "):
        await journal.unfinished()


async def test_the_journal_of_an_earlier_recovery_of_the_same_name_is_not_taken_for_ours(
    api: KubernetesInMemory, plan: Plan
) -> None:
    await journal_of(api, uid="earlier").record(plan)

    assert await journal_of(api).unfinished() == []
    assert await journal_of(api).kept(digest(plan)) is None
    with pytest.raises(InvalidDocument, match=r"an earlier PartitionRecovery.*uid earlier"):
        await journal_of(api).record(plan)


async def test_a_run_whose_plan_was_deleted_while_somebody_read_it_does_not_begin(
    api: KubernetesInMemory, plan: Plan
) -> None:
    journal = journal_of(api)
    name = await journal.record(plan)
    await api.delete(f"{CONFIG_MAPS}/{NAME}-{name[:16]}-plan")

    with pytest.raises(InvalidDocument, match="never recorded, or deleted"):
        await journal.approved(name, "ann")

    assert await journal.unfinished() == []
    assert FINALIZER not in (await api.get(RECOVERY))["metadata"]["finalizers"]


@pytest.mark.parametrize("nonsense", ["", "abc", "../../secrets", "A" * 64])
async def test_what_is_no_digest_finds_no_plan(api: KubernetesInMemory, nonsense: str) -> None:
    with pytest.raises(InvalidDocument, match="not a plan's digest"):
        await journal_of(api).plan(nonsense)
    with pytest.raises(InvalidDocument, match="never recorded"):
        await journal_of(api).plan("0" * 64)
