"""The session that the job runs in."""

from __future__ import annotations

from pyspark.sql import SparkSession

from kafka_recovery_spark.session import JAVA_OPTIONS, SETTINGS


def test_the_session_is_set_up_in_one_place(spark: SparkSession) -> None:
    assert {key: spark.conf.get(key) for key in SETTINGS} == SETTINGS
    assert JAVA_OPTIONS in str(spark.conf.get("spark.executor.extraJavaOptions"))
