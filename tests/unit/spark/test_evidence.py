"""An archive of evidence before Spark reads it: a sentence for whatever is not as it should be."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_recovery.domain.evidence import EpochEntry
from kafka_recovery.domain.ids import LeaderEpoch, Offset
from kafka_recovery.fleet.export import Archive, Snapshot
from kafka_recovery.fleet.schema import VERSION_KEY
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery_spark.evidence import sources
from unit.fleet.looks import NOON, look

HOUR = timedelta(hours=1)
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "evidence"


def kept(root: Path, cluster: str = "prod") -> Path:
    """One snapshot, and where it lies."""
    archive = Archive.at(str(root))
    return root / archive.write(look(cluster)).path


def rewritten(file: Path, change: Change) -> None:
    """The same file with other content, under the name that this content has to have."""
    content = io.BytesIO()
    pq.write_table(change(pq.read_table(file, partitioning=None)), content)
    file.unlink()
    named = Snapshot("prod", NOON, hashlib.sha256(content.getvalue()).hexdigest()[:16])
    (file.parent / Path(named.path).name).write_bytes(content.getvalue())


def refused(root: Path) -> str:
    with pytest.raises(InvalidDocument) as caught:
        sources(str(root))
    assert str(root) in str(caught.value)
    return str(caught.value)


def test_clusters_can_be_named_and_one_without_evidence_is_an_error(root: Path) -> None:
    kept(root, "prod")
    kept(root, "test")

    (found,) = sources(str(root), clusters=["test"])
    assert (found.cluster_id, found.partitions) == ("test", 3)
    with pytest.raises(InvalidDocument, match="holds no evidence of cluster 'stage'"):
        sources(str(root), clusters=["test", "stage"])


def test_no_evidence_at_all_is_an_error(root: Path) -> None:
    assert "holds no evidence of any partition" in refused(root)
    Archive.at(str(root)).write(look(partitions=0))
    assert "holds no evidence of any partition" in refused(root)


def test_evidence_older_than_allowed_is_an_error(root: Path) -> None:
    kept(root)

    (found,) = sources(str(root), not_before=NOON)
    assert found.partitions == 3
    with pytest.raises(InvalidDocument, match=r"cluster\.observed_at: is 2026-11-21T12:00:00"):
        sources(str(root), not_before=NOON + HOUR)


@pytest.mark.parametrize(("left", "says"), [(0, "is empty"), (100, "is damaged"), (-1, "is damaged")])
def test_a_truncated_file_is_named(root: Path, left: int, says: str) -> None:
    file = kept(root)
    file.write_bytes(file.read_bytes()[:left])

    assert f"{file.name}: {says}" in refused(root)


def test_a_file_in_which_a_single_bit_flipped_is_named(root: Path) -> None:
    file = kept(root)
    content = bytearray(file.read_bytes())
    content[200] ^= 1
    file.write_bytes(content)

    assert f"{file.name}: is damaged: its SHA-256 begins with" in refused(root)


def test_what_is_no_parquet_is_named(root: Path) -> None:
    folder = kept(root).parent
    next(folder.iterdir()).unlink()
    named = Snapshot("prod", NOON, hashlib.sha256(b"PAR").hexdigest()[:16])
    (folder / Path(named.path).name).write_bytes(b"PAR")

    assert "is no Parquet file, or a damaged one" in refused(root)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda t: t.replace_schema_metadata({VERSION_KEY: b"1"}), "evidence.version: this release reads version 3"),
        (lambda t: t.replace_schema_metadata({}), "evidence.version: is missing, so this is no evidence file"),
        (
            lambda t: t.drop_columns(["isr"]),
            "(got pyarrow.Field<elr: list<element: int32 not null>>)",
        ),
        (lambda t: t.append_column("more", pa.array([1, 2, 3])), "more: is an unknown column"),
        (
            lambda t: t.set_column(1, "partition", pa.array([0, 1, 2], pa.int64())),
            "must be the column pyarrow.Field<partition: int32 not null> (got pyarrow.Field<partition: int64>)",
        ),
        (lambda t: pa.concat_tables([t, t.slice(1, 1)]), "orders-1: has evidence twice"),
    ],
)
def test_the_field_that_is_wrong_is_named(root: Path, change: Change, says: str) -> None:
    rewritten(kept(root), change)

    assert says in refused(root)


@pytest.mark.parametrize(
    ("field", "change"),
    [("start", {"start": Offset(-5)}), ("epochs.start", {"epochs": (EpochEntry(LeaderEpoch(0), Offset(-5)),)})],
)
def test_offsets_that_can_not_be_are_refused(root: Path, field: str, change: Mapping[str, Any]) -> None:
    seen = look()
    first = seen.partitions[0]
    log = first.replicas[0].log
    assert log is not None
    broken = replace(first.replicas[0], log=replace(log, **change))
    changed = (replace(first, replicas=(broken, first.replicas[1])), *seen.partitions[1:])
    Archive.at(str(root)).write(replace(seen, partitions=changed))

    assert f"replicas.log.{field}: must not be negative (got -5)" in refused(root)


@pytest.mark.parametrize("url", ["file:///kept/a%20b", "file:///%6bept"])
def test_a_url_that_our_readers_and_spark_would_take_for_two_places_is_refused(url: str) -> None:
    with pytest.raises(InvalidDocument, match=f"^{url}: no % in a URL"):
        sources(url)


def test_evidence_of_another_cluster_is_not_taken_for_this_one_s(root: Path) -> None:
    file = kept(root, "test")
    (root / "cluster_id=test").rename(root / "cluster_id=prod")

    said = refused(root)
    assert file.name in said
    assert "is evidence of 'test' at 2026-11-21T12:00:00+00:00, so it lies in the wrong place" in said


def test_two_snapshots_of_one_instant_that_differ_are_refused(root: Path) -> None:
    archive = Archive.at(str(root))
    archive.write(look(partitions=2))
    archive.write(look(partitions=3))

    assert "which one holds can't be known" in refused(root)
