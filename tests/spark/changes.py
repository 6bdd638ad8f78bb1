"""Changes of what Spark reads, each made in clusters of its own alone: one plan then shows what many of them do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F

from kafka_recovery.decision.chains import Guard, Link
from kafka_recovery.decision.conditions import All, Condition, Either, Not, Same, Value
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery_spark.columns import Seen

ID = "cluster.cluster_id"
AFTER = "|"
"""A cluster in which something is changed is called like the change, then this, then like itself."""


def changed_in(seen: Evidence, change: str) -> Evidence:
    """The same cluster under the name that has this change made in it."""
    return replace(seen, cluster=replace(seen.cluster, cluster_id=f"{change}{AFTER}{seen.cluster.cluster_id}"))


def readable(patch: pytest.MonkeyPatch) -> None:
    """Have Spark's conditions see by which change a cluster is called; no guard of ours asks for a cluster's id."""
    as_it_is = Seen.at
    patch.setattr(Seen, "at", lambda seen, path: _change() if path == ID else as_it_is(seen, path))


def _change() -> Column:
    return F.substring_index(F.col("cluster_id"), AFTER, 1)


def left_out(guard: Guard[...], change: str) -> Guard[...]:
    """The guard, which objects to nothing in the clusters of this change."""
    return replace(guard, when=All(Not(Same(ID, Value(change))), guard.when))


def each_left_out(chain: Sequence[Link[...]], change: Callable[[Guard[...]], str]) -> tuple[Link[...], ...]:
    """The chain, each guard of which is left out in clusters of their own."""
    return tuple(
        left_out(link, change(link))
        if isinstance(link, Guard)
        else replace(link, guards=tuple(left_out(guard, change(guard)) for guard in link.guards))
        for link in chain
    )


def asked_instead(change: str, otherwise: Condition, honest: Condition) -> Condition:
    """The honest condition, and another one in the clusters of this change."""
    there = Same(ID, Value(change))
    return Either(All(there, otherwise), All(Not(there), honest))


def worked_out_instead(change: str, otherwise: Column, honest: Column) -> Column:
    """The same of columns."""
    return F.when(_change() == F.lit(change), otherwise).otherwise(honest)


def done_instead(change: str, otherwise: Callable[..., Column], honest: Callable[..., Column]) -> Any:
    """The same of functions that make columns."""
    return lambda *about: worked_out_instead(change, otherwise(*about), honest(*about))
