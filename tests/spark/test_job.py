"""The job: what it leaves behind when it ends well, when it is killed, and when it can't begin."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from kafka_recovery.domain.evidence import ReplicaLog
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Policy, Rule, TopicSelector
from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.manifest import NAME, Expected, Loss, Manifest, Summary, foreign, read_manifest
from kafka_recovery.formats.documents import InvalidDocument, canonical, digest_of_canonical
from kafka_recovery.spark import __main__ as program
from kafka_recovery.spark.__main__ import main
from kafka_recovery.spark.job import Asked, Task, answer, claimed, instant, worked
from spark.test_readiness import led
from unit.decision.incident import broker, evidence, log
from unit.fleet.looks import look

Ask = Callable[..., Asked]
POLICY = Policy((Rule("shop", TopicSelector(("orders",))),))
WRITTEN = {"rules": [{"name": "shop", "topics": {"names": ["orders"]}}]}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two clusters: one without leaders, and one where broker 1 alone is in the ISR.

    Of the leaderless three can be elected, broker 1 will lead two again by itself, and no rule is about the last one.
    """
    archive = Archive.at(str(tmp_path / "evidence"))
    down = look("down", partitions=6)
    returning = [replace(each, isr=(BrokerId(1),)) for each in down.partitions[3:5]]
    nobodys = replace(down.partitions[5], id=TopicPartition("scratch", 0))
    archive.write(replace(down, partitions=(*down.partitions[:3], *returning, nobodys)))
    up = look("up", partitions=2)
    alone = [replace(each, leader=BrokerId(1), isr=(BrokerId(1),)) for each in up.partitions]
    archive.write(replace(up, partitions=tuple(alone)))
    (tmp_path / "policy.json").write_text(json.dumps(WRITTEN))
    return tmp_path


@pytest.fixture
def ask(place: Path) -> Ask:
    def asked(task: Task, clusters: tuple[str, ...] = ()) -> Asked:
        return Asked(task, str(place / "evidence"), place / "policy.json", str(place / "results"), "nightly", clusters)

    return asked


@pytest.fixture
def words(place: Path) -> list[str]:
    where = {"--evidence": "evidence", "--policy": "policy.json", "--to": "results"}
    return ["rank", *(word for name, path in where.items() for word in (name, str(place / path))), "--run=nightly"]


def manifest_in(place: Path) -> Manifest:
    file = place / "results" / "nightly" / NAME
    return read_manifest(file.read_bytes(), str(file))


def no_manifest_in(place: Path) -> bool:
    return not (place / "results" / "nightly" / NAME).exists()


def test_a_ranking_is_told_by_a_manifest_that_answers_what_was_asked(
    spark: SparkSession, ask: Ask, place: Path
) -> None:
    answer(ask(Task.RANK))

    told = manifest_in(place)
    digest = digest_of_canonical(canonical(POLICY))
    assert foreign(told, Expected("rank", "nightly", digest, ("up", "down"))) is None
    assert told.summary == Summary(clusters=2, partitions=8, lossless=2, bounded=0, unknown=3, none=1)
    assert {output.path.partition("/")[0] for output in told.outputs} == {"ranking", "counts", "leaders"}
    assert sum(output.rows for output in told.outputs if output.path.startswith("ranking/")) == 8
    for output in told.outputs:
        content = (place / "results" / "nightly" / output.path).read_bytes()
        assert hashlib.sha256(content).hexdigest() == output.sha256


def test_counts_say_of_each_topic_what_is_to_be_done_and_by_which_rule(
    spark: SparkSession, ask: Ask, place: Path
) -> None:
    answer(ask(Task.RANK))

    counts = pq.read_table(place / "results" / "nightly" / "counts").to_pylist()
    assert [tuple(row.values()) for row in counts] == [
        ("down", "orders", "shop", "Elect", "Unknown", 3),
        ("down", "orders", "shop", "Wait", None, 2),
        ("down", "scratch", "", "Refuse", None, 1),
        ("up", "orders", "shop", "Nothing", None, 2),
    ]


def test_readiness_counts_each_partition_once_and_names_the_worst_losses(
    spark: SparkSession, ask: Ask, place: Path
) -> None:
    answer(ask(Task.READINESS))

    told = manifest_in(place).summary
    assert (told.partitions, told.lossless, told.bounded, told.unknown, told.none) == (8, 0, 0, 6, 2)
    assert told.worst == (
        Loss("up", "broker 1", offline=2, lossless=0, bounded=0, unknown=0, none=2),
        Loss("up", "rack rack-1", offline=2, lossless=0, bounded=0, unknown=0, none=2),
    )


HURTS: dict[int, tuple[int, dict[int, ReplicaLog | None]]] = {
    1: (1, {}),
    2: (2, {9: None}),
    3: (3, {9: log(6)}),
    4: (4, {9: log(9)}),
    5: (3, {9: log(9)}),
}
"""How many partitions each broker leads, alone in their ISR, and who else holds a copy."""


def test_the_ten_worst_losses_stand_by_what_can_not_be_had_back(spark: SparkSession, ask: Ask, place: Path) -> None:
    """One partition gone for good is worse than two that nobody measured, those are worse than three that lack records,
    and these than any number that lacks none. A pair is told only for what is worse than the losses of its two brokers.
    """
    alone = [
        led(f"only-{leader}-{n}", {leader: log(9)} | copies, (leader,))
        for leader, (partitions, copies) in HURTS.items()
        for n in range(partitions)
    ]
    both = led("both", {4: log(9), 5: log(9), 9: log(9)}, (4, 5))
    archive = Archive.at(str(place / "evidence"))
    archive.write(evidence(*alone, both, brokers=map(broker, (*HURTS, 9)), cluster_id="east"))
    archive.write(evidence(alone[0], brokers=[broker(1), broker(9)], cluster_id="west"))

    worst = answer(ask(Task.READINESS, ("west", "east"))).summary.worst

    assert worst == (
        Loss("east", "brokers 4 and 9", offline=4, lossless=0, bounded=0, unknown=0, none=4),
        Loss("east", "brokers 3 and 9", offline=3, lossless=0, bounded=0, unknown=0, none=3),
        Loss("east", "brokers 5 and 9", offline=3, lossless=0, bounded=0, unknown=0, none=3),
        Loss("east", "brokers 2 and 9", offline=2, lossless=0, bounded=0, unknown=0, none=2),
        Loss("east", "broker 1", offline=1, lossless=0, bounded=0, unknown=0, none=1),
        Loss("west", "broker 1", offline=1, lossless=0, bounded=0, unknown=0, none=1),
        Loss("east", "broker 2", offline=2, lossless=0, bounded=0, unknown=2, none=0),
        Loss("east", "broker 3", offline=3, lossless=0, bounded=3, unknown=0, none=0),
        Loss("east", "brokers 4 and 5", offline=8, lossless=8, bounded=0, unknown=0, none=0),
        Loss("east", "broker 4", offline=4, lossless=4, bounded=0, unknown=0, none=0),
    )


def test_only_the_clusters_that_are_named_are_read(spark: SparkSession, ask: Ask) -> None:
    told = answer(ask(Task.RANK, clusters=("up", "up")))

    assert [each.cluster_id for each in told.evidence] == ["up"]
    assert told.summary.partitions == 2


def test_a_job_that_fails_half_way_leaves_no_manifest(spark: SparkSession, ask: Ask, place: Path) -> None:
    work = claimed(ask(Task.RANK))
    (place / "results" / "nightly" / "counts").mkdir()

    with pytest.raises(AnalysisException, match="PATH_ALREADY_EXISTS"):
        worked(work, spark)

    assert list((place / "results" / "nightly" / "ranking").glob("*.parquet"))
    assert no_manifest_in(place)


def test_the_name_of_a_run_that_was_killed_is_not_used_again(ask: Ask, place: Path) -> None:
    claimed(ask(Task.RANK))

    with pytest.raises(InvalidDocument, match="results/nightly: is there already; every run needs a name of its own"):
        claimed(ask(Task.RANK))
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
    spark: SparkSession, words: list[str], place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the disk\nis on fire")

    monkeypatch.setattr("kafka_recovery.spark.job.worked", broken)
    (place / "termination-log").touch()

    assert main(words, place / "termination-log") == 70

    assert "Traceback" in capsys.readouterr().err
    assert (place / "termination-log").read_text() == "Error: RuntimeError: the disk is on fire"


def test_success_is_one_line(spark: SparkSession, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0

    assert "nightly: 8 partitions of 2 clusters: 2 lossless, 0 bounded, 3 unknown, 1 none" in capsys.readouterr().err


@pytest.mark.spark
def test_spark_submit_runs_it(words: list[str], place: Path) -> None:
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    quick = ["--driver-java-options", "-XX:-DontCompileHugeMethods -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    surroundings = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [str(submit), "--master", "local[1]", *quick, str(program.__file__), *words]
    ended = subprocess.run(
        command, env={**surroundings, "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True, timeout=280
    )

    assert ended.returncode == 0, ended.stderr
    assert manifest_in(place).summary.unknown == 3


def test_an_instant_is_read_with_its_zone() -> None:
    assert instant("2026-11-21T13:00:00+01:00") == instant("2026-11-21T12:00:00Z")
