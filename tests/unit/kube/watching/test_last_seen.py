"""What snapshots of this process and of earlier ones tell a plan: as far as they can be read, and in time."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from kafka_recovery.decision.witnesses import Memory
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, Offset
from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.storage import StorageUnavailable
from kafka_recovery.kube.clusters.snapshots import Export
from kafka_recovery.kube.watching.last_seen import PATIENCE, LastSeen
from unit.decision.incident import broker, evidence, log, partition
from unit.virtual import taking_no_time

BEFORE = evidence(
    partition({1: log(42, high_watermark=Offset(40)), 2: log(27)}, leader=BrokerId(1)), brokers=(broker(1), broker(2))
)
NOW = evidence(partition({1: None, 2: log(27)}))


async def ends(seen: LastSeen) -> list[int]:
    """What a plan is told of the partition."""
    await seen.ready()
    found: Evidence = seen.add_to(NOW)
    return [witness.end for witness in found.partitions[0].witnessed_ends]


def export(place: Path) -> Export:
    return Export(Archive.at(str(place)), timedelta(hours=1), None)


async def test_a_snapshot_of_this_process_is_remembered() -> None:
    seen = LastSeen()
    assert await ends(seen) == []

    seen.learn(BEFORE)
    seen.learn(NOW)

    assert await ends(seen) == [40]


async def test_a_topic_that_was_deleted_is_forgotten() -> None:
    seen = LastSeen()
    seen.learn(BEFORE)
    seen.learn(evidence())

    assert await ends(seen) == []


async def test_the_last_snapshot_of_an_earlier_process_is_read(tmp_path: Path) -> None:
    kept = export(tmp_path)
    kept.archive.write(BEFORE)

    assert await ends(kept.last_seen("prod")) == [40]


async def test_an_archive_that_cannot_be_read_holds_up_nothing_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    async def closed() -> Memory:
        raise StorageUnavailable("s3://fleet: can't be listed: ACCESS_DENIED")

    seen = LastSeen(closed)
    seen.begin()

    assert await ends(seen) == []
    assert "ACCESS_DENIED" in caplog.text


@taking_no_time
async def test_an_archive_that_hangs_is_waited_for_once() -> None:
    async def hangs() -> Memory:
        await asyncio.sleep(1000)
        return {}

    seen, clock = LastSeen(hangs), asyncio.get_running_loop().time
    seen.begin()
    waited = []
    for _ in range(3):
        began = clock()
        assert await ends(seen) == []
        waited.append(clock() - began)
    await seen.stop()

    assert waited == [PATIENCE.total_seconds(), 0, 0]


async def test_stores_that_hang_take_no_threads_of_others(tmp_path: Path) -> None:
    kept, over = export(tmp_path), threading.Event()
    try:
        hanging = [asyncio.ensure_future(kept.apart(over.wait)) for _ in range(50)]
        await asyncio.sleep(0)

        assert await asyncio.to_thread(lambda: "done") == "done"
        assert not any(each.done() for each in hanging)
    finally:
        over.set()
    await asyncio.gather(*hanging)
