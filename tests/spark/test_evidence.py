"""An archive as a table: of each cluster the latest evidence, whatever the cluster is called."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from kafka_recovery.domain.policy import Policy
from kafka_recovery.fleet.export import Archive
from kafka_recovery_spark.evidence import latest
from kafka_recovery_spark.ranking import ranking
from unit.fleet.looks import NOON, look

HOUR = timedelta(hours=1)


def test_of_each_cluster_only_the_latest_snapshot_is_read(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive.at(str(tmp_path))
    archive.write(look("prod", NOON - HOUR, partitions=5))
    archive.write(look("prod", NOON, partitions=3))
    archive.write(look("0123", NOON - HOUR, partitions=2))

    seen = latest(spark, str(tmp_path)).selectExpr("cluster.id", "partition").collect()

    assert sorted(map(tuple, seen)) == [("0123", 0), ("0123", 1), ("prod", 0), ("prod", 1), ("prod", 2)]


def test_what_was_read_can_be_ranked(spark: SparkSession, tmp_path: Path) -> None:
    Archive.at(str(tmp_path)).write(look("a cluster/with % in it"))

    ranked = ranking(latest(spark, str(tmp_path)), Policy()).collect()

    assert [(row.cluster_id, row.verdict, row.chosen) for row in ranked] == [("a cluster/with % in it", "Elect", 1)] * 3
