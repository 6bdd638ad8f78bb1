"""Records of somebody who wants to stop the operator: what they say is damage, and neither an error nor memory."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument, canonical, digest_of_canonical
from kafka_recovery.kube.journal import contents
from kafka_recovery.kube.journal.facts import Facts
from kafka_recovery.kube.journal.orphans import OrphanedJournal, orphaned, prune
from kafka_recovery.kube.machinery.api import Object
from kafka_recovery.kube.resources.labels import PLAN_LABEL
from kafka_recovery.recovery.ports import JournalUnwritable
from unit.kube.journal.forging import BEGUN, forged_fact
from unit.kube.journal.journals import NAME, NAMESPACE, PLACE, begin, journal_of
from unit.kube.journal.test_bombs import MIB, in_little_memory
from unit.kube.kubernetes_in_memory import NOON, KubernetesInMemory
from unit.recovery.brokers import CLUSTER

GHOST = "ab" * 32
_PATH = re.compile(r"(/[A-Za-z0-9._:-]+)+")


class Particular(KubernetesInMemory):
    """Asks for no path that the operator's client would not ask for."""

    async def get(self, path: str) -> Object:
        if not _PATH.fullmatch(path) or ".." in path:
            raise ValueError(f"{path!r} is no path")
        return await super().get(path)


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


@pytest.mark.parametrize("how", CROWDED)
async def test_a_wave_of_millions_of_values_is_not_read(api: KubernetesInMemory, plan: Plan, how: str) -> None:
    """Read, 2 MiB of lists took a gigabyte: as many errors were told as there are lists."""
    digest = await begin(journal_of(api), plan)
    name = f"{NAME}-{digest[:16]}-wave-0001-started"
    api.tear_out(f"{PLACE}/{name}")
    raw = crowded(how)
    await api.create(PLACE, forged_fact(digest, "wave-0001-started", raw, NAME, journal_of(api).recovery.uid))

    with in_little_memory(3 * contents.LARGEST_WAVE + 4 * MIB), pytest.raises(InvalidDocument, match="more values"):
        await journal_of(api).unfinished()


async def test_of_many_wrong_values_one_is_told(api: KubernetesInMemory, plan: Plan) -> None:
    digest = await begin(journal_of(api), plan)
    name = f"{NAME}-{digest[:16]}-wave-0001-started"
    api.tear_out(f"{PLACE}/{name}")
    raw = b'{"wave":1,"writer":"x","partitions":[%s]}' % (b"1," * 999_999 + b"1")
    await api.create(PLACE, forged_fact(digest, "wave-0001-started", raw, NAME, journal_of(api).recovery.uid))

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
