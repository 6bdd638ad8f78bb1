"""An archive of snapshots on a disk: where they lie, which is the newest, what is let go, what is refused."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from kafka_recovery.fleet.export import Archive
from kafka_recovery.formats.documents import InvalidDocument
from unit.fleet.looks import NOON, look, newest

HOUR = timedelta(hours=1)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive.at(str(tmp_path))


def files(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())


def test_a_snapshot_lies_under_its_cluster_and_day(archive: Archive, tmp_path: Path) -> None:
    snapshot = archive.write(look(at=NOON + timedelta(microseconds=42)))

    name = f"cluster_id=prod/day=2026-11-21/20261121T120000.000042Z-{snapshot.digest}.parquet"
    assert files(tmp_path) == [name]
    assert archive.name(snapshot) == f"{tmp_path}/{name}"


def test_it_can_be_read_by_whoever_reads_hive_partitions(archive: Archive, tmp_path: Path) -> None:
    archive.write(look("prod", partitions=2))
    archive.write(look("test", partitions=3))

    everything = ds.dataset(tmp_path, partitioning="hive").to_table(columns=["cluster_id", "topic"])

    assert sorted(everything["cluster_id"].to_pylist()) == ["prod"] * 2 + ["test"] * 3


def test_the_newest_is_found_across_days_and_of_this_cluster_only(archive: Archive) -> None:
    for ago in (30, 0, 1):
        archive.write(look(at=NOON - ago * HOUR))
    archive.write(look("other", at=NOON + HOUR))

    assert newest(archive, "prod") == look(at=NOON)
    assert [snapshot.observed_at for snapshot in archive.snapshots("prod")] == [NOON - 30 * HOUR, NOON - HOUR, NOON]


def test_of_an_unknown_cluster_there_is_no_newest(archive: Archive) -> None:
    assert archive.latest("prod") is None


@pytest.mark.parametrize("cluster", ["a/b", "../up", ".", "a=b c", "ä%", "__HIVE_DEFAULT_PARTITION__ "])
def test_no_cluster_id_leads_out_of_its_folder(archive: Archive, tmp_path: Path, cluster: str) -> None:
    archive.write(look(cluster))

    (file,) = files(tmp_path)
    assert file.count("/") == 2
    assert newest(archive, cluster).cluster.cluster_id == cluster


def test_a_cluster_without_an_id_is_not_kept(archive: Archive) -> None:
    with pytest.raises(InvalidDocument, match="without an id"):
        archive.write(look(""))


def test_the_same_evidence_twice_is_one_file(archive: Archive, tmp_path: Path) -> None:
    assert archive.write(look()) == archive.write(look())
    assert len(files(tmp_path)) == 1


def test_two_that_differ_at_the_same_instant_leave_no_newest(archive: Archive) -> None:
    archive.write(look())
    archive.write(look(partitions=1))

    with pytest.raises(InvalidDocument, match=r"is of the same instant as .* and differs"):
        archive.latest("prod")


def test_what_is_old_goes_and_its_folders_with_it(archive: Archive, tmp_path: Path) -> None:
    for ago in (80, 60, 0):
        archive.write(look(at=NOON - ago * HOUR))
    theirs = archive.write(look("other", at=NOON - 80 * HOUR))

    gone = archive.expire("prod", NOON - 48 * HOUR)

    assert [snapshot.observed_at for snapshot in gone] == [NOON - 80 * HOUR, NOON - 60 * HOUR]
    assert [day.name for day in (tmp_path / "cluster_id=prod").iterdir()] == ["day=2026-11-21"]
    assert archive.latest("other") == theirs


def test_the_newest_is_kept_however_old(archive: Archive) -> None:
    """A cluster that fell silent a year ago: what was last seen of it bounds what it may have lost."""
    archive.write(look(at=NOON - 10 * HOUR))
    last = archive.write(look())

    archive.expire("prod", NOON + timedelta(days=365))

    assert archive.snapshots("prod") == (last,)


def test_what_a_killed_writer_left_is_no_snapshot_and_goes_with_age(archive: Archive, tmp_path: Path) -> None:
    written = archive.write(look())
    day = Path(archive.name(written)).parent
    old, young = day / ".old.parquet.1.partial", day / ".young.parquet.2.partial"
    for leftover in (old, young):
        leftover.write_bytes(b"PAR1")
    long_ago = (NOON - 80 * HOUR).timestamp()
    os.utime(old, (long_ago, long_ago))
    os.utime(young, (NOON.timestamp(), NOON.timestamp()))

    archive.expire("prod", NOON - 48 * HOUR)

    assert archive.snapshots("prod") == (written,)
    assert not old.exists()
    assert young.exists()


def test_what_others_put_there_is_left_alone(archive: Archive, tmp_path: Path) -> None:
    archive.write(look(at=NOON - 80 * HOUR))
    newest = archive.write(look())
    day = tmp_path / "cluster_id=prod" / "day=2026-11-18"
    strange = ["part-0.parquet", "_SUCCESS", "20269999T120000.000000Z-0123456789abcdef.parquet"]
    elsewhere = f"20261121T120000.000000Z-{newest.digest}.parquet"  # a name of another day
    for name in (*strange, elsewhere):
        (day / name).write_bytes(b"x")

    archive.expire("prod", NOON)

    assert archive.latest("prod") == newest
    assert {path.name for path in day.iterdir()} == {*strange, elsewhere}


def test_any_damage_is_found(archive: Archive) -> None:
    snapshot = archive.write(look())
    file = Path(archive.name(snapshot))
    whole = file.read_bytes()

    for place in range(0, len(whole), 97):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InvalidDocument, match=r"\.parquet: is damaged: its SHA-256 begins with [0-9a-f]{16}, not"):
            archive.read(snapshot)


def test_an_empty_file_is_called_empty(archive: Archive) -> None:
    snapshot = archive.write(look())
    Path(archive.name(snapshot)).write_bytes(b"")

    with pytest.raises(InvalidDocument, match=r"\.parquet: is empty$"):
        archive.read(snapshot)


def test_evidence_that_was_moved_to_another_cluster_is_refused(archive: Archive, tmp_path: Path) -> None:
    archive.write(look("prod"))
    (tmp_path / "cluster_id=prod").rename(tmp_path / "cluster_id=test")

    with pytest.raises(InvalidDocument, match=r"is evidence of 'prod' at 2026-11-21T12:00:00.* in the wrong place"):
        newest(archive, "test")
