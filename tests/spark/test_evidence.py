"""An archive as a table: of each cluster the latest evidence, whatever the cluster is called."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from kafka_recovery.fleet.export import Archive
from kafka_recovery_spark.evidence import latest
from unit.fleet.looks import NOON, look

HOUR = timedelta(hours=1)


def test_of_each_cluster_only_the_latest_snapshot_is_read(spark: SparkSession, tmp_path: Path) -> None:
    archive = Archive.at(str(tmp_path))
    archive.write(look("prod", NOON - HOUR, partitions=5))
    archive.write(look("prod", NOON, partitions=3))
    archive.write(look("0123", NOON - HOUR, partitions=2))
    archive.write(look("a cluster/with % in it", NOON, partitions=1))

    seen = latest(spark, str(tmp_path)).selectExpr("cluster.id", "partition").collect()

    prod = [("prod", 0), ("prod", 1), ("prod", 2)]
    assert sorted(map(tuple, seen)) == [("0123", 0), ("0123", 1), ("a cluster/with % in it", 0), *prod]
