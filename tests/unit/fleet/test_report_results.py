"""What a report is made of: only what a run wrote, and only if it ended well."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from kafka_recovery.fleet.manifest import NAME, Manifest, Output, read_manifest, written
from kafka_recovery.fleet.report_results import LEADERS, LOSSES, OFFLINE, Result
from kafka_recovery.formats.documents import InvalidDocument
from unit.fleet.runs import counts, evidence, leader, losses, parquet, write_run

Change = Callable[[Manifest], Manifest]

LOOSE = LEADERS.columns.set(3, LEADERS.columns.field("leads").with_nullable(True))


def changed(folder: Path, change: Change) -> None:
    file = folder / NAME
    file.write_bytes(written(change(read_manifest(file.read_bytes(), NAME))))


def test_the_rows_of_an_answer_are_read_back(tmp_path: Path) -> None:
    rows = losses("prod", {1: counts(lossless=2), 2: counts()})
    write_run(tmp_path / "monday", "readiness", {"losses": rows})

    result = Result.at(str(tmp_path / "monday"))

    assert [row for batch in result.batches(LOSSES) for row in batch.to_pylist()] == rows
    assert list(result.batches(OFFLINE)) == []
    assert (result.manifest.task, len(result.checksum)) == ("readiness", 64)


def test_rows_of_several_files_follow_each_other(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "monday", "rank", {"leaders": [leader(1, 5)]})
    more = parquet([leader(2, 7)], LEADERS.columns)
    (folder / "leaders" / "part-00001.parquet").write_bytes(more)
    digest = sha256(more).hexdigest()
    changed(folder, lambda m: replace(m, outputs=(*m.outputs, Output("leaders/part-00001.parquet", 1, digest))))

    batches = Result.at(str(folder)).batches(LEADERS)

    assert [row["broker"] for batch in batches for row in batch.to_pylist()] == [1, 2]


def test_a_folder_without_manifest_is_no_result(tmp_path: Path) -> None:
    (write_run(tmp_path / "monday", "rank") / NAME).unlink()

    with pytest.raises(InvalidDocument, match=r"monday/manifest\.json: is not there: name the folder of one run"):
        Result.at(str(tmp_path / "monday"))


def test_a_manifest_that_was_changed_by_hand_is_refused(tmp_path: Path) -> None:
    file = write_run(tmp_path / "monday", "rank") / NAME
    content = json.loads(file.read_bytes())
    content["summary"]["none"] = 7
    file.write_text(json.dumps(content))

    with pytest.raises(InvalidDocument, match="checksum: is not that of the content"):
        Result.at(str(tmp_path / "monday"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: replace(m, task="guess"), "task: must be one of rank, readiness"),
        (lambda m: replace(m, evidence=()), "it names no evidence"),
        (lambda m: replace(m, evidence=(evidence(), evidence())), "evidence of a cluster twice: prod"),
        (lambda m: replace(m, outputs=m.outputs[1:]), "outputs: names no file of ranking"),
        (lambda m: replace(m, outputs=(replace(m.outputs[0], path="ranking/../../secret"),)), "is no file of a rank"),
        (lambda m: replace(m, outputs=(replace(m.outputs[0], path="losses/a.parquet"),)), "is no file of a rank"),
    ],
)
def test_a_manifest_that_no_job_writes_is_refused(tmp_path: Path, change: Change, says: str) -> None:
    folder = write_run(tmp_path / "monday", "rank")
    changed(folder, change)

    with pytest.raises(InvalidDocument, match=says):
        Result.at(str(folder))


def test_a_file_that_is_not_the_one_written_is_refused(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "monday", "rank", {"leaders": [leader(1, 5)]})
    (folder / "leaders" / "part-00000.parquet").write_bytes(parquet([leader(1, 6)], LEADERS.columns))

    with pytest.raises(InvalidDocument, match=r"leaders/part-00000.parquet: its SHA-256 is not the one in manifest"):
        list(Result.at(str(folder)).batches(LEADERS))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"PAR1 and no more", "is no Parquet file, or a damaged one"),
        (parquet([], OFFLINE.columns), "broker: is a column that is missing"),
        (parquet([leader(1, 5) | {"leads": None}], LOOSE), "leads: must have a value in every row"),
    ],
)
def test_a_file_that_no_job_writes_is_refused_whatever_its_manifest_says(
    tmp_path: Path, content: bytes, says: str
) -> None:
    folder = write_run(tmp_path / "monday", "rank")
    (folder / "leaders" / "part-00000.parquet").write_bytes(content)
    digest = sha256(content).hexdigest()
    changed(folder, lambda m: replace(m, outputs=(*m.outputs[:2], replace(m.outputs[2], sha256=digest))))

    with pytest.raises(InvalidDocument, match=says):
        list(Result.at(str(folder)).batches(LEADERS))
