"""Records of somebody who wants to stop the operator: what they say is damage, and neither an error nor memory."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest

from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, canonical, digest, digest_of_canonical
from kafka_recovery.kube.journal import contents
from kafka_recovery.kube.journal.facts import Facts
from kafka_recovery.kube.journal.orphans import OrphanedJournal, orphaned, prune
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.resources.labels import PLAN_LABEL
from kafka_recovery.recovery.ports import JournalUnwritable
from unit.kube.journal.forging import BEGUN, bomb, forged_fact
from unit.kube.journal.journals import NAME, NAMESPACE, PLACE, begin, journal_of
from unit.kube.kubernetes_in_memory import NOON, KubernetesInMemory
from unit.recovery.brokers import CLUSTER
from unit.recovery.world import ORDERS

MIB = 1 << 20
GHOST = "ab" * 32
_PATH = re.compile(r"(/[A-Za-z0-9._:-]+)+")


class Particular(KubernetesInMemory):
    """Asks for no path that the operator's client would not ask for."""

    async def get(self, path: str) -> Object:
        if not _PATH.fullmatch(path) or ".." in path:
            raise ValueError(f"{path!r} is no path")
        return await super().get(path)


@contextmanager
def in_little_memory(at_most: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < at_most
    finally:
        tracemalloc.stop()


async def ghosts(api: KubernetesInMemory) -> list[OrphanedJournal]:
    return await orphaned(api, NAMESPACE, CLUSTER, ())


@pytest.mark.parametrize("name", ["../../../../api/v1/namespaces/x/secrets/y", "a..b", "x\ny", "x y", "UPPER", "x/y"])
async def test_a_recovery_of_which_the_name_is_none_is_damage(name: str) -> None:
    api = Particular()
    made = forged_fact(GHOST, "begun", BEGUN, "ghost", "of-nobody")
    made["spec"]["recovery"]["name"] = name
    await api.create(PLACE, made)

    (journal,) = await ghosts(api)
    with pytest.raises(InvalidDocument, match="no recovery"):
        await journal.altered()
    assert await prune(api, NAMESPACE, CLUSTER, (), NOON.replace(year=2999)) == 0


@pytest.mark.parametrize("plan", ["a..b", "ab_cd", "", "AB", "x" * 63])
async def test_a_plan_of_which_the_digest_is_none_is_damage(plan: str) -> None:
    api = Particular()
    made = forged_fact(GHOST, "begun", BEGUN, "ghost", "of-nobody")
    made["metadata"]["labels"][PLAN_LABEL] = made["spec"]["plan"] = plan
    await api.create(PLACE, made)

    (journal,) = await ghosts(api)
    with pytest.raises(InvalidDocument, match="no plan is called"):
        await journal.altered()


@pytest.mark.parametrize("partition", ["nonsense", "orders-x", "-1", "orders-" + "9" * 5000])
async def test_a_wave_of_something_that_is_no_partition_is_damage(
    api: KubernetesInMemory, plan: Plan, partition: str
) -> None:
    raw = canonical(plan)
    digest = digest_of_canonical(raw)
    wave = b'{"wave":1,"writer":"x","partitions":["%s"]}' % partition.encode()
    for fact, content in (("begun", BEGUN), ("plan", raw), ("wave-0001-started", wave)):
        await api.create(PLACE, forged_fact(digest, fact, content, "ghost", "of-nobody"))

    (journal,) = await ghosts(api)
    with pytest.raises(InvalidDocument, match="wave 1: "):
        await journal.unfinished()
    assert {str(id) for id in await journal.altered()} == {"orders-0"}, "what its plan would elect is held back"


CROWDED: Mapping[str, tuple[bytes, bytes]] = {
    "lists": (b'{"wave":1,"writer":"x","partitions":[%s]}', b"[1]"),
    "numbers": (b'{"wave":1,"writer":"x","partitions":[%s]}', b"1"),
    "nothing wanted": (b'{"x":[%s]}', b"{}"),
    "strings": (b'{"wave":1,"writer":"x","partitions":[%s]}', b'""'),
}


def crowded(how: str) -> bytes:
    """About as many values as the largest wave has room for."""
    wave, value = CROWDED[how]
    return wave % ((value + b",") * (contents.LARGEST_WAVE // (len(value) + 2)) + value)


async def with_another_wave(api: KubernetesInMemory, plan: Plan, raw: bytes) -> None:
    """A run of ours, of which somebody has put this in the place of its first wave."""
    digest = await begin(journal_of(api), plan)
    api.tear_out(f"{PLACE}/{NAME}-{digest[:16]}-wave-0001-started")
    await api.create(PLACE, forged_fact(digest, "wave-0001-started", raw, NAME, journal_of(api).recovery.uid))


@pytest.mark.parametrize("how", CROWDED)
async def test_a_wave_of_millions_of_values_is_not_read(api: KubernetesInMemory, plan: Plan, how: str) -> None:
    """Read, 2 MiB of lists took a gigabyte: as many errors were told as there are lists."""
    await with_another_wave(api, plan, crowded(how))

    with in_little_memory(3 * contents.LARGEST_WAVE + 4 * MIB), pytest.raises(InvalidDocument, match="more values"):
        await journal_of(api).unfinished()


async def test_of_many_wrong_values_one_is_told(api: KubernetesInMemory, plan: Plan) -> None:
    raw = b'{"wave":1,"writer":"x","partitions":[%s]}' % (b"1," * 999_999 + b"1")
    await with_another_wave(api, plan, raw)

    with in_little_memory(4 * len(raw)), pytest.raises(InvalidDocument) as damage:
        await journal_of(api).unfinished()
    assert len(str(damage.value)) < 1000


async def test_what_is_too_crowded_to_be_read_again_is_not_written(api: KubernetesInMemory) -> None:
    crowd = Facts(api, NAMESPACE, journal_of(api).recovery, CLUSTER)
    with pytest.raises(JournalUnwritable, match="more values than could be read again"):
        await crowd.keep(GHOST, "wave-0001-started", crowded("strings"))
    assert api.records() == {}


async def test_waves_that_name_one_partition_a_million_times_cost_little(api: KubernetesInMemory, plan: Plan) -> None:
    """Packed, each takes a few KiB."""
    raw = canonical(plan)
    digest = digest_of_canonical(raw)
    made = {"begun": BEGUN, "plan": raw}
    for number in (1, 2):
        again = b'"orders-0",' * 99_999 + b'"orders-0"'
        made[f"wave-{number:04}-started"] = b'{"wave":%d,"writer":"x","partitions":[%s]}' % (number, again)
    for fact, content in made.items():
        await api.create(PLACE, forged_fact(digest, fact, content, "ghost", "of-nobody"))
    made.clear()

    (journal,) = await ghosts(api)
    with in_little_memory(20 * MIB):
        assert {str(id) for id in await journal.altered()} == {"orders-0"}


# Larger than any fact of its kind


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
        made = bomb("ghost", fact, GHOST, "of-nobody")
        await api.create(PLACE, made if raw is None else forged_fact(GHOST, fact, raw, "ghost", "of-nobody"))

    with in_little_memory(3 * contents.LARGEST_WAVE + 4 * MIB):
        (journal,) = await ghosts(api)
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
