"""What the parts of a run are called: the same run has the same names, whoever asks and how often. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit, urlunsplit

from kafka_recovery.kube.fleet.dialect import Adapter
from kafka_recovery.kube.fleet.ports import Job, Owner
from kafka_recovery.kube.fleet.prefixes import NONE, Prefixes
from kafka_recovery.kube.fleet.resource import FleetRanking
from kafka_recovery.kube.fleet.runs import Active, State
from kafka_recovery.kube.machinery.conditions import instant
from kafka_recovery.kube.resources.kinds import API_VERSION, GROUP, RANKINGS, Meta

RANKING_LABEL = f"{GROUP}/fleet-ranking"
"""On every object of a ranking: its name."""
RUN_LABEL = f"{GROUP}/fleet-run"
"""On every object of a run: its name."""

MAIN_FILE = "local:///opt/kafka-recovery/fleet_job.py"
"""In the image: the program that runs `kafka_recovery_spark` with the arguments it is given."""

JAVA_OPTIONS = "-XX:-DontCompileHugeMethods"
"""Of the driver, which must have them before the job can ask for them: as `kafka_recovery_spark.session` has it."""

_DRIVER_OPTIONS = "spark.driver.extraJavaOptions"

CONFIG_PATH = "/etc/kafka-recovery"
POLICY_FILE = "policy.json"
"""In the ConfigMap of an attempt, which the driver sees at `CONFIG_PATH`."""


def run_name(ranking: Meta, due: datetime) -> str:
    """A run, by the minute it is due: at most 49 characters."""
    return f"{ranking.name}-{int(due.timestamp()) // 60}"


def attempt(ranking: FleetRanking, run: str, number: int, began: datetime, adapter: Adapter, digest: str) -> Active:
    """An attempt of a run, ready to be submitted."""
    application = f"{run}-{number}"
    return Active(
        name=run,
        attempt=number,
        application=application,
        adapter=adapter,
        state=State.SUBMITTING,
        started_at=began,
        attempted_at=began,
        policy_digest=digest,
        question=question(ranking),
        result=place(ranking, application),
    )


def asked_now(ranking: FleetRanking, active: Active) -> Active:
    """The same attempt with what spec asks by now: its job is made from spec when it is submitted, and not before."""
    return replace(active, question=question(ranking), result=place(ranking, active.application))


def place(ranking: FleetRanking, application: str) -> str:
    """The URL of an attempt's own folder."""
    return below(ranking.spec.storage.results, folder(ranking.meta, application))


def folder(ranking: Meta, application: str) -> str:
    """Of an attempt's result, and what its manifest calls the run.

    A part of the uid is in it: a ranking that was deleted and made again is another one, and finds no old results.
    """
    return f"{application}-{ranking.uid.replace('-', '')[:8].lower()}"


def question(ranking: FleetRanking) -> str:
    """A digest of what is asked, and where the answer is to be: who asks something else must not get this answer.

    The policy has its own.
    """
    spec = ranking.spec
    places = (spec.storage.evidence, spec.storage.results)
    asked = (spec.task, *places, str(spec.max_evidence_age), *sorted(spec.cluster_ids))
    return hashlib.sha256("\n".join(asked).encode()).hexdigest()


def below(url: str, name: str) -> str:
    """A folder in the place that a URL names, which may say behind a question mark where its store is."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{name}"))


def labels(ranking: Meta, run: str) -> Mapping[str, str]:
    """On every object of a run."""
    return {RANKING_LABEL: ranking.name, RUN_LABEL: run}


def owner(ranking: Meta) -> Owner:
    """What all of it belongs to."""
    return Owner(API_VERSION, RANKINGS.kind, ranking.name, ranking.uid)


def job(ranking: FleetRanking, active: Active, prefixes: Prefixes = NONE) -> Job:
    """What Spark is asked to run: `python -m kafka_recovery_spark` with these arguments, by `MAIN_FILE`.

    `prefixes`: how the stores of known places are reached.
    """
    spec = ranking.spec
    clusters = [f"--cluster={id}" for id in spec.cluster_ids]  # an id may begin with a dash
    return Job(
        namespace=ranking.meta.namespace,
        name=active.application,
        owner=owner(ranking.meta),
        image=spec.image,
        main_file=MAIN_FILE,
        arguments=(
            spec.task.lower(),
            *("--evidence", prefixes.known(spec.storage.evidence)),
            *("--policy", f"{CONFIG_PATH}/{POLICY_FILE}"),
            *("--to", prefixes.known(spec.storage.results)),
            *("--run", folder(ranking.meta, active.application)),
            *_no_older(ranking, active),
            *clusters,
        ),
        service_account=spec.service_account,
        timeout=spec.timeout,
        driver=spec.resources.driver,
        executor=spec.resources.executor,
        executors=spec.resources.executors,
        settings=_settings(spec.spark_conf),
        labels=labels(ranking.meta, active.name),
        credentials=spec.storage.credentials.name if spec.storage.credentials else None,
        volume=spec.storage.volume,
        config=active.application,
        config_path=CONFIG_PATH,
    )


def _no_older(ranking: FleetRanking, active: Active) -> tuple[str, ...]:
    if ranking.spec.max_evidence_age is None:
        return ()
    return ("--not-before", instant(active.started_at - ranking.spec.max_evidence_age))


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    options = f"{JAVA_OPTIONS} {given.get(_DRIVER_OPTIONS, '')}".strip()
    return {**given, _DRIVER_OPTIONS: options}
