"""What Spark needs, and what is said where it is missing."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

import kafka_recovery_spark
from kafka_recovery_spark.session import JAVA_OPTIONS, PREFERENCES, JavaMissing, check_java, wanted
from unit.spark.questions import a_java


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    return monkeypatch


def test_java_home_s_java_will_do_if_it_is_new_enough(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(a_java(tmp_path, "21.0.2")))
    check_java()


def test_the_system_s_java_will_do(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("PATH", f"{a_java(tmp_path, '17.0.15') / 'bin'}:/bin")
    check_java()


def test_no_java_is_told_in_one_sentence(bare: pytest.MonkeyPatch) -> None:
    with pytest.raises(JavaMissing, match=r"^Spark needs Java 17 or newer, and there is none: install a JDK"):
        check_java()


def test_an_old_java_is_told_with_its_version(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(a_java(tmp_path, "11.0.22")))
    with pytest.raises(JavaMissing, match="java is version 11: install"):
        check_java()


def test_a_java_home_without_java_is_told(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="java does not run: install"):
        check_java()


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[spark\]' in its checkout"):
        importlib.reload(kafka_recovery_spark)


def test_what_the_submitter_chose_is_left_alone() -> None:
    chosen = {"spark.sql.shuffle.partitions": "400", "spark.sql.adaptive.enabled": "true"}

    assert PREFERENCES.keys() & wanted({}, chosen).keys() == PREFERENCES.keys() - chosen.keys()


def test_java_is_told_what_the_submitter_said_and_what_we_need() -> None:
    given = {"spark.executor.extraJavaOptions": "-Djavax.net.ssl.trustStore=/certificates/store"}

    told = wanted({}, given)["spark.executor.extraJavaOptions"]

    assert told == f"{JAVA_OPTIONS} -Djavax.net.ssl.trustStore=/certificates/store"


def test_no_submitter_decides_about_results() -> None:
    assert wanted({}, {"spark.sql.ansi.enabled": "false"})["spark.sql.ansi.enabled"] == "true"
