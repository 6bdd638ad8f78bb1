"""Reading back what a run chose for one cluster: only whole files that the manifest tells of, only real choices."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from kafka_recovery.domain.election import Ranked as Choice
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicPartition
from kafka_recovery.fleet import choices as choices_module
from kafka_recovery.fleet.choices import choices
from kafka_recovery.fleet.storage import Storage, TooLarge
from kafka_recovery.formats.documents import InvalidDocument
from unit.fleet.rankings import SCHEMA, TOPIC_ID, Ranked, manifest, parquet

FILE = "ranking/part-0.parquet"


def chosen(folder: Path, *files: bytes, cluster_id: str = "one") -> dict[TopicPartition, Choice]:
    """What is read of a cluster from these files, all of them whole."""
    named = [(f"ranking/part-{number}.parquet", raw) for number, raw in enumerate(files)]
    (folder / "ranking").mkdir()
    for path, raw in named:
        (folder / path).write_bytes(raw)
    return dict(choices(Storage.at(str(folder)), manifest(*named)).get(cluster_id, {}))


def test_only_elections_are_read_and_each_cluster_s_apart(tmp_path: Path) -> None:
    rows = [Ranked("a", 0, [2]), Ranked("a", 1, [], verdict="Refuse"), Ranked("a", 0, [3], cluster_id="two")]

    assert chosen(tmp_path, parquet(rows), parquet([Ranked("b", 7, [1], leader_epoch=9)])) == {
        TopicPartition("a", 0): Choice(BrokerId(2), LeaderEpoch(5), TOPIC_ID),
        TopicPartition("b", 7): Choice(BrokerId(1), LeaderEpoch(9), TOPIC_ID),
    }


def test_leaders_are_spread_among_equals(tmp_path: Path) -> None:
    rows = [Ranked("a", number, [2, 1] if number % 2 else [1, 2]) for number in range(10)]

    leaders = [each.leader for each in chosen(tmp_path, parquet(rows)).values()]

    assert (leaders.count(BrokerId(1)), leaders.count(BrokerId(2))) == (5, 5)


def test_files_of_other_answers_are_not_touched(tmp_path: Path) -> None:
    told = manifest(("counts/part-0.parquet", b"whatever"))

    assert choices(Storage.at(str(tmp_path)), told) == {}


def test_a_file_that_was_changed_after_the_manifest_is_refused(tmp_path: Path) -> None:
    told = manifest((FILE, parquet([Ranked("a", 0, [2])])))
    (tmp_path / "ranking").mkdir()
    (tmp_path / FILE).write_bytes(parquet([Ranked("a", 0, [3])]))

    with pytest.raises(InvalidDocument, match=r"part-0\.parquet: is not the file that the manifest tells of"):
        choices(Storage.at(str(tmp_path)), told)


@pytest.mark.parametrize(
    "path", ["ranking/../../outside.parquet", "ranking//etc/outside.parquet", "ranking/a/b.parquet", "ranking/.parquet"]
)
def test_a_path_that_is_no_file_of_a_ranking_is_refused_and_not_read(tmp_path: Path, path: str) -> None:
    raw = parquet([Ranked("a", 0, [2])])
    for folder in ("run/ranking/a", "run/ranking/etc"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "run" / path).write_bytes(raw)

    with pytest.raises(InvalidDocument, match=r"run/manifest\.json: outputs: 'ranking/.* is no file of a ranking"):
        choices(Storage.at(str(tmp_path / "run")), manifest((path, raw)))


def test_of_a_file_that_is_too_large_no_more_is_read_than_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices_module, "LARGEST_FILE", 10)

    with pytest.raises(TooLarge, match=r"ranking/part-0\.parquet: .* 10 bytes"):
        chosen(tmp_path, parquet([Ranked("a", 0, [2])]))


def test_a_partition_that_is_ranked_twice_is_refused(tmp_path: Path) -> None:
    one = parquet([Ranked("a", 0, [2])])

    with pytest.raises(InvalidDocument, match=r"part-1\.parquet: a-0 is ranked twice"):
        chosen(tmp_path, one, one)


@pytest.mark.parametrize("equals", [[], [None]])
def test_an_election_of_nobody_is_refused(tmp_path: Path, equals: list[int | None]) -> None:
    with pytest.raises(InvalidDocument, match="a-0 is elected, and nobody leads"):
        chosen(tmp_path, parquet([Ranked("a", 0, equals)]))


@pytest.mark.parametrize("raw", [b"", b"PAR1", parquet([Ranked("a", 0, [2])])[:-20]], ids=["empty", "start", "cut"])
def test_a_damaged_file_is_refused(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(InvalidDocument, match="is no Parquet file, or a damaged one"):
        chosen(tmp_path, raw)


def test_a_column_of_another_type_is_named(tmp_path: Path) -> None:
    place = SCHEMA.get_field_index("leader_epoch")
    other = SCHEMA.set(place, pa.field("leader_epoch", pa.int64()))

    with pytest.raises(InvalidDocument, match="must have a column leader_epoch of type int32"):
        chosen(tmp_path, parquet([Ranked("a", 0, [2])], other))
