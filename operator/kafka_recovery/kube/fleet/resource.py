"""The kind FleetRanking as the operator knows it, read from an object of the API with every field checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_recovery.kube.fleet.fields import RankingSpec
from kafka_recovery.kube.resources.kinds import RANKINGS, Meta, checked_spec, unwrapped
from kafka_recovery.kube.resources.unknown import NONE, UnknownFields


@dataclass(frozen=True, slots=True)
class FleetRanking:
    """A question to a fleet, and what became of it. `status` is as it was read, unchecked."""

    meta: Meta
    spec: RankingSpec
    status: Mapping[str, Any] = field(default_factory=dict)
    unknown: UnknownFields = NONE


def read_ranking(obj: object) -> FleetRanking:
    """A FleetRanking from an object of the API. Raises InvalidDocument."""
    meta, envelope, name = unwrapped(obj, RANKINGS)
    spec, unknown = checked_spec(RankingSpec, envelope, name)
    return FleetRanking(meta, spec, envelope.status or {}, unknown)
