"""One question to a fleet, from evidence files to a manifest: check everything, claim the run, work, and say so last.

`TO/RUN/` holds a folder of Parquet files for each answer, and `manifest.json`, written when all of them are complete.
What lies there without one is what a job left that was killed: nobody reads it, and its name is not used again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import reduce
from operator import or_
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import PydanticCustomError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import Policy
from kafka_recovery.fleet.manifest import NAME, Loss, Manifest, Output, Snapshot, Summary, written
from kafka_recovery.fleet.storage import Storage, StorageUnavailable
from kafka_recovery.formats import policy_file
from kafka_recovery.formats.documents import InvalidDocument, canonical, digest_of_canonical
from kafka_recovery.formats.fields import Text
from kafka_recovery_spark.evidence import Source, for_hadoop, sources, storage_for_spark, table
from kafka_recovery_spark.ranking import ranking
from kafka_recovery_spark.readiness import COUNTS, Kind, Saved, hanging, losses, offline_now, topics
from kafka_recovery_spark.session import SOON_OVER, check_java, running
from kafka_recovery_spark.spread import leaders

CLAIM = "_claimed"
"""Of the file that is written first: so it is known beforehand that the place can be written to. Spark skips it."""

FEW_PARTITIONS = 500_000
"""Of which readiness is soon over."""

WORST = 10
"""Losses of brokers in a manifest."""

RUN_NAME = Text(r"[A-Za-z0-9][A-Za-z0-9._-]*", 128, "a name of letters, digits, dots, underscores and dashes")


class Task(StrEnum):
    """What a fleet is asked."""

    RANK = "rank"
    READINESS = "readiness"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it was given. `clusters` empty: all of them. `master` None: as `spark-submit` decides."""

    task: Task
    evidence: str
    policy: Path
    to: str
    run: str
    clusters: tuple[str, ...] = ()
    not_before: datetime | None = None
    master: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """A question that can be answered: evidence that was found whole, and a folder that is this run's alone."""

    asked: Asked
    policy: Policy
    sources: tuple[Source, ...]
    place: Storage

    def path(self, name: str) -> str:
        """Where something of this run lies below the place."""
        return f"{self.asked.run}/{name}"

    def url(self, name: str) -> str:
        """The same, as Spark's file systems want it."""
        return for_hadoop(self.place.name(self.path(name)))

    def keep(self, frame: DataFrame, name: str) -> DataFrame:
        """Write an answer; what is given back is read from its files, so that nothing is worked out twice."""
        frame.write.mode("errorifexists").parquet(self.url(name))
        return frame.sparkSession.read.parquet(self.url(name))


def answer(asked: Asked) -> Manifest:
    """All of it. Raises InvalidDocument, StorageUnavailable, JavaMissing before any work, and Spark's own errors."""
    check_java()
    work = claimed(asked)
    with running(f"kafka-recovery {asked.task} {asked.run}", asked.master, _of_java(work)) as spark:
        return worked(work, spark)


def _of_java(work: Work) -> Mapping[str, str]:
    """Ranking is not soon over, however few there are: its long method is too much for Java's quick compiler."""
    few = sum(source.partitions for source in work.sources) <= FEW_PARTITIONS
    return SOON_OVER if few and work.asked.task is Task.READINESS else {}


def claimed(asked: Asked) -> Work:
    """Whatever is wrong with the question is found here. Raises InvalidDocument, StorageUnavailable."""
    try:
        RUN_NAME.read(asked.run)
    except PydanticCustomError as error:
        raise InvalidDocument(f"--run: {error.message()} (got {asked.run!a})") from None
    policy = _read_policy(asked.policy)
    to = storage_for_spark(asked.to)
    found = sources(asked.evidence, clusters=asked.clusters or None, not_before=asked.not_before)
    if to.listed(asked.run):
        raise InvalidDocument(f"{to.name(asked.run)}: is there already; every run needs a name of its own")
    work = Work(asked, policy, found, to)
    to.write(work.path(CLAIM), f"{asked.task}\n".encode())
    return work


def worked(work: Work, spark: SparkSession) -> Manifest:
    """Do it; the manifest is written when everything else is."""
    rows = table(spark, work.sources)
    summary, names = (_rank if work.asked.task is Task.RANK else _readiness)(work, rows)
    manifest = Manifest(
        task=str(work.asked.task),
        run=work.asked.run,
        policy_digest=digest_of_canonical(canonical(work.policy)),
        evidence=tuple(Snapshot(source.cluster_id, source.path, source.digest) for source in work.sources),
        outputs=tuple(output for name in names for output in _outputs(work, name)),
        summary=summary,
    )
    work.place.write(work.path(NAME), written(manifest))
    return manifest


def instant(text: str) -> datetime:
    """A moment as people write it. Raises InvalidDocument."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidDocument(f"must be an instant with its zone, such as 2026-11-21T00:00:00Z (got {text!a})")
    return moment


def _read_policy(path: Path) -> Policy:
    try:
        with path.open("rb") as file:
            raw = file.read(policy_file.LARGEST_FILE + 1)
        return policy_file.load_policy(raw.decode("utf-8-sig"), str(path))
    except OSError as error:
        raise InvalidDocument(f"{path}: can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidDocument(f"{path}: is not UTF-8 text") from None


# Ranking.


def _rank(work: Work, rows: DataFrame) -> tuple[Summary, tuple[str, ...]]:
    ranked = work.keep(ranking(rows, work.policy), "ranking")
    by = ("cluster_id", "topic", "rule", "verdict", "loss_class")
    counts = work.keep(_one_file(ranked.groupBy(*by).agg(F.count("*").alias("partitions")), *by), "counts")
    work.keep(_one_file(leaders(rows, ranked), "cluster_id", "broker"), "leaders")
    total = counts.groupBy("verdict", "loss_class").agg(F.sum("partitions").alias("partitions"))
    by_class = {(row.verdict, row.loss_class): int(row.partitions) for row in total.collect()}
    return _ranked(work.sources, by_class), ("ranking", "counts", "leaders")


def _ranked(found: tuple[Source, ...], by_class: Mapping[tuple[str, str | None], int]) -> Summary:
    """Of what has a leader nothing is chosen, so no class counts it. Who waits is led again without loss."""

    def elected(loss_class: LossClass) -> int:
        return by_class.get((str(Verdict.ELECT), str(loss_class)), 0)

    return Summary(
        clusters=len(found),
        partitions=sum(source.partitions for source in found),
        lossless=elected(LossClass.LOSSLESS) + by_class.get((str(Verdict.WAIT), None), 0),
        bounded=elected(LossClass.BOUNDED),
        unknown=elected(LossClass.UNKNOWN),
        none=by_class.get((str(Verdict.REFUSE), None), 0),
    )


# Readiness.


def _readiness(work: Work, rows: DataFrame) -> tuple[Summary, tuple[str, ...]]:
    counts = hanging(rows, work.policy).persist()
    try:
        lost = work.keep(_one_file(losses(rows, counts), "cluster_id", "kind", "brokers", "rack"), "losses")
        work.keep(_one_file(topics(counts), "cluster_id", "topic", "kind"), "topics")
        work.keep(_one_file(offline_now(counts), "cluster_id", "topic"), "offline")
        alone = counts.where(F.col("kind").isin(str(Kind.BROKER), str(Kind.NOW)))
        total = alone.agg(*[F.coalesce(F.sum(name), F.lit(0)).cast("bigint").alias(name) for name in COUNTS[:-1]])
        (numbers,) = total.collect()
    finally:
        counts.unpersist()
    return _prepared(work.sources, numbers.asDict(), tuple(_worst(lost))), ("losses", "topics", "offline")


def _prepared(found: tuple[Source, ...], alone: Mapping[str, int], worst: tuple[Loss, ...]) -> Summary:
    """Each partition once, by what the loss of one broker could cost it at most; `alone`: those it would cost anything.

    All others have a second living member of the ISR, which Kafka elects by itself.
    """
    partitions = sum(source.partitions for source in found)
    classes = {str(saved): alone[saved] for saved in Saved}
    classes[Saved.LOSSLESS] += partitions - alone["offline"]
    return Summary(clusters=len(found), partitions=partitions, worst=worst, **classes)


def _worst(lost: DataFrame) -> Iterator[Loss]:
    """What can't be had back counts most. A pair that is no worse than its two brokers one by one is left out."""
    hurts = (Saved.NONE, Saved.UNKNOWN, Saved.BOUNDED, "offline")
    alone = lost.where(F.col("kind") == F.lit(str(Kind.BROKER)))
    told = lost.where("offline > 0")
    for place in (0, 1):
        costs = [F.col(name).alias(f"{name}_{place}") for name in hurts]
        broker = alone.select("cluster_id", F.col("brokers")[0].alias(f"broker_{place}"), *costs)
        named = told.select("*", F.get("brokers", F.lit(place)).alias(f"broker_{place}"))
        told = named.join(broker, ["cluster_id", f"broker_{place}"], "left")
    worse = [F.col(name) > F.col(f"{name}_0") + F.col(f"{name}_1") for name in hurts]
    worth_telling = told.where((F.col("kind") != F.lit(str(Kind.PAIR))) | reduce(or_, worse))
    most_first = [F.desc(name) for name in hurts]
    for row in worth_telling.orderBy(*most_first, "cluster_id", "failing").limit(WORST).collect():
        counted = {name: int(row[name]) for name in COUNTS[:-1]}
        yield Loss(cluster_id=row["cluster_id"], failing=row["failing"][:1024], **counted)


# Files.


def _one_file(small: DataFrame, *order: str) -> DataFrame:
    """Aggregates as one file, in an order, so that people and other tools read them with ease."""
    return small.repartition(1).sortWithinPartitions(*order)


def _outputs(work: Work, name: str) -> Iterator[Output]:
    """The files of an answer, as they were found in their place. Raises StorageUnavailable if there are none."""
    entries = sorted(work.place.listed(work.path(name)), key=lambda entry: entry.path)
    files = [entry for entry in entries if entry.path.endswith(".parquet") and not entry.is_folder]
    if not files:
        raise StorageUnavailable(f"{work.place.name(work.path(name))}: what Spark wrote is not there")
    for entry in files:
        file = entry.path.rpartition("/")[2]
        content = work.place.read(entry.path)
        rows = pq.ParquetFile(pa.BufferReader(content)).metadata.num_rows
        yield Output(f"{name}/{file}", int(rows), hashlib.sha256(content).hexdigest())
