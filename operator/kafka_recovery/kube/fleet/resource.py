"""The kind FleetRanking as the operator knows it, read from an object of the API with every field checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from kafka_recovery.kube.fleet.fields import Choice, DriverFields, RankingSpec, ResourceFields, StorageFields, Task
from kafka_recovery.kube.resources.kinds import RANKINGS, Meta, checked_spec, unwrapped
from kafka_recovery.kube.resources.unknown import NONE, UnknownFields


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolumeClaim of the same namespace, and where driver and executors see it."""

    claim: str
    mount_path: str


@dataclass(frozen=True, slots=True)
class Storage:
    """URLs of evidence and results. `credentials`: a Secret whose keys become variables of driver and executors."""

    evidence: str
    results: str
    credentials: str | None = None
    volume: Volume | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """What one driver or executor gets; `memory` in Spark's form, such as 512m, without its overhead."""

    cores: int = 1
    memory: str = "1g"


DRIVER = Share()
EXECUTOR = Share(memory="2g")


@dataclass(frozen=True, slots=True)
class Resources:
    """What Spark gets: one driver, and so many executors."""

    driver: Share = DRIVER
    executor: Share = EXECUTOR
    executors: int = 2


@dataclass(frozen=True, slots=True)
class FleetRanking:
    """A question to the evidence of many clusters. `cluster_ids` empty: all of them; `schedule` None: asked once.

    `max_evidence_age`: when a run begins; None: any. `keep`: so many finished runs keep their SparkApplications.
    `status` is as it was read, unchecked.
    """

    meta: Meta
    task: Task
    policy_name: str
    storage: Storage
    image: str
    schedule: str | None = None
    cluster_ids: tuple[str, ...] = ()
    max_evidence_age: timedelta | None = None
    service_account: str = "kafka-recovery-fleet"
    resources: Resources = field(default_factory=Resources)
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    adapter: Choice = Choice.AUTO
    timeout: timedelta = timedelta(hours=1)
    retries: int = 1
    suspend: bool = False
    keep: int = 5
    status: Mapping[str, Any] = field(default_factory=dict)
    unknown: UnknownFields = NONE


def read_ranking(obj: object) -> FleetRanking:
    """A FleetRanking from an object of the API. Raises InvalidDocument."""
    meta, envelope, name = unwrapped(obj, RANKINGS)
    spec, unknown = checked_spec(RankingSpec, envelope, name)
    plain = ("schedule", "max_evidence_age", "service_account", "adapter", "timeout", "retries", "suspend")
    given = {name: value for name, value in spec.given().items() if name in plain}
    if spec.history and spec.history.limit:
        given["keep"] = spec.history.limit
    return FleetRanking(
        meta,
        task=spec.task,
        policy_name=spec.policy_ref.name,
        storage=_storage(spec.storage),
        image=spec.image,
        cluster_ids=tuple(spec.cluster_selector.cluster_ids) if spec.cluster_selector else (),
        resources=_resources(spec.resources) if spec.resources else Resources(),
        spark_conf=dict(spec.spark_conf or {}),
        status=envelope.status or {},
        unknown=unknown,
        **given,
    )


def _storage(fields: StorageFields) -> Storage:
    secret, claim = fields.credentials_secret_ref, fields.volume_claim
    return Storage(
        fields.evidence,
        fields.results,
        credentials=secret.name if secret else None,
        volume=Volume(claim.name, claim.mount_path) if claim else None,
    )


def _resources(fields: ResourceFields) -> Resources:
    return Resources(
        driver=_share(fields.driver, DRIVER),
        executor=_share(fields.executor, EXECUTOR),
        executors=fields.executors or Resources().executors,
    )


def _share(fields: DriverFields | None, otherwise: Share) -> Share:
    return Share(
        cores=(fields and fields.cores) or otherwise.cores, memory=(fields and fields.memory) or otherwise.memory
    )
