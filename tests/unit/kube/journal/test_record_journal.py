"""The journal in RecoveryRecords: what it keeps, and what it holds until nothing is altered any more."""

from __future__ import annotations

import base64
import gzip
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, digest, digest_of_canonical
from kafka_recovery.kube.journal import packed, record_journal
from kafka_recovery.kube.journal.finalizer import OrderFinalizer
from kafka_recovery.kube.journal.orphans import orphaned
from kafka_recovery.kube.journal.record_journal import VAIN_KEPT
from kafka_recovery.kube.machinery.api import Conflict, Object
from kafka_recovery.kube.resources.kinds import FINALIZER
from kafka_recovery.recovery.ports import JournalUnwritable, PlanFinished
from unit.kube.journal.journals import (
    NAME,
    NAMESPACE,
    OTHERS,
    PLACE,
    RECOVERED,
    RECOVERY,
    another,
    begin,
    journal_of,
    unowned,
    whole_story,
)
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.recovery.world import ORDERS, PAYMENTS, World

# What is kept


async def test_a_run_reads_back_as_it_was_written(api: KubernetesInMemory, plan: Plan) -> None:
    name = await begin(journal_of(api), plan)
    await journal_of(api).in_doubt(name, 1, BrokerId(7))
    await journal_of(api).wave_ended(name, 1, (RECOVERED,))
    await journal_of(api).wave_started(name, 2, (ORDERS, PAYMENTS))
    await journal_of(api).in_doubt(name, 2, BrokerId(3))

    (run,) = await journal_of(api).unfinished()

    assert name == digest(plan)
    assert (run.digest, run.plan) == (name, plan)
    assert (run.waves, run.in_flight, run.outcomes) == (2, (2,), (RECOVERED,))
    assert run.begun == {ORDERS, PAYMENTS}
    assert run.relays == {3}, "of the wave that has not ended"


async def test_a_plan_is_hashed_beside_the_event_loop(
    api: KubernetesInMemory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20,000 partitions it is 31 MiB, and the operator has probes to answer."""
    hashed_by: list[threading.Thread] = []

    def noted(raw: bytes) -> str:
        hashed_by.append(threading.current_thread())
        return digest_of_canonical(raw)

    monkeypatch.setattr(record_journal, "digest_of_canonical", noted)
    journal = journal_of(api)
    await journal.approved(await journal.record(plan), None)

    assert len(hashed_by) == 2, "as it is kept, and as it is read again before a run begins"
    assert threading.main_thread() not in hashed_by


async def test_a_plan_is_a_run_once_it_is_approved_and_until_it_is_finished(
    api: KubernetesInMemory, plan: Plan
) -> None:
    journal = journal_of(api)
    name = await journal.record(plan)
    assert (await journal.unfinished(), journal.begun) == ([], False)
    await journal.approved(name, None)
    assert (len(await journal.unfinished()), journal.begun) == (1, True)
    await journal.approved(name, "ann")
    await journal.approved(name, "bob")
    packed = base64.b64decode(api.records()[f"{NAME}-{name[:16]}-approval"]["spec"]["content"])
    assert b"ann" in gzip.decompress(packed), "the first approval is kept, for whoever asks later"
    await journal.finished(name)
    assert await journal.unfinished() == []


async def test_every_record_may_be_made_twice(api: KubernetesInMemory, plan: Plan) -> None:
    journal, name = journal_of(api), digest(plan)
    for _ in range(2):
        assert await begin(journal, plan) == name
        await journal.wave_ended(name, 1, (RECOVERED,))
    kept = sorted(api.records())
    await journal.finished(name)
    await journal.finished(name)

    assert sorted(api.records()) == sorted([*kept, f"{NAME}-{name[:16]}-finished"])


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
    lost, found = (PartitionOutcome(ORDERS, outcome) for outcome in (Outcome.IN_DOUBT, Outcome.RECOVERED))
    for one, outcome in ((plan, lost), (later, found)):
        await journal.wave_ended(await begin(journal, one), 1, (outcome,))

    assert [run.plan for run in await journal.unfinished()] == [plan, later]
    assert await journal.plans() == [plan, later]
    await journal.finished(digest(plan))
    assert list(await journal.outcomes()) == [lost, found], "those of plans that ended are known as well"


async def test_of_runs_in_vain_the_newest_are_kept_and_one_that_left_an_order_is_none(
    api: KubernetesInMemory, world: World
) -> None:
    journal = journal_of(api)
    refused = PartitionOutcome(ORDERS, Outcome.REFUSED)
    named = []
    for number in range(2 + VAIN_KEPT):
        name = await begin(journal, await another(world))
        await journal.wave_ended(name, 1, (replace(refused, order_restored=number > 0),))
        await journal.finished(name)
        named.append(name)

    await journal.forget_vain()

    kept = [name for name in named if f"{NAME}-{name[:16]}-plan" in api.records()]
    assert kept == [named[0], *named[2:]], "the first tells the order that is still to be put back"


async def test_thousands_of_waves_keep_their_numbers(api: KubernetesInMemory, plan: Plan) -> None:
    journal = journal_of(api)
    name = await begin(journal, plan)
    for number in (9_999, 12_345):
        await journal.wave_started(name, number, ())
        await journal.wave_ended(name, number, (RECOVERED,) if number > 9_999 else ())

    (run,) = await journal.unfinished()
    assert (run.waves, run.in_flight, run.outcomes) == (12_345, (1,), (RECOVERED,))


async def test_what_is_too_large_for_one_record_lies_in_several(
    api: KubernetesInMemory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "LARGEST_PIECE", 300)
    journal = journal_of(api)
    many = tuple(RECOVERED for _ in range(2000))

    name = await begin(journal, plan)
    await journal.wave_ended(name, 1, many)

    sizes = [len(base64.b64decode(each["spec"]["content"])) for each in api.records().values()]
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
        both.append({name: each["spec"]["content"] for name, each in api.records().items()})

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
    assert len(unowned(api)) == len(api.records()) == 4

    await journal.finished(name)

    assert unowned(api) == []
    api.objects[RECOVERY]["metadata"]["finalizers"] = []
    await api.delete(RECOVERY)
    assert api.objects == {}, "all goes with the recovery"


async def test_what_is_unfinished_is_nobody_s_however_often_it_is_settled(api: KubernetesInMemory, plan: Plan) -> None:
    journal = journal_of(api)
    await begin(journal, plan)

    await journal.settle()

    assert len(unowned(api)) == len(api.records()) == 4
    assert api.finalizers(NAMESPACE, NAME) == [OTHERS, FINALIZER]


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


async def test_a_plan_that_was_replaced_is_forgotten_and_one_that_has_begun_is_not(
    api: KubernetesInMemory, world: World, plan: Plan
) -> None:
    journal = journal_of(api)
    name, replaced = await begin(journal, plan), await journal.record(await another(world))

    await journal.forget(replaced)
    with pytest.raises(ValueError, match="has begun"):
        await journal.forget(name)

    assert not [each for each in api.records() if replaced[:16] in each]
    assert f"{NAME}-{name[:16]}-plan" in unowned(api)


async def test_a_plan_that_was_let_go_of_can_be_read_and_is_never_carried_out(
    api: KubernetesInMemory, plan: Plan
) -> None:
    """It goes with its recovery, so that no assignment order may hang on it."""
    journal = journal_of(api)
    digest = await journal.record(plan)

    await journal.discard(digest)

    assert (await journal.plan(digest), await journal.kept(digest)) == (plan, None)


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


async def test_a_finalizer_that_somebody_adds_at_the_same_moment_stays(
    api: KubernetesInMemory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await journal_of(api).record(plan)
    patch = api.patch

    async def after_somebody(path: str, change: Mapping[str, Any]) -> Object:
        monkeypatch.setattr(api, "patch", patch)
        await patch(path, {"metadata": {"finalizers": [OTHERS, "example.com/theirs"]}})
        return await patch(path, change)

    monkeypatch.setattr(api, "patch", after_somebody)
    await journal_of(api).approved(name, "ann")

    assert api.finalizers(NAMESPACE, NAME) == [OTHERS, "example.com/theirs", FINALIZER]


async def test_a_plan_that_is_gone_when_it_is_to_be_held_is_not_begun(
    api: KubernetesInMemory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = journal_of(api)
    digest = await journal.record(plan)
    head = f"{PLACE}/{NAME}-{digest[:16]}-plan"
    put_on = OrderFinalizer.put_on

    async def meanwhile(finalizer: OrderFinalizer) -> None:
        await put_on(finalizer)
        api.tear_out(head)

    monkeypatch.setattr(OrderFinalizer, "put_on", meanwhile)

    with pytest.raises(InvalidDocument, match="-plan: it is missing"):
        await journal.approved(digest, "ann")
    assert await journal_of(api).unfinished() == []
