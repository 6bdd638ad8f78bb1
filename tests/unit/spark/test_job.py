"""The job before Spark is started: whatever is wrong with a question is one sentence, and a run's name is its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_recovery.fleet.manifest import NAME
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery_spark.__main__ import main
from kafka_recovery_spark.job import Task, claimed, instant
from unit.spark import questions
from unit.spark.questions import asked, written_down


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return written_down(tmp_path)


@pytest.fixture
def words(place: Path) -> list[str]:
    return questions.words(place)


def no_manifest_in(place: Path) -> bool:
    return not (place / "results" / "nightly" / NAME).exists()


def test_only_the_clusters_that_are_named_are_read(place: Path) -> None:
    (source,) = claimed(asked(place, Task.RANK, clusters=("up", "up"))).sources

    assert (source.cluster_id, source.partitions) == ("up", 2)


def test_the_name_of_a_run_that_was_killed_is_not_used_again(place: Path) -> None:
    claimed(asked(place, Task.RANK))

    with pytest.raises(InvalidDocument, match="results/nightly: is there already; every run needs a name of its own"):
        claimed(asked(place, Task.RANK))
    assert no_manifest_in(place)


@pytest.mark.parametrize(
    ("words_more", "code", "says"),
    [
        (["--cluster=stage"], 2, "holds no evidence of cluster 'stage'"),
        (["--run", "../elsewhere"], 2, "--run: must be a name of letters, digits"),
        (["--policy", "/nowhere.yaml"], 2, "/nowhere.yaml: can't be read: No such file"),
        (["--not-before", "2026-11-21"], 2, "--not-before: must be an instant with its zone"),
        (["--not-before", "2027-01-01T00:00:00Z"], 2, "evidence must not be from before"),
        (["--evidence", "s3://key:geheim@bucket/x"], 2, "no credentials in a URL"),
        (["--to", "/proc/results"], 3, "/proc/results/nightly/_claimed: can't be written"),
    ],
)
def test_what_is_not_right_is_one_sentence_before_spark_is_started(
    words: list[str],
    words_more: list[str],
    code: int,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    last_words = tmp_path / "termination-log"
    last_words.write_text("an earlier one, which was much longer" * 9)

    assert main([*words, *words_more], last_words) == code

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: ")
    assert says in line
    assert last_words.read_text() == line
    assert no_manifest_in(tmp_path)


@pytest.mark.parametrize(
    ("written", "says"),
    [
        (b"rules: [", "policy.json:1: column 9: not YAML that can be read: "),
        (b"rules:\n- name: caf\xe9\n", "policy.json: is not UTF-8 text"),
        (b"rules:\n- name: all\n  patiense: 5m\n", "policy.json:3: rules[0].patiense: "),
        (b"rules:\n- name: all\n  tier: 12\nlimit: {}\n", "policy.json:3: rules[0].tier: "),
        (b"rules:\n- name: all\n  tier: 12\nlimit: {}\n", "policy.json:4: limit: "),
    ],
)
def test_a_policy_that_is_not_right_is_told_by_its_file_and_field(
    words: list[str], written: bytes, says: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "policy.json").write_bytes(written)

    assert main(words) == 2

    (line,) = capsys.readouterr().err.splitlines()
    assert f"{place}/{says}" in line
    assert not (place / "results").exists()


def test_outside_of_a_pod_there_are_no_last_words(words: list[str], tmp_path: Path) -> None:
    main([*words, "--cluster=stage"], tmp_path / "termination-log")

    assert not (tmp_path / "termination-log").exists()


def test_an_error_nobody_expected_is_told_whole_and_by_one_line(
    words: list[str], place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the disk\nis on fire")

    monkeypatch.setattr("kafka_recovery_spark.job.running", broken)
    (place / "termination-log").touch()

    assert main(words, place / "termination-log") == 70

    assert "Traceback" in capsys.readouterr().err
    assert (place / "termination-log").read_text() == "Error: RuntimeError: the disk is on fire"


def test_an_instant_is_read_with_its_zone() -> None:
    assert instant("2026-11-21T13:00:00+01:00") == instant("2026-11-21T12:00:00Z")
