"""What snapshots of this process and of earlier ones tell a plan: as far as they can be read, and in time."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest

from kafka_recovery.decision.witnesses import Memory
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, Offset
from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.kept_ends import kept_ends
from kafka_recovery.fleet.storage import StorageUnavailable
from kafka_recovery.kube import last_seen
from kafka_recovery.kube.last_seen import LastSeen
from unit.decision.incident import broker, evidence, log, partition

BEFORE = evidence(
    partition({1: log(42, high_watermark=Offset(40)), 2: log(27)}, leader=BrokerId(1)), brokers=(broker(1), broker(2))
)
NOW = evidence(partition({1: None, 2: log(27)}))


async def ends(seen: LastSeen) -> list[int]:
    """What a plan is told of the partition."""
    found: Evidence = await seen.add_to(NOW)
    return [witness.end for witness in found.partitions[0].witnessed_ends]


async def test_a_snapshot_of_this_process_is_remembered() -> None:
    seen = LastSeen()
    assert await ends(seen) == []

    seen.learn(BEFORE)
    seen.learn(NOW)

    assert await ends(seen) == [40]


async def test_the_last_snapshot_of_an_earlier_process_is_read(tmp_path: Path) -> None:
    archive = Archive.at(str(tmp_path))
    archive.write(BEFORE)

    seen = LastSeen(lambda: kept_ends(archive, "prod"))

    assert await ends(seen) == [40]


async def test_an_empty_archive_tells_nothing(tmp_path: Path) -> None:
    archive = Archive.at(str(tmp_path))

    assert await ends(LastSeen(lambda: kept_ends(archive, "prod"))) == []


async def test_an_archive_that_cannot_be_read_holds_up_nothing_and_is_told(caplog: pytest.LogCaptureFixture) -> None:
    def closed() -> Memory:
        raise StorageUnavailable("s3://fleet: can't be listed: ACCESS_DENIED")

    assert await ends(LastSeen(closed)) == []
    assert "ACCESS_DENIED" in caplog.text


async def test_an_archive_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_seen, "PATIENCE", timedelta(0))

    def slow() -> Memory:
        time.sleep(0.3)
        return {}

    assert await ends(LastSeen(slow)) == []
