"""The journal in RecoveryRecords: what somebody changed in it is named, and nothing is gone on with."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Awaitable, Callable

import pytest

from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, digest
from kafka_recovery.kube.journal import packed
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.resources.kinds import FINALIZER
from unit.kube.journal.forging import BEGUN, forge
from unit.kube.journal.journals import (
    NAME,
    PLACE,
    RECOVERY,
    begin,
    engine,
    journal_of,
)
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.recovery.world import World

Tamper = Callable[[KubernetesInMemory, str], None]


def put(api: KubernetesInMemory, name: str, **changes: object) -> None:
    api.objects[f"{PLACE}/{name}"]["spec"].update(changes)


def content_of(api: KubernetesInMemory, name: str) -> bytes:
    return gzip.decompress(base64.b64decode(api.records()[name]["spec"]["content"]))


def with_content(raw: bytes) -> Object:
    """Deleted and created anew, with everything in it as it should be."""
    packed = base64.b64encode(gzip.compress(raw)).decode()
    return {"content": packed, "sha256": hashlib.sha256(raw).hexdigest()}


def other_content(api: KubernetesInMemory, name: str) -> None:
    put(api, name, **with_content(content_of(api, name).replace(b'"leader":2', b'"leader":3')))


def other_content_without_its_hash(api: KubernetesInMemory, name: str) -> None:
    put(api, name, content=with_content(b"{}")["content"])


def cut_off(api: KubernetesInMemory, name: str) -> None:
    packed = base64.b64decode(api.records()[name]["spec"]["content"])
    put(api, name, content=base64.b64encode(packed[:-20]).decode())


def not_base64(api: KubernetesInMemory, name: str) -> None:
    put(api, name, content="&&&")


def emptied(api: KubernetesInMemory, name: str) -> None:
    put(api, name, content=None, sha256=None)


def of_nobody(api: KubernetesInMemory, name: str) -> None:
    del api.objects[f"{PLACE}/{name}"]["spec"]["recovery"]


def deleted(api: KubernetesInMemory, name: str) -> None:
    del api.objects[f"{PLACE}/{name}"]


def with_a_part_that_is_none(api: KubernetesInMemory, name: str) -> None:
    put(api, name, sha256="", parts=["../secrets/admin"])


PLAN_TAMPERED: list[Tamper] = [
    other_content,
    other_content_without_its_hash,
    cut_off,
    not_base64,
    emptied,
    of_nobody,
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
    monkeypatch.setattr(packed, "LARGEST_PIECE", 300)
    name = await journal_of(api).record(plan)
    part = next(each for each in api.records() if "-plan-002-" in each)
    tamper(api, part)

    with pytest.raises(InvalidDocument, match=rf"{NAME}-{name[:16]}-plan.*Restore it"):
        await journal_of(api).kept(name)


@pytest.mark.parametrize("fact", ["wave-0001-started", "wave-0001-ended"])
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
    await api.delete(f"{PLACE}/{NAME}-{name[:16]}-plan")

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


async def test_a_wave_that_names_other_partitions_by_now_is_not_believed(api: KubernetesInMemory, plan: Plan) -> None:
    journal = journal_of(api)
    name = await begin(journal, plan)
    wave = f"{NAME}-{name[:16]}-wave-0001-started"
    others = content_of(api, wave).replace(b"orders-0", b"orders-1")
    put(api, wave, content=with_content(others)["content"])

    with pytest.raises(InvalidDocument, match=f"{wave}: its content has another SHA-256 than it says"):
        await journal.unfinished()


async def test_a_part_that_somebody_else_made_is_not_taken_for_the_one_to_be_written(
    api: KubernetesInMemory, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "LARGEST_PIECE", 300)
    name = await journal_of(api).record(plan)
    part = next(each for each in api.records() if "-plan-002-" in each)
    deleted(api, f"{NAME}-{name[:16]}-plan")
    other_content_without_its_hash(api, part)

    with pytest.raises(InvalidDocument, match=f"{part}: its content is not the one in its name"):
        await journal_of(api).record(plan)


async def test_a_run_that_this_process_began_is_its_own_though_its_recovery_is_gone_and_others_write_beside_it(
    api: KubernetesInMemory, plan: Plan
) -> None:
    """Its orders are restored by the process that altered them, whoever removed the recovery by force."""
    journal = journal_of(api)
    name = await begin(journal, plan)
    await forge(api, "ab" * 32, begun=BEGUN)
    del api.objects[RECOVERY]

    assert [run.digest for run in await journal.unfinished()] == [name]
    assert journal.never_shown
    assert journal.never_shown.code == "PlanNotShown"
