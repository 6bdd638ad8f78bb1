"""What a FleetRanking says, field by field: the mirror of crds/fleetrankings.yaml, and what holds without a word."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from kafka_recovery.formats.fields import Duration, Fields, Flag, OneOf, Text, Whole, wrong
from kafka_recovery.kube.fleet.prefixes import SCHEMES
from kafka_recovery.kube.resources.fields import CLUSTER_ID, NAME, Reference

_CRON = "[0-9A-Z*/,-]+"
SCHEDULE = Text(rf"{_CRON}( {_CRON}){{4}}", 100, "five fields of cron, such as 30 2 * * MON-FRI")
PLACE = Text(
    rf"({'|'.join(SCHEMES)})://([A-Za-z0-9._-]+@)?[A-Za-z0-9._~/=+,:-]+",
    1024,
    "a URL such as s3://bucket/folder, without credentials and options; its scheme is one of " + ", ".join(SCHEMES),
)
MOUNT_PATH = Text(r"/[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*", 253, "an absolute path such as /evidence")
IMAGE = Text(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*", 512, "an image such as registry.example/kafka-recovery-fleet-job:0.1.0")
MEMORY = Text(r"[1-9][0-9]{0,5}[mg]", 7, "an amount of memory such as 512m or 4g")
SETTING = Text(r"spark[.][A-Za-z0-9._-]+", 253, "a setting of Spark such as spark.hadoop.fs.s3a.endpoint")
SETTING_VALUE = Text(None, 1024, "text")
CORES = Whole(1, 256)

RESERVED = frozenset(
    {
        "spark.app.name",
        "spark.driver.cores",
        "spark.driver.memory",
        "spark.executor.cores",
        "spark.executor.instances",
        "spark.executor.memory",
        "spark.kubernetes.authenticate.driver.serviceAccountName",
        "spark.kubernetes.container.image",
        "spark.kubernetes.driver.container.image",
        "spark.kubernetes.driver.podTemplateFile",
        "spark.kubernetes.executor.container.image",
        "spark.kubernetes.executor.podTemplateFile",
        "spark.kubernetes.namespace",
        "spark.master",
    }
)
"""Settings of Spark that another field of ours says, or that the operator alone may choose."""

CREDENTIAL = r"(?i)(secret|access|account|private)[.]key|client[.]secret|password|token$"
"""Names of settings of Spark and Hadoop whose value is a secret; whoever may read FleetRankings would read it."""


class Task(StrEnum):
    """What is asked."""

    RANK = "Rank"
    READINESS = "Readiness"


class Choice(StrEnum):
    """Whose SparkApplication is wanted."""

    AUTO = "Auto"
    APACHE = "Apache"
    KUBEFLOW = "Kubeflow"


class ClusterSelector(Fields):
    """Which clusters."""

    cluster_ids: Annotated[list[Annotated[str, CLUSTER_ID]], Field(min_length=1, max_length=500)]

    @field_validator("cluster_ids")
    @classmethod
    def _each_once(cls, ids: list[str]) -> list[str]:
        if len(set(ids)) != len(ids):
            raise wrong("names a cluster twice")
        return ids


class Volume(Fields):
    """A PersistentVolumeClaim of the same namespace, and where driver and executors see it."""

    claim: Annotated[str, NAME] = Field(alias="name")
    mount_path: Annotated[str, MOUNT_PATH] = Field(alias="mountPath")


class Storage(Fields):
    """URLs of evidence and results. `credentials`: a Secret whose keys become variables of driver and executors."""

    evidence: Annotated[str, PLACE]
    results: Annotated[str, PLACE]
    credentials: Reference | None = Field(alias="credentialsSecretRef", default=None)
    volume: Volume | None = Field(alias="volumeClaim", default=None)

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if _folder(self.results).startswith(_folder(self.evidence)):
            raise wrong("results must not lie in the evidence, or they are read as such")
        return self


def _folder(url: str) -> str:
    """For comparing: how many slashes stand in it counts for nothing."""
    return re.sub("/+", "/", url + "/")


class Share(Fields):
    """What one driver or executor gets; `memory` in Spark's form, such as 512m, without its overhead."""

    cores: Annotated[int, CORES] = 1
    memory: Annotated[str, MEMORY] = "1g"


class ExecutorShare(Share):
    """The same of an executor."""

    memory: Annotated[str, MEMORY] = "2g"


class Resources(Fields):
    """What Spark gets: one driver, and so many executors."""

    driver: Share = Share()
    executor: ExecutorShare = ExecutorShare()
    executors: Annotated[int, Whole(1, 1000)] = 2


class Kept(Fields):
    """So many finished runs keep their SparkApplications."""

    limit: Annotated[int, Whole(1, 20)] = 5


class RankingSpec(Fields):
    """A question to the evidence of many clusters. `schedule` None: asked once.

    `max_evidence_age`: when a run begins; None: any.
    """

    task: Annotated[Task, OneOf(Task)]
    schedule: Annotated[str | None, SCHEDULE] = None
    cluster_selector: ClusterSelector | None = None
    max_evidence_age: Annotated[timedelta | None, Duration("720h", shortest="1m")] = None
    policy_ref: Reference
    storage: Storage
    image: Annotated[str, IMAGE]
    service_account: Annotated[str, NAME] = "kafka-recovery-fleet"
    resources: Resources = Resources()
    spark_conf: Annotated[dict[Annotated[str, SETTING], Annotated[str, SETTING_VALUE]], Field(max_length=64)] = Field(
        default_factory=dict
    )
    adapter: Annotated[Choice, OneOf(Choice)] = Choice.AUTO
    timeout: Annotated[timedelta, Duration("24h", shortest="1m")] = timedelta(hours=1)
    retries: Annotated[int, Whole(0, 10)] = 1
    suspend: Annotated[bool, Flag()] = False
    history: Kept = Kept()

    @property
    def cluster_ids(self) -> tuple[str, ...]:
        """Empty: all of them."""
        return tuple(self.cluster_selector.cluster_ids) if self.cluster_selector else ()

    @field_validator("spark_conf")
    @classmethod
    def _not_ours(cls, settings: dict[str, str]) -> dict[str, str]:
        taken = sorted(RESERVED & settings.keys())
        if taken:
            raise wrong(f"{taken[0]} can't be given: another field says this, or the operator does")
        secret = sorted(name for name in settings if re.search(CREDENTIAL, name))
        if secret:
            raise wrong(f"{secret[0]} is a credential, which everybody reads here: put it into credentialsSecretRef")
        return settings
