"""snapshot: one look at a cluster becomes a file, and older files go when they are old enough."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyarrow import fs

from kafka_recovery.domain.election import Scope
from kafka_recovery.domain.policy import EvidenceRules
from kafka_recovery.fleet.export import Archive
from unit.cli.conftest import Run
from unit.cli.small_cluster import NOON, SmallCluster
from unit.documents import document
from unit.fleet.looks import newest


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "evidence"


def test_a_snapshot_holds_every_partition_that_can_be_seen(cluster: SmallCluster, recovery: Run, place: Path) -> None:
    cluster.offline("orders-17", {2: 27, 3: None})
    cluster.online("users-0", 3, 5)

    shown = recovery.says("snapshot", "--to", place, "--output", "json")

    said = document("snapshot", shown)
    assert (said["cluster"], said["partitions"], said["offline"]) == (cluster.id, 2, 1)
    assert (said["replicas"], said["measured"], said["removed"]) == (5, 2, [])
    seen = newest(Archive.at(str(place)), cluster.id)
    assert [partition.id for partition in seen.partitions] == [("orders", 17), ("users", 0)]
    assert Path(said["file"]).is_relative_to(place)
    assert cluster.changes == []


def test_the_table_names_the_file(cluster: SmallCluster, recovery: Run, place: Path) -> None:
    cluster.offline("orders-17", {2: 27})

    shown = recovery("snapshot", "--to", place)

    (file,) = place.rglob("*.parquet")
    assert str(file) in shown.stdout


def test_older_snapshots_of_this_cluster_go_once_the_new_one_is_there(
    cluster: SmallCluster, recovery: Run, place: Path
) -> None:
    archive = Archive.at(str(place))
    old = _earlier(cluster, archive, timedelta(hours=800))
    recent = _earlier(cluster, archive, timedelta(hours=700))
    other = SmallCluster("another")
    theirs = _earlier(other, archive, timedelta(hours=800))

    shown = recovery("snapshot", "--to", place, "--keep", "720h", "--output", "json")

    assert json.loads(shown.stdout)["removed"] == [old]
    assert next(archive.name(kept) for kept in archive.snapshots(cluster.id)) == recent
    assert [archive.name(kept) for kept in archive.snapshots(other.id)] == [theirs]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--to", ""], "--to: a place for evidence is a directory or a URL"),
        (["--to", "gopher://x/y"], "--to: gopher://x/y: can't be opened: fsspec does not know it"),
        (["--to", "s3://key:geheim@bucket/x"], "--to: s3://bucket/x: no credentials in a URL"),
        (["--to", "here", "--keep", "30d"], "--keep: must be a duration such as 500ms, 5s or 1m30s"),
        (["--to", "here", "--keep", "1m"], "--keep: must be at least 1h"),
        (["--to", "here", "--policy", "/nowhere.yaml"], "/nowhere.yaml: can't be read"),
    ],
)
def test_what_is_not_right_is_said_before_a_broker_is_asked(
    cluster: SmallCluster, recovery: Run, words: list[str], problem: str
) -> None:
    refused = recovery.refuses("snapshot", *words)

    assert problem in refused
    assert refused.count("\n") == 1
    assert "geheim" not in refused
    assert cluster.target is None


def test_storage_that_is_none_is_named(cluster: SmallCluster, recovery: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    refused = recovery.refuses("snapshot", "--to", tmp_path / "file", code=3)

    assert refused.splitlines()[-1].startswith(f"Error: {tmp_path}/file/cluster_id=")
    assert refused.endswith(": can't be written: Not a directory\n")


def test_a_store_that_refuses_the_credentials_is_told_by_its_exit_code(
    recovery: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: str) -> object:
        raise OSError("AWS Error ACCESS_DENIED during HeadBucket operation")

    monkeypatch.setattr(fs, "FileSystem", SimpleNamespace(from_uri=refuse))

    refused = recovery.refuses("snapshot", "--to", "s3://fleet/evidence", code=6)

    assert refused == "Error: --to: s3://fleet/evidence: can't be opened: ACCESS_DENIED in HeadBucket\n"


def test_without_pyarrow_it_says_how_to_get_it(tmp_path: Path) -> None:
    """In a process of its own: here pyarrow is loaded already."""
    program = (
        "import sys; sys.modules['pyarrow'] = None; from kafka_recovery.cli.main import main; "
        f"sys.argv = ['kafka-recovery', 'snapshot', '--bootstrap-server', 'k:1', '--to', {str(tmp_path)!r}]; main()"
    )

    refused = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert refused.returncode == 2
    assert refused.stderr == (
        "Error: --to: evidence files need pyarrow and fsspec, which are not installed: "
        "pip install '.[fleet]' in its checkout\n"
    )


def _earlier(cluster: SmallCluster, archive: Archive, ago: timedelta) -> str:
    """The name of a snapshot of so long before noon."""
    seen = asyncio.run(cluster.gather(Scope(()), EvidenceRules()))
    return archive.name(archive.write(replace(seen, cluster=replace(seen.cluster, observed_at=NOON - ago))))
