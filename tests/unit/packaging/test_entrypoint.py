"""What Spark on Kubernetes calls the job's image with, and what its entry point makes of it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ENTRYPOINT = Path(__file__).parents[3] / "spark" / "entrypoint.sh"
ECHO = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"
EXECUTOR = {
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@10.244.0.9:7078",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_ID": "7",
    "SPARK_EXECUTOR_MEMORY": "600m",
    "SPARK_EXECUTOR_POD_IP": "10.244.0.10",
    "SPARK_EXECUTOR_POD_NAME": "exec-7",
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Java and a Spark that say what they were called with."""
    for program in (tmp_path / "java" / "bin" / "java", tmp_path / "spark" / "bin" / "spark-submit"):
        program.parent.mkdir(parents=True)
        program.write_text(ECHO)
        program.chmod(0o755)
    return tmp_path


def called(home: Path, *words: str, **environment: str) -> list[str]:
    """The words that Java or Spark got."""
    places = {"PATH": os.defpath, "JAVA_HOME": str(home / "java"), "SPARK_HOME": str(home / "spark")}
    done = subprocess.run(
        ["sh", str(ENTRYPOINT), *words], env=places | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_a_driver_is_submitted_in_client_mode_at_its_own_address(home: Path) -> None:
    words = called(home, "driver", "--class", "Main", "a b", SPARK_DRIVER_BIND_ADDRESS="10.244.0.9")

    bound = ["--deploy-mode", "client", "--conf", "spark.driver.bindAddress=10.244.0.9"]
    assert words == [*bound, "--class", "Main", "a b"]


def test_an_executor_serves_its_driver_with_the_memory_it_was_given(home: Path) -> None:
    words = called(home, "executor", **EXECUTOR)

    assert words[:4] == ["-Xms600m", "-Xmx600m", "-cp", f"{home}/spark/conf:{home}/spark/jars/*"]
    assert words[4] == "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
    assert dict(zip(words[5::2], words[6::2], strict=True)) == {
        "--app-id": "spark-1",
        "--cores": "2",
        "--driver-url": "spark://CoarseGrainedScheduler@10.244.0.9:7078",
        "--executor-id": "7",
        "--hostname": "10.244.0.10",
        "--podName": "exec-7",
        "--resourceProfileId": "0",
    }


def test_java_options_come_first_in_their_order_and_whole(home: Path) -> None:
    options = {f"SPARK_JAVA_OPT_{number}": f"-Dkey{number}=$HOME 'a b' *" for number in range(12)}

    words = called(home, "executor", **EXECUTOR, **options)

    assert words[:13] == [*options.values(), "-Xms600m"]


def test_further_classes_come_after_spark_s_own(home: Path) -> None:
    words = called(home, "executor", **EXECUTOR, SPARK_CLASSPATH="/more/*", SPARK_CONF_DIR="/opt/spark/conf")

    assert words[3] == f"/opt/spark/conf:{home}/spark/jars/*:/more/*"


def test_anything_else_is_a_command(home: Path) -> None:
    assert called(home, "echo", "executor", "driver") == ["executor driver"]
