"""The catalogue of reasons: what each code means, and what a person does about it. Read when it is asked for.

`domain/reasons.toml` declares each code once; a test holds it equal to what the code says.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

FILE = Path(__file__).parents[1] / "domain" / "reasons.toml"


class Level(StrEnum):
    """How much a reason matters."""

    INFO = "info"
    """All is as it should be, or goes on by itself."""
    WARNING = "warning"
    """Something is held up, or was refused."""
    ERROR = "error"
    """A person has to mend something."""


class Place(StrEnum):
    """Where a person meets a reason."""

    REFUSAL = "refusal"
    REPLICA = "replica"
    MEASUREMENT = "measurement"
    CHANGE = "change"
    FAILURE = "failure"
    OUTCOME = "outcome"
    CONNECTION = "connection"
    WATCHED_CLUSTER = "WatchedCluster"
    WAITING = "waiting"
    PARTITION_RECOVERY = "PartitionRecovery"
    RECOVERY_APPROVAL = "RecoveryApproval"
    RECOVERY_POLICY = "RecoveryPolicy"
    FLEET_RANKING = "FleetRanking"


@dataclass(frozen=True, slots=True)
class Entry:
    """One reason. `ends`: whether it ends by itself, or what ends it; only where nothing is wrong it may be missing.

    `runbook`: the alert that goes with it, and the name of its page.
    """

    level: Level
    seen: frozenset[Place]
    means: str
    do: str
    ends: str | None = None
    runbook: str | None = None

    def __post_init__(self) -> None:
        if not (self.seen and self.means and self.do):
            raise ValueError("a reason says where it is seen, what it means, and what to do")
        if self.ends is None and self.level is not Level.INFO:
            raise ValueError("a warning or an error says what ends it")


@cache
def catalogue() -> Mapping[str, Entry]:
    """All reasons by their code, in alphabetical order."""
    return MappingProxyType(dict(sorted(parsed(FILE.read_text()).items())))


def parsed(text: str) -> dict[str, Entry]:
    """The entries of a catalogue. Raises ValueError for one that is incomplete, and for a code declared twice."""
    return {code: _entry(code, fields) for code, fields in tomllib.loads(text).items()}


def _entry(code: str, fields: Mapping[str, Any]) -> Entry:
    try:
        places = frozenset(map(Place, fields["seen"]))
        return Entry(**{**fields, "level": Level(fields["level"]), "seen": places})
    except (KeyError, TypeError, ValueError) as wrong:
        raise ValueError(f"{FILE.name}: {code}: {wrong}") from wrong
