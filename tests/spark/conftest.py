"""One Spark session for all tests here: starting one takes longer than they do."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_recovery_spark.session import session
from spark.fleets import INTERPRETED, JAVA_OF_A_TEST, SEED, fleet, frame
from spark.villages import Told, ask

SMALL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    **INTERPRETED,
    "spark.driver.extraJavaOptions": JAVA_OF_A_TEST,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test waits for the session to start, and the first job for its classes to load."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.timeout(300), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Whoever reads of a failure can have the same fleet again."""
    report = yield
    if report.failed:
        report.sections.append(("Random fleets", f"SEED={SEED}"))
    return report


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    place = tmp_path_factory.mktemp("spark")
    own = {"spark.local.dir": str(place / "local"), "spark.sql.warehouse.dir": str(place / "warehouse")}
    started = session("tests", master="local[2]", settings={**SMALL, **own})
    started.sparkContext.setLogLevel("ERROR")
    yield started
    started.stop()


@pytest.fixture(scope="session")
def rows(spark: SparkSession) -> DataFrame:
    """The evidence of the random fleet."""
    return frame(spark, fleet(SEED))


@pytest.fixture(scope="session")
def villages(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What `kafka-recovery fleet` told of two clusters."""
    return ask(tmp_path_factory.mktemp("fleet"))
