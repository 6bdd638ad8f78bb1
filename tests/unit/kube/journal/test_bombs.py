"""Facts that are larger than any of their kind: they are named, and cost no memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, digest
from kafka_recovery.kube.journal import contents
from kafka_recovery.kube.journal.orphans import orphaned
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.recovery.ports import JournalUnwritable
from unit.kube.journal.forging import BEGUN, bomb, forged_fact
from unit.kube.journal.journals import NAME, NAMESPACE, PLACE, begin, journal_of
from unit.kube.kubernetes_in_memory import KubernetesInMemory
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import ORDERS

MIB = 1 << 20


@contextmanager
def in_little_memory(at_most: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < at_most
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("fact", ["wave-0001-started", "wave-0001-ended", "plan"])
async def test_a_fact_of_this_recovery_is_not_unpacked_beyond_what_it_may_be(
    api: KubernetesInMemory, plan: Plan, fact: str
) -> None:
    name = await begin(journal_of(api), plan)
    api.objects.pop(f"{PLACE}/{NAME}-{name[:16]}-{fact}", None)
    await api.create(PLACE, bomb(NAME, fact, name, journal_of(api).recovery.uid))

    with (
        in_little_memory(3 * contents.largest(fact) + 4 * MIB),
        pytest.raises(InvalidDocument, match=f"{fact}: .*larger"),
    ):
        await journal_of(api).unfinished()


async def test_an_orphan_of_bombs_is_damaged_and_costs_little(api: KubernetesInMemory) -> None:
    for fact, raw in (("begun", None), ("wave-0001-started", None), ("wave-0001-ended", None), ("plan", BEGUN)):
        made = bomb("ghost", fact, "ab" * 32, "of-nobody")
        await api.create(PLACE, made if raw is None else forged_fact("ab" * 32, fact, raw, "ghost", "of-nobody"))

    with in_little_memory(3 * contents.LARGEST_WAVE + 4 * MIB):
        (journal,) = await orphaned(api, NAMESPACE, CLUSTER, ())
        with pytest.raises(InvalidDocument, match="larger than"):
            await journal.altered()


async def test_a_fact_with_more_parts_than_it_can_have_is_not_fetched(api: KubernetesInMemory, plan: Plan) -> None:
    name = await begin(journal_of(api), plan)
    head = f"{NAME}-{name[:16]}-wave-0001-started"
    parts = [f"{head}-{number:03}-00000000" for number in range(1, 1000)]
    api.objects[f"{PLACE}/{head}"]["spec"]["parts"] = parts
    asked: list[str] = []
    get = api.get

    async def counted(path: str) -> Object:
        asked.append(path)
        return await get(path)

    cast(Any, api).get = counted
    with pytest.raises(InvalidDocument, match="names 999 parts"):
        await journal_of(api).unfinished()
    assert not [path for path in asked if "-00000000" in path]


@pytest.mark.parametrize("write", ["record", "wave_started"])
async def test_what_could_not_be_read_again_is_not_written(
    api: KubernetesInMemory, plan: Plan, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    journal = journal_of(api)
    writes: dict[str, Callable[[], Awaitable[object]]] = {
        "record": lambda: journal.record(plan),
        "wave_started": lambda: journal.wave_started(digest(plan), 1, (ORDERS,)),
    }
    monkeypatch.setattr(contents, "LARGEST", {"plan": 100})
    monkeypatch.setattr(contents, "LARGEST_WAVE", 10)

    with pytest.raises(JournalUnwritable, match="recover fewer partitions at a time"):
        await writes[write]()
    assert api.records() == {}
