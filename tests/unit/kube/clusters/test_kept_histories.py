"""Histories outlive the operator's process, and nobody else can make one up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

import pytest

from kafka_recovery.cluster.metadata_log.kept import (
    FORMAT,
    KeptCaution,
    KeptHistory,
    KeptPartition,
    KeptRegistration,
    KeptTopic,
)
from kafka_recovery.domain.history import HistoryStep
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import canonical
from kafka_recovery.kube.clusters import kept_histories
from kafka_recovery.kube.clusters.history import HistoryFollower
from kafka_recovery.kube.clusters.kept_histories import KeptHistories
from kafka_recovery.kube.journal import packed
from kafka_recovery.kube.machinery.api import ApiError, NotServed, Object
from kafka_recovery.kube.resources.kinds import CLUSTERS, HISTORIES, Meta
from unit.kube.kubernetes_in_memory import NOON, KubernetesInMemory

CLUSTER = Meta("kafka", "prod", "the-uid", 1, "1", NOON)
FORBIDDEN = ApiError(403, "Forbidden", "clusterhistories is forbidden")


def kept(upto: int = 5000, partitions: int = 2) -> KeptHistory:
    chance = Random(upto)
    step = HistoryStep(
        MetadataOffset(10), BrokerId(1), LeaderEpoch(3), (BrokerId(1), BrokerId(2)), (BrokerId(1),), None, 2
    )
    return KeptHistory(
        upto,
        7,
        1_000_000,
        tuple(KeptPartition(UUID(int=chance.getrandbits(128)), n, (step,), (44,)) for n in range(partitions)),
        (KeptTopic("orders", 9, ((10, 2),)),),
        (KeptRegistration(2, 44, UUID(int=5), (UUID(int=6),)),),
        (KeptCaution(UUID(int=7), 0, (2,), (1,), forked=True),),
        (1,),
    )


@dataclass
class House:
    """A namespace, and what the admission policy is worth there."""

    api: KubernetesInMemory = field(default_factory=KubernetesInMemory)
    doubt: Reason | None = None

    def __post_init__(self) -> None:
        self.api.objects[CLUSTERS.path("kafka", "prod")] = {"metadata": {"name": "prod", "uid": "the-uid"}}

    def store(self, cluster: Meta = CLUSTER, cluster_id: str = "abc") -> KeptHistories:
        """What one process has of it."""
        return KeptHistories(self.api, cluster, cluster_id, self._trusted)

    async def _trusted(self, written: datetime) -> Reason | None:
        return self.doubt

    @property
    def objects(self) -> dict[str, Object]:
        return {each["metadata"]["name"]: each for at, each in self.api.objects.items() if HISTORIES.plural in at}


@pytest.fixture
def house() -> House:
    return House()


async def test_one_that_takes_several_objects_is_whole_or_not_there(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "LARGEST_PIECE", 300)
    await house.store().save(kept(5000))
    await house.store().save(kept(6000, partitions=60))
    assert len(house.objects) > 3
    assert await house.store().load() == kept(6000, partitions=60)

    part = next(name for name in house.objects if name.endswith("-002"))
    del house.api.objects[HISTORIES.path("kafka", part)]

    assert await house.store().load() is None


@pytest.mark.parametrize("at", range(6))
async def test_who_dies_while_writing_leaves_one_that_is_whole(
    house: House, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    await house.store().save(kept(5000))
    monkeypatch.setattr(packed, "LARGEST_PIECE", 700)
    house.api.faults[len(house.api.writes) + at] = False, asyncio.CancelledError()
    with pytest.raises(asyncio.CancelledError):
        await house.store().save(kept(6000, partitions=120))
    house.api.died = None

    left = await house.store().load()
    assert left == kept(5000) or (at == 5 and left == kept(6000, partitions=120)), "at 5 only the old one is left"
    await house.store().save(kept(6000, partitions=120))
    assert await house.store().load() == kept(6000, partitions=120)


async def test_when_all_is_in_sync_nothing_is_kept_any_more(house: House) -> None:
    await house.store().save(kept(5000))
    await house.store().save(replace(kept(6000), partitions=(), cautions=(), seen=()))
    assert house.objects == {}


@pytest.mark.parametrize(
    "only",
    [replace(kept(6000), partitions=(), cautions=()), replace(kept(6000), partitions=(), seen=())],
    ids=["moves that are known", "cautions"],
)
async def test_what_no_snapshot_tells_of_is_kept_though_all_is_in_sync(house: House, only: KeptHistory) -> None:
    await house.store().save(only)
    assert await house.store().load() == only


async def test_it_goes_with_its_watched_cluster_and_another_of_that_name_inherits_nothing(house: House) -> None:
    await house.store().save(kept())
    anew = replace(CLUSTER, uid="another-uid")
    assert await house.store(anew).load() is None
    await house.store(anew).save(replace(kept(), partitions=(), cautions=(), seen=()))
    assert len(house.objects) == 1, "what is another's is not deleted"

    house.api.tear_out(CLUSTERS.path("kafka", "prod"))

    assert house.objects == {}


async def test_one_of_another_kafka_is_not_read(house: House) -> None:
    await house.store().save(kept())
    assert await house.store(cluster_id="another").load() is None


async def test_what_may_be_anybody_s_word_is_not_used_and_the_log_says_why(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    await house.store().save(kept())
    house.doubt = Reason("AdmissionPolicyMissing", "nobody checks who writes journals")

    assert await house.store().load() is None
    assert "is not used: nobody checks who writes journals" in caplog.text


async def test_the_oldest_piece_decides_whether_it_can_be_trusted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "LARGEST_PIECE", 300)
    await house.store().save(kept(partitions=40))
    first = next(name for name in house.objects if name.endswith("-001"))
    early = NOON - timedelta(days=1)
    house.api.objects[HISTORIES.path("kafka", first)]["metadata"]["creationTimestamp"] = early.isoformat()
    asked: list[datetime] = []

    async def trusted(written: datetime) -> Reason | None:
        asked.append(written)
        return None

    await KeptHistories(house.api, CLUSTER, "abc", trusted).load()
    assert asked == [early]


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"content": "AAAA"}, "can't be decompressed"),
        ({"content": "%"}, "no base64"),
        ({"sha256": "0" * 64}, "another SHA-256"),
        ({"parts": ["elsewhere"]}, "1 of them are missing"),
    ],
)
async def test_one_that_is_not_as_it_was_written_is_not_used(
    house: House, spec: dict[str, object], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    await house.store().save(kept())
    (head,) = house.objects.values()
    house.api.objects[HISTORIES.path("kafka", head["metadata"]["name"])]["spec"] |= spec

    assert await house.store().load() is None
    assert told in caplog.text


@pytest.mark.parametrize("other", [FORMAT - 1, FORMAT + 1])
async def test_one_in_the_format_of_another_release_is_not_used(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, other: int
) -> None:
    ours, theirs = b'"format":%d' % FORMAT, b'"format":%d' % other
    monkeypatch.setattr(kept_histories, "canonical", lambda kept: canonical(kept).replace(ours, theirs))
    await house.store().save(kept())
    assert await house.store().load() is None
    assert f"this release keeps histories in format {FORMAT} (got {other})" in caplog.text


async def test_the_newest_is_used_and_if_it_is_damaged_the_older_one_that_is_whole(house: House) -> None:
    """By its place in the log: clocks may be set back."""
    await house.store().save(kept(5000))
    ((name, old),) = house.objects.items()
    await house.store().save(kept(6000))
    ((_, new),) = house.objects.items()
    old["spec"]["writtenAt"] = "2099-01-01T00:00:00+00:00"
    house.api.objects[HISTORIES.path("kafka", name)] = old
    assert await house.store().load() == kept(6000)
    new["spec"]["content"] = "AAAA"

    assert await house.store().load() == kept(5000)


async def test_more_than_may_be_kept_is_told_and_leaves_what_is_there(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.store().save(kept(5000))
    monkeypatch.setattr(kept_histories, "MOST", 1000)
    told = await house.store().save(kept(6000, partitions=50))
    assert told is not None
    assert "the histories of 50 partitions that are out of sync, and what speaks" in told
    assert [each["spec"]["offset"] for each in house.objects.values()] == [5000]


@dataclass
class Kafka:
    """Has read its log at once. `has`: what is to be kept."""

    has: KeptHistory | None = None
    recalled: list[KeptHistory] = field(default_factory=list)
    times: int = 0
    problem: Reason | None = None

    async def read_metadata_log(self, within: timedelta, deadline: timedelta) -> Reason | None:
        self.times += 1
        return self.problem

    def recall_history(self, kept: KeptHistory) -> None:
        assert not self.times, "what was kept counts before anything is read"
        self.recalled.append(kept)

    def history_to_keep(self) -> KeptHistory | None:
        return self.has


@dataclass
class Store:
    """Tells or raises one after the other, and the last one for ever."""

    loads: Sequence[KeptHistory | Exception | None] = (None,)
    saves: Sequence[str | Exception | None] = (None,)
    loaded: int = 0
    saved: list[KeptHistory] = field(default_factory=list)

    async def load(self) -> KeptHistory | None:
        told = self.loads[min(self.loaded, len(self.loads) - 1)]
        self.loaded += 1
        if isinstance(told, Exception):
            raise told
        return told

    async def save(self, kept: KeptHistory) -> str | None:
        told = self.saves[min(len(self.saved), len(self.saves) - 1)]
        self.saved.append(kept)
        if isinstance(told, Exception):
            raise told
        return told


async def followed(kafka: Kafka, store: Store, until: Callable[[], bool]) -> HistoryFollower:
    """A follower that has followed until then."""
    follower = HistoryFollower(kafka, store, lambda: None, pause=timedelta(0))
    follower.start("kafka/prod")
    async with asyncio.timeout(10):
        while not until():
            await asyncio.sleep(0)
    await follower.stop()
    return follower


async def test_what_was_kept_is_known_before_anything_is_read_and_kept_anew_once_it_is() -> None:
    kafka, store = Kafka(has=kept(6000)), Store(loads=[kept(5000)])
    follower = await followed(kafka, store, lambda: kafka.times > 3)
    assert kafka.recalled == [kept(5000)]
    assert store.saved == [kept(6000)], "once an hour"
    assert follower.unkept is None


async def test_while_the_api_server_is_away_nothing_is_read_for_it_would_replace_what_is_kept() -> None:
    away = ApiError(503, "ServiceUnavailable", "later")
    kafka, store = Kafka(has=kept(6000)), Store(loads=[away, away, kept(5000)])
    await followed(kafka, store, lambda: kafka.times > 0)
    assert kafka.recalled == [kept(5000)]
    assert store.loaded == 3


@pytest.mark.parametrize("refusal", [FORBIDDEN, NotServed(404, "NotFound", "no such kind"), RuntimeError("a defect")])
async def test_an_operator_without_the_right_or_the_definition_goes_on_without(refusal: Exception) -> None:
    kafka, store = Kafka(has=kept(6000)), Store(loads=[refusal], saves=[FORBIDDEN])
    follower = await followed(kafka, store, lambda: kafka.times > 1)
    assert kafka.recalled == []
    assert follower.problem is None
    assert follower.unkept == "ClusterHistories can't be written: clusterhistories is forbidden"


async def test_what_is_not_known_is_not_kept() -> None:
    kafka, store = Kafka(has=None), Store()
    follower = await followed(kafka, store, lambda: kafka.times > 3)
    assert store.saved == []
    assert follower.unkept == "the metadata log does not reach as far as what was kept of it"

    kafka = Kafka(has=kept(), problem=Reason("MetadataLogUnavailable", "nobody tells it"))
    await followed(kafka, store, lambda: kafka.times > 3)
    assert store.saved == []


@dataclass
class Broken(Kafka):
    """A defect of ours keeps it from telling what is to be kept."""

    def history_to_keep(self) -> KeptHistory | None:
        raise RuntimeError("a defect")


@pytest.mark.parametrize(
    ("kafka", "store"), [(Kafka(has=kept()), Store(saves=[RuntimeError("a defect")])), (Broken(), Store())]
)
async def test_a_defect_in_keeping_ends_nothing_and_is_told(kafka: Kafka, store: Store) -> None:
    follower = await followed(kafka, store, lambda: kafka.times > 3)
    assert follower.unkept == "the operator failed at keeping it; see its own log"
    assert follower.problem is None
