"""The job: what it leaves behind when it ends well, and when it fails half-way."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from kafka_recovery.domain.evidence import ReplicaLog
from kafka_recovery.fleet.export import Archive
from kafka_recovery.fleet.manifest import NAME, Expected, Loss, Manifest, Summary, foreign, read_manifest
from kafka_recovery.formats.documents import canonical, digest_of_canonical
from kafka_recovery_spark.job import Task, answer, claimed, worked
from kafka_recovery_spark.session import JAVA_OPTIONS
from spark.fleets import INTERPRETED, JAVA_OF_A_TEST, UNVERIFIED
from spark.villages import led
from unit.decision.incident import broker, evidence, log
from unit.spark.questions import POLICY, asked, words, written_down

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The evidence, as `written_down` has it; nobody changes it, and every run has a name of its own."""
    return written_down(tmp_path_factory.mktemp("job"))


@dataclass(frozen=True)
class Ranked:
    """A ranking that has ended well: what it said, and where its results lie."""

    said: str
    folder: Path


@pytest.fixture(scope="module")
def ranked(place: Path) -> Ranked:
    """By `spark-submit`, in a Java of its own, by the file that the image names. Half a minute on a busy machine: that
    Java and all of Spark are started for it.
    """
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    quick = ["--driver-java-options", f"{JAVA_OPTIONS} {JAVA_OF_A_TEST} {UNVERIFIED}"]
    for key, value in {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1", **INTERPRETED}.items():
        quick += ["--conf", f"{key}={value}"]
    surroundings = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": os.pathsep.join(sys.path)}
    program = str(ROOT / "spark" / "fleet_job.py")
    ended = subprocess.run(
        [str(submit), "--master", "local[1]", *quick, program, *words(place)],
        env={**surroundings, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ended.returncode == 0, ended.stderr
    return Ranked(ended.stdout, place / "results" / "nightly")


def manifest_in(folder: Path) -> Manifest:
    return read_manifest((folder / NAME).read_bytes(), str(folder))


def test_a_ranking_is_told_by_a_manifest_that_answers_what_was_asked(ranked: Ranked) -> None:
    told = manifest_in(ranked.folder)

    digest = digest_of_canonical(canonical(POLICY))
    assert foreign(told, Expected("rank", "nightly", digest, ("up", "down"))) is None
    assert told.summary == Summary(clusters=2, partitions=8, lossless=2, bounded=0, unknown=3, none=1)
    assert {output.path.partition("/")[0] for output in told.outputs} == {"ranking", "counts", "leaders"}
    assert sum(output.rows for output in told.outputs if output.path.startswith("ranking/")) == 8
    for output in told.outputs:
        assert hashlib.sha256((ranked.folder / output.path).read_bytes()).hexdigest() == output.sha256


def test_counts_say_of_each_topic_what_is_to_be_done_and_by_which_rule(ranked: Ranked) -> None:
    counts = pq.read_table(ranked.folder / "counts").to_pylist()

    assert [tuple(row.values()) for row in counts] == [
        ("down", "orders", "shop", "Elect", "Unknown", 3),
        ("down", "orders", "shop", "Wait", None, 2),
        ("down", "scratch", "", "Refuse", None, 1),
        ("up", "orders", "shop", "Nothing", None, 2),
    ]


def test_success_is_one_line(ranked: Ranked) -> None:
    says = "nightly: 8 partitions of 2 clusters: 2 lossless, 0 bounded, 3 unknown, 1 none"
    assert ranked.said.splitlines()[-1] == says


HURTS: dict[int, tuple[int, dict[int, ReplicaLog | None]]] = {
    1: (1, {}),
    2: (2, {9: None}),
    3: (3, {9: log(6)}),
    4: (4, {9: log(9)}),
    5: (3, {9: log(9)}),
}
"""How many partitions each broker leads, alone in their ISR, and who else holds a copy."""


@pytest.fixture(scope="module")
def readied(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """Of two clusters among others: in one brokers hurt as in HURTS, in the other one broker, alone in its rack."""
    alone = [
        led(f"only-{leader}-{n}", {leader: log(9)} | copies, (leader,))
        for leader, (partitions, copies) in HURTS.items()
        for n in range(partitions)
    ]
    both = led("both", {4: log(9), 5: log(9), 9: log(9)}, (4, 5))
    place = written_down(tmp_path_factory.mktemp("readied"))
    archive = Archive.at(str(place / "evidence"))
    archive.write(evidence(*alone, both, brokers=map(broker, (*HURTS, 9)), cluster_id="east"))
    archive.write(evidence(alone[0], brokers=[broker(1, rack="a"), broker(9)], cluster_id="west"))
    return answer(asked(place, Task.READINESS, ("west", "east"))).summary


def test_readiness_counts_each_partition_once(readied: Summary) -> None:
    told = (readied.partitions, readied.lossless, readied.bounded, readied.unknown, readied.none)

    assert (readied.clusters, *told) == (2, 15, 8, 3, 2, 2)


def test_the_ten_worst_losses_stand_by_what_can_not_be_had_back(readied: Summary) -> None:
    """One partition gone for good is worse than two that nobody measured, those are worse than three that lack records,
    and these than any number that lacks none. A pair is told only for what is worse than the losses of its two brokers.
    """
    assert readied.worst == (
        Loss("east", "brokers 4 and 9", offline=4, lossless=0, bounded=0, unknown=0, none=4),
        Loss("east", "brokers 3 and 9", offline=3, lossless=0, bounded=0, unknown=0, none=3),
        Loss("east", "brokers 5 and 9", offline=3, lossless=0, bounded=0, unknown=0, none=3),
        Loss("east", "brokers 2 and 9", offline=2, lossless=0, bounded=0, unknown=0, none=2),
        Loss("east", "broker 1", offline=1, lossless=0, bounded=0, unknown=0, none=1),
        Loss("west", "broker 1", offline=1, lossless=0, bounded=0, unknown=0, none=1),
        Loss("west", "rack a", offline=1, lossless=0, bounded=0, unknown=0, none=1),
        Loss("east", "broker 2", offline=2, lossless=0, bounded=0, unknown=2, none=0),
        Loss("east", "broker 3", offline=3, lossless=0, bounded=3, unknown=0, none=0),
        Loss("east", "brokers 4 and 5", offline=8, lossless=8, bounded=0, unknown=0, none=0),
    )


def test_a_job_that_fails_half_way_leaves_no_manifest(spark: SparkSession, place: Path) -> None:
    work = claimed(asked(place, Task.RANK, run="broken"))
    folder = place / "results" / "broken"
    (folder / "counts").mkdir()

    with pytest.raises(AnalysisException, match="PATH_ALREADY_EXISTS"):
        worked(work, spark)

    assert list((folder / "ranking").glob("*.parquet"))
    assert not (folder / NAME).exists()
