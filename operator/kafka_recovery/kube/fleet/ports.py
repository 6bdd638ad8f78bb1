"""What the operator wants of Spark, whoever runs it there: submit a job, look at it, cancel it, clear it away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from kafka_recovery.domain.reason import Reason
from kafka_recovery.kube.fleet.fields import Share, Volume


@dataclass(frozen=True, slots=True)
class Owner:
    """The object that a job belongs to: with it the job goes."""

    api_version: str
    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Job:
    """One Python program for Spark. `name`: at most 55 characters, or Spark's own objects get other names.

    `timeout` is how long the caller waits: whoever runs the job has no reason to end it earlier. `credentials`: a
    Secret whose keys become environment variables. `config`: a ConfigMap that the driver sees at `config_path`.
    """

    namespace: str
    name: str
    owner: Owner
    image: str
    main_file: str
    arguments: tuple[str, ...]
    service_account: str
    timeout: timedelta
    driver: Share
    executor: Share
    executors: int
    settings: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    credentials: str | None = None
    volume: Volume | None = None
    config: str | None = None
    config_path: str = "/etc/kafka-recovery"


class Phase(StrEnum):
    """How far a job is, in words that every adapter has."""

    WAITING = "Waiting"
    """No driver runs yet."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    """The driver ended with 0; that says nothing of what it wrote."""
    FAILED = "Failed"
    """Nothing of it runs any more, and it did not succeed."""
    GONE = "Gone"
    """There is no such object."""

    @property
    def ended(self) -> bool:
        """Whether nothing more comes by itself."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.GONE)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a job. `reason`: why it waits, or failed, as the nearest source said it; fit for a line of text.

    `changed`: somebody else changed what was submitted, and who. `started`, `ended`: of the driver, where known.
    `deleted`: it was, and something still holds it.
    """

    phase: Phase
    reason: Reason | None = None
    driver: str | None = None
    started: datetime | None = None
    ended: datetime | None = None
    changed: str | None = None
    deleted: bool = False


class NotOurs(Exception):
    """The name is taken by an object that belongs to somebody else."""


class PreviousObjectsTerminating(Exception):
    """The name is taken by an object that is about to go: it is being deleted, or its owner was."""
