"""A report in words and numbers: what it says first, what it warns of, where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from kafka_recovery.fleet import report_figures
from kafka_recovery.fleet.manifest import Loss, Snapshot
from kafka_recovery.fleet.report import LEVELS, Report, Source, age, each_once, level, levels, report
from kafka_recovery.fleet.report_results import Result
from kafka_recovery.formats.documents import InvalidDocument
from unit.fleet.runs import Row, count, counts, evidence, losses, ranked, topic, write_run

AFTERNOON = datetime(2026, 11, 21, 14, 30, tzinfo=UTC)
WORST = Loss("prod", "broker 3", offline=7, lossless=4, bounded=2, unknown=0, none=1)


def told(*folders: Path) -> Report:
    results = [Result.at(str(folder)) for folder in folders]
    sources = [Source(each.manifest, each.checksum, each.place.shown) for each in results]
    by_task = {each.manifest.task: each.batches for each in results}
    return report(
        sources,
        report_figures.readiness(by_task["readiness"]) if "readiness" in by_task else None,
        report_figures.ranking(by_task["rank"]) if "rank" in by_task else None,
        AFTERNOON,
    )


def readiness(place: Path, topics: Sequence[Row] = (), offline: Sequence[Row] = (), worst: Sequence[Loss] = ()) -> Path:
    alone = losses("prod", {1: counts(bounded=2), 2: counts()})
    tables = {"losses": alone, "topics": topics, "offline": offline}
    return write_run(place / "readiness", "readiness", tables, worst=tuple(worst))


def rank(place: Path, *rows: Row, ranking: Sequence[Row] = ()) -> Path:
    return write_run(place / "rank", "rank", {"counts": rows, "ranking": ranking})


def test_the_most_urgent_is_said_first(tmp_path: Path) -> None:
    offline = (count("orders", "Elect", 3, "Unknown"), count("orders", "Wait", 1), count("pay", "Refuse", 2))
    ranked_by_policy = rank(tmp_path, *offline, ranking=[ranked("Refuse", "LiveReplicaUnmeasured")])
    prepared = readiness(tmp_path, [topic("orders", counts(lossless=5, none=1))], worst=[WORST])

    assert told(prepared, ranked_by_policy).sentences == (
        "6 partitions are offline now: 3 can be led again at a loss nobody can bound, 1 waits for an ISR or ELR "
        "member that is back and 2 are refused, mostly LiveReplicaUnmeasured.",
        "6 of 100 partitions (6%) hang on a single broker: 5 could be saved whole and 1 not at all.",
        "The loss that would hurt most: broker 3 of prod. 7 partitions would go offline; 4 could be saved whole, "
        "2 with a bounded loss and 1 not at all.",
    )


def test_good_news_is_said_as_plainly(tmp_path: Path) -> None:
    assert told(readiness(tmp_path), rank(tmp_path)).sentences == (
        "Nothing is offline now.",
        "No partition hangs on a single broker.",
        "No loss of one broker, of two, or of a rack takes anything offline.",
    )


def test_without_a_ranking_readiness_tells_what_is_offline(tmp_path: Path) -> None:
    first, *_ = told(readiness(tmp_path, offline=[topic("down", counts(unknown=1))])).sentences

    assert first == "1 partition is offline now: 0 could be saved whole and 1 with an unknown loss."


def test_headline_numbers_tell_what_to_worry_about(tmp_path: Path) -> None:
    tiles = told(readiness(tmp_path, [topic("orders", counts(lossless=5, none=2))]), rank(tmp_path)).tiles

    numbers = {tile.label: (tile.value, tile.is_grave) for tile in tiles}
    assert numbers["partitions"] == (100, False)
    assert numbers["offline now"] == (0, False)
    assert numbers["hang on one broker"] == (7, False)
    assert numbers["of them not saved whole"] == (2, True)


def test_two_runs_of_the_same_evidence_and_policy_need_no_warning(tmp_path: Path) -> None:
    assert told(readiness(tmp_path), rank(tmp_path)).warnings == ()


def test_different_evidence_and_policies_are_said_on_the_page(tmp_path: Path) -> None:
    other = evidence("prod", digest="ef" * 32)
    late = write_run(tmp_path / "rank", "rank", seen=[other, evidence("stage")], policy_digest="00" * 32)

    found = told(readiness(tmp_path), late)

    assert found.warnings == (
        "The two runs looked at different evidence of 2 clusters (prod, stage): do not compare their numbers there.",
        "The two runs were asked under different policies.",
    )
    assert [(each.cluster, each.tasks) for each in found.evidence.rows] == [
        ("prod", ("readiness",)),
        ("prod", ("rank",)),
        ("stage", ("rank",)),
    ]


def test_evidence_has_the_age_that_its_file_s_name_tells(tmp_path: Path) -> None:
    nameless = Snapshot("elsewhere", "somewhere/else.parquet", "12" * 32)

    found = told(write_run(tmp_path / "rank", "rank", seen=[evidence(), nameless]))

    assert [(each.cluster, each.age) for each in found.evidence.rows] == [("elsewhere", "?"), ("prod", "2 h 30 min")]
    assert found.evidence_age == "2 h 30 min old"


def test_a_question_is_answered_once_on_a_page(tmp_path: Path) -> None:
    result = Result.at(str(rank(tmp_path)))
    source = Source(result.manifest, result.checksum, result.place.shown)

    with pytest.raises(InvalidDocument, match="is the second rank; a page shows one of each"):
        each_once([source, source])


@pytest.mark.parametrize(
    ("span", "says"),
    [
        (timedelta(seconds=59), "0 min"),
        (timedelta(minutes=61), "1 h 1 min"),
        (timedelta(days=3, minutes=59), "3 d"),
        (timedelta(days=3, hours=4), "3 d 4 h"),
        (-timedelta(hours=1), "0 min"),
    ],
)
def test_an_age_is_said_in_two_units(span: timedelta, says: str) -> None:
    assert age(span) == says


def test_colours_are_steps_up_to_the_largest_number() -> None:
    bounds = levels(243)

    assert bounds == (3, 9, 27, 81, 243)
    assert [level(count, bounds) for count in (0, 1, 3, 4, 81, 243)] == [0, 1, 1, 2, 4, LEVELS]


def test_the_largest_number_has_the_strongest_colour() -> None:
    for most in range(1, 40):
        colours = [level(count, levels(most)) for count in range(most + 1)]

        assert colours == sorted(colours), f"up to {most}"
        assert (colours[0], colours[-1]) == (0, LEVELS), f"up to {most}"
        assert 0 not in colours[1:], f"up to {most}"
