"""Names of runs: the same for who asks twice, others for another ranking, and short enough for what they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafka_recovery.kube.fleet import naming
from kafka_recovery.kube.fleet.naming import below
from kafka_recovery.kube.fleet.resource import read_ranking
from kafka_recovery.kube.resources.kinds import RANKINGS
from kafka_recovery_spark.__main__ import BAD_INPUT, main
from kafka_recovery_spark.session import JAVA_OPTIONS
from unit.kube.fleet.asked import active, after, ranking
from unit.kube.specs import RANKING, stored


def test_the_longest_name_leaves_room_for_what_spark_adds() -> None:
    asked = read_ranking(stored(RANKINGS, RANKING, name="n" * 40))

    assert len(active(asked, 11).application + "-ui-svc") <= 63


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("s3://b/r", "s3://b/r/x"),
        ("s3://b/r/", "s3://b/r/x"),
        ("s3://b", "s3://b/x"),
        ("s3://b/r?region=eu", "s3://b/r/x?region=eu"),
        ("file:///fleet/results", "file:///fleet/results/x"),
    ],
)
def test_a_folder_lies_below_the_place_wherever_that_is(url: str, folder: str) -> None:
    assert below(url, "x") == folder


def test_the_job_is_told_all_that_its_manifest_must_answer_to() -> None:
    asked = ranking(task="Readiness", clusterSelector={"clusterIds": ["one", "-two"]})
    job = naming.job(asked, active(asked))

    assert job.arguments == (
        "readiness",
        *("--evidence", "s3://fleet/evidence"),
        *("--policy", "/etc/kafka-recovery/policy.json"),
        *("--to", "s3://fleet/results"),
        *("--run", "prod-29921040-1-0f4f8e2c"),
        *("--cluster=one", "--cluster=-two"),
    )
    assert job.config == job.name == "prod-29921040-1"


def test_evidence_may_be_so_much_older_than_the_run_and_not_than_its_attempt() -> None:
    asked = ranking(maxEvidenceAge="36h")
    job = naming.job(asked, active(asked, 2, attempted_at=after(hours=5)))

    assert job.arguments[-2:] == ("--not-before", "2026-11-20T00:00:00Z")
    assert naming.question(asked) != naming.question(ranking())


def test_the_driver_s_java_options_are_those_of_the_job_and_then_those_of_the_ranking() -> None:
    for given, options in ((None, JAVA_OPTIONS), ("-Xss4m", f"{JAVA_OPTIONS} -Xss4m")):
        asked = ranking(**({"sparkConf": {"spark.driver.extraJavaOptions": given}} if given else {}))
        assert naming.job(asked, active(asked)).settings == {"spark.driver.extraJavaOptions": options}

    assert naming.JAVA_OPTIONS == JAVA_OPTIONS


@pytest.mark.spark
@pytest.mark.parametrize("task", ["Rank", "Readiness"])
def test_the_job_understands_what_it_is_told(task: str, tmp_path: Path) -> None:
    """Evidence is what it misses, and nothing else."""
    places = {"evidence": f"{tmp_path.as_uri()}/evidence", "results": f"{tmp_path.as_uri()}/results"}
    asked = ranking(task=task, storage=places, clusterSelector={"clusterIds": ["-one"]}, maxEvidenceAge="1h")
    job = naming.job(asked, active(asked))
    policy = tmp_path / naming.POLICY_FILE
    policy.write_text('{"rules": [{"name": "default"}]}')
    words = tmp_path / "termination-log"
    words.touch()
    arguments = [each.replace(f"{job.config_path}/{naming.POLICY_FILE}", str(policy)) for each in job.arguments]

    assert main(arguments, words) == BAD_INPUT
    assert "-one" in words.read_text()
