"""Evidence files that the operator keeps: of every cluster, in time, and nothing that can't be trusted."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafka_recovery.cluster.snapshot import SLICE, snapshot
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import EvidenceRules, Policy
from kafka_recovery.domain.reason import ClusterFault
from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.storage import StorageUnavailable
from kafka_recovery.kube.clusters.snapshots import Export, Snapshots
from kafka_recovery.kube.machinery.metrics import Metrics, labelled
from kafka_recovery.kube.watching.last_seen import LastSeen
from kafka_recovery_spark.evidence import sources
from unit.decision.incident import NOON, evidence, log, partition
from unit.fleet.looks import newest
from unit.virtual import in_no_time, taking_no_time

SEEN = evidence(partition({1: None, 2: log(27), 3: log(15)}))
ID = SEEN.cluster.cluster_id


class Site:
    """One watched cluster and an archive."""

    def __init__(
        self, place: Path, keep: timedelta | None = None, *, label: str = "kafka/prod", seen: Evidence = SEEN
    ) -> None:
        self.label = label
        self.seen = seen
        self.scopes: list[Scope] = []
        self.trouble: Exception | None = None
        self.trusted = True
        self.metrics = Metrics()
        self.last_seen = LastSeen()
        cluster = SimpleNamespace(
            label=label,
            policy=Policy(),
            spec=SimpleNamespace(cluster_id=seen.cluster.cluster_id),
            kafka=self,
            reachable=lambda: self.trusted,
            last_seen=self.last_seen,
        )
        self.watched = [cluster]
        clusters = cast(Any, SimpleNamespace(open=lambda: self.watched))
        self.archive = Archive.at(str(place))
        self.snapshots = Snapshots(clusters, self.metrics, Export(self.archive, timedelta(hours=1), keep))

    async def every_partition(self, deadline: timedelta) -> tuple[TopicPartition, ...]:
        return tuple(each.id for each in self.seen.partitions)

    async def gather(self, scope: Scope, rules: EvidenceRules) -> Evidence:
        if self.trouble:
            raise self.trouble
        self.scopes.append(scope)
        return self.seen

    async def for_a_while(self, duration: timedelta) -> None:
        task = asyncio.get_running_loop().create_task(self.snapshots.run())
        await asyncio.wait([task], timeout=duration.total_seconds())
        assert not task.done(), "nothing ends it"
        task.cancel()

    def shown(self, metric: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"kafka_recovery_{metric}", labelled(self.label))


def test_a_snapshot_is_kept_and_told_and_can_be_read_back(tmp_path: Path) -> None:
    site = Site(tmp_path)

    in_no_time(site.for_a_while(timedelta(minutes=5)))

    assert newest(site.archive, ID) == SEEN
    assert site.scopes == [Scope((SEEN.partitions[0].id,), with_led=True)], "once an hour"
    assert site.shown("last_snapshot_timestamp_seconds") == SEEN.cluster.observed_at.timestamp()


def test_clusters_of_one_name_in_two_namespaces_are_kept_apart_and_both_are_ranked(tmp_path: Path) -> None:
    theirs_seen = replace(SEEN, cluster=replace(SEEN.cluster, cluster_id="another"))
    ours, theirs = Site(tmp_path, label="a/prod"), Site(tmp_path, label="b/prod", seen=theirs_seen)
    ours.watched += theirs.watched

    in_no_time(ours.for_a_while(timedelta(minutes=5)))

    assert (newest(ours.archive, ID), newest(ours.archive, "another")) == (SEEN, theirs_seen)
    assert [source.cluster_id for source in sources(str(tmp_path))] == ["another", ID]


def test_nothing_is_kept_while_our_own_look_cannot_be_trusted(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.trusted = False

    in_no_time(site.for_a_while(timedelta(minutes=5)))

    assert site.archive.snapshots(ID) == ()


@pytest.mark.parametrize("trouble", [ClusterFault("nobody answers"), StorageUnavailable("full"), ZeroDivisionError()])
def test_no_trouble_ends_it_and_each_is_counted(tmp_path: Path, trouble: Exception) -> None:
    site = Site(tmp_path)
    site.trouble = trouble

    in_no_time(site.for_a_while(timedelta(minutes=5)))

    assert site.shown("snapshot_failures_total") == 1


@taking_no_time
async def test_what_failed_is_tried_again_before_its_next_turn_and_stays_due(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.trouble = StorageUnavailable("full")
    due: list[float] = []

    asyncio.get_running_loop().call_later(25 * 60, setattr, site, "trouble", None)
    for _ in range(2):
        await site.for_a_while(timedelta(minutes=24))
        due.append(site.shown("snapshot_due_timestamp_seconds") or 0)

    assert site.shown("snapshot_failures_total") == 3
    assert len(site.scopes) == 1
    assert due[1] - due[0] == pytest.approx(3600, abs=30)


async def test_a_storage_that_hangs_fails_the_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_recovery.kube.clusters.snapshots.ANSWER", timedelta(milliseconds=50))
    answers = threading.Event()
    monkeypatch.setattr(Archive, "write", lambda *_: answers.wait())
    site = Site(tmp_path)

    await site.for_a_while(timedelta(seconds=1))
    answers.set()

    assert site.shown("snapshot_failures_total") == 1


async def test_a_large_cluster_is_looked_at_in_slices() -> None:
    ids = [TopicPartition("orders", number) for number in range(2 * SLICE + 1)]
    slices: list[int] = []

    async def gather(scope: Scope, rules: EvidenceRules) -> Evidence:
        assert scope.with_led
        slices.append(len(scope.partitions or ()))
        return seen_at(NOON + len(slices) * timedelta(minutes=5))

    seen = await snapshot(gather, ids, EvidenceRules())

    assert slices == [SLICE, SLICE, 1]
    assert len(seen.partitions) == 3
    assert seen.cluster.took == 3 * SEEN.cluster.took
    verdicts = [decision.verdict for decision in decide(seen, Policy()).decisions]
    assert verdicts == [decision.verdict for decision in decide(SEEN, Policy()).decisions] * 3
    assert Verdict.ELECT in verdicts, "no slice is too old because the look went on"


def seen_at(at: datetime) -> Evidence:
    """A slice whose every log was measured then."""
    logs = {1: None, 2: log(27, observed_at=at), 3: log(15, observed_at=at)}
    return evidence(partition(logs), observed_at=at)


async def test_a_cluster_without_partitions_is_looked_at_once() -> None:
    async def gather(scope: Scope, rules: EvidenceRules) -> Evidence:
        assert scope == Scope((), with_led=True)
        return SEEN

    assert await snapshot(gather, [], EvidenceRules()) == SEEN
