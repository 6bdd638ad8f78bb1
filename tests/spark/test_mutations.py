"""Whoever changes a guard or an order for one engine only is caught by comparing the two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from kafka_recovery.decision import guards, judgement, logs, loss, order, refusals
from kafka_recovery.decision.chains import Guard, Link
from kafka_recovery.decision.conditions import ALWAYS, Not
from kafka_recovery.domain.evidence import ReplicaLog
from kafka_recovery.domain.ids import BrokerId, Offset
from kafka_recovery.domain.plan import Lack
from kafka_recovery.domain.policy import CandidateOrder
from kafka_recovery_spark import ranking
from spark.fleets import SEED, Answer, by_python, by_spark, fleet
from spark.test_engines_agree import POLICIES


@dataclass(frozen=True)
class Mutation:
    """One chain or order, changed: where each engine reads it, and what it reads there."""

    name: str
    python: tuple[ModuleType, str, Any]
    spark: tuple[ModuleType, str, Any]


CHAINS: dict[str, tuple[ModuleType, tuple[Any, ...]]] = {
    "BROKER_GUARDS": (guards, guards.BROKER_GUARDS),
    "REPLICA_GUARDS": (judgement, guards.REPLICA_GUARDS),
    "PARTITION_GUARDS": (judgement, refusals.PARTITION_GUARDS),
    "CLUSTER_GUARDS": (refusals, refusals.CLUSTER_GUARDS),
}


def without_one(chain: tuple[Link[...], ...]) -> Iterator[tuple[str, tuple[Link[...], ...]]]:
    """The chain without each of its guards, one after the other."""
    for place, link in enumerate(chain):
        if isinstance(link, Guard):
            yield str(link.code), chain[:place] + chain[place + 1 :]
            continue
        for inner, guard in enumerate(link.guards):
            rest = link.guards[:inner] + link.guards[inner + 1 :]
            kept = (replace(link, guards=rest),) if rest else ()
            yield str(guard.code), (*chain[:place], *kept, *chain[place + 1 :])


def mutations() -> Iterator[Mutation]:
    for name, (home, chain) in CHAINS.items():
        for code, rest in without_one(chain):
            yield Mutation(f"{name} without {code}", (home, name, rest), (ranking, name, rest))
    never = Guard("CleanMemberReturning", Not(ALWAYS), refusals.clean_return.explain)
    yield Mutation("never waits", (judgement, "clean_return", never), (ranking, "clean_return", never))
    for name in CandidateOrder:
        for place, key in enumerate(order.ORDERS[name]):
            keys = list(order.ORDERS[name])
            keys[place] = replace(key, descending=not key.descending)
            orders = {**order.ORDERS, name: tuple(keys)}
            merits = {each: order.merit(keys) for each, keys in orders.items()}
            turned = f"{name} with {key.fact} turned round"
            yield Mutation(turned, (judgement, "MERITS", merits), (ranking, "ORDERS", orders))


MUTATIONS = tuple(mutations())


@cache
def honest() -> dict[str, dict[Any, Answer]]:
    """What Python decides as it is, by policy."""
    return {name: by_python(fleet(SEED), policy) for name, policy in POLICIES.items()}


def noticed_by(patch: pytest.MonkeyPatch, mutation: Mutation) -> str | None:
    """The first policy under which Python, so changed, decides otherwise."""
    unchanged, clusters = honest(), fleet(SEED)
    with patch.context() as changed:
        changed.setattr(*mutation.python)
        return next((n for n, policy in POLICIES.items() if by_python(clusters, policy) != unchanged[n]), None)


@pytest.fixture(scope="module")
def by_honest_spark(spark: SparkSession) -> dict[str, dict[Any, Answer]]:
    return {name: by_spark(spark, fleet(SEED), policy) for name, policy in POLICIES.items()}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_change_for_python_alone_is_caught(
    mutation: Mutation, by_honest_spark: dict[str, dict[Any, Answer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = noticed_by(monkeypatch, mutation)
    assert policy is not None
    monkeypatch.setattr(*mutation.python)

    assert by_python(fleet(SEED), POLICIES[policy]) != by_honest_spark[policy]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_change_for_spark_alone_is_caught(
    mutation: Mutation, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = noticed_by(monkeypatch, mutation)
    assert policy is not None
    monkeypatch.setattr(*mutation.spark)

    assert by_spark(spark, fleet(SEED), POLICIES[policy]) != honest()[policy]


def all_as_long_are_equal(one: ReplicaLog, other: ReplicaLog) -> bool:
    return one.end == other.end


def nothing_is_lacking(chosen: ReplicaLog, other: ReplicaLog, broker: BrokerId) -> Lack | None:
    return None


def all_is_shared(one: ReplicaLog, other: ReplicaLog) -> Offset | None:
    return min(one.end, other.end)


@pytest.mark.parametrize(
    ("home", "name", "careless"),
    [
        (judgement, "equal", all_as_long_are_equal),
        (loss, "lacks", nothing_is_lacking),
        (logs, "common_point", all_is_shared),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_careless_comparison_of_copies_by_python_is_caught(
    home: ModuleType,
    name: str,
    careless: Any,
    by_honest_spark: dict[str, dict[Any, Answer]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(home, name, careless)

    assert by_python(fleet(SEED), POLICIES["by default"]) != by_honest_spark["by default"]


def all_is_equal(one: Column, other: Column, common: Column) -> Column:
    return one["end"] == other["end"]


def all_is_held(one: Column, other: Column, common: Column) -> Column:
    return other["end"] - other["start"]


def the_shorter_end(one: Column, other: Column) -> Column:
    return F.least(one["end"], other["end"])


@pytest.mark.parametrize(
    ("name", "careless"), [("equal", all_is_equal), ("held", all_is_held), ("common_point", the_shorter_end)]
)
def test_a_careless_comparison_of_copies_by_spark_is_caught(
    name: str, careless: Any, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, name, careless)

    assert by_spark(spark, fleet(SEED), POLICIES["by default"]) != honest()["by default"]
