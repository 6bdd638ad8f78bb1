"""Whoever changes a guard or an order for one engine only is caught by comparing the two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_recovery.decision import guards, judgement, logs, loss, order, planner, refusals
from kafka_recovery.decision.chains import Guard, Link
from kafka_recovery.domain.evidence import Evidence, ReplicaLog
from kafka_recovery.domain.ids import BrokerId, Offset
from kafka_recovery.domain.plan import Lack
from kafka_recovery.domain.policy import CandidateOrder, Policy
from kafka_recovery_spark import ranking
from spark.fleets import SEED, Answer, by_python, by_spark, fleet, frame
from spark.test_engines_agree import POLICIES
from unit.decision.written import merit, objection


@dataclass(frozen=True)
class Mutation:
    """One chain or order, changed: where each engine reads it, and what it reads there."""

    name: str
    python: tuple[ModuleType, str, Any]
    spark: tuple[ModuleType, str, Any]


CHAINS: dict[str, tuple[ModuleType, str, tuple[Any, ...]]] = {
    "BROKER_GUARDS": (planner, "broker_objection", guards.BROKER_GUARDS),
    "REPLICA_GUARDS": (judgement, "replica_objection", guards.REPLICA_GUARDS),
    "PARTITION_GUARDS": (judgement, "partition_objection", refusals.PARTITION_GUARDS),
    "CLUSTER_GUARDS": (planner, "cluster_objection", refusals.CLUSTER_GUARDS),
    "RETURN_GUARDS": (judgement, "clean_return", refusals.RETURN_GUARDS),
}


ORDERS_OF_LOGS = (CandidateOrder.EPOCH_FIRST, CandidateOrder.LONGEST_LOG)


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
    for name, (home, function, chain) in CHAINS.items():
        for code, rest in without_one(chain):
            yield Mutation(f"{name} without {code}", (home, function, objection(rest)), (ranking, name, rest))
    for name in ORDERS_OF_LOGS:
        for place, key in enumerate(order.ORDERS[name]):
            keys = list(order.ORDERS[name])
            keys[place] = replace(key, descending=not key.descending)
            orders = {**order.ORDERS, name: tuple(keys)}
            merits = {each: merit(orders[each]) for each in orders}
            turned = f"{name} with {key.fact} turned round"
            by_logs = {
                each: tuple(keys) if same is name else order.BY_LOGS[each] for each, same in order.UNPROVEN.items()
            }
            yield Mutation(turned, (judgement, "MERITS", merits), (ranking, "BY_LOGS", by_logs))


MUTATIONS = {each.name: each for each in mutations()}
Answers = dict[Any, Answer]


@cache
def honest() -> dict[str, tuple[Answers, ...]]:
    """What Python decides as it is: under each policy, of each cluster."""
    return {name: tuple(by_python((seen,), policy) for seen in fleet(SEED)) for name, policy in POLICIES.items()}


@dataclass(frozen=True)
class Witness:
    """The first policy and cluster of which Python decides otherwise once it is changed, and how."""

    policy: str
    evidence: Evidence
    honest: Answers
    changed: Answers


@cache
def witness(name: str) -> Witness | None:
    unchanged = honest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*MUTATIONS[name].python)
        for policy, answers in unchanged.items():
            for seen, answer in zip(fleet(SEED), answers, strict=True):
                if (changed := by_python((seen,), POLICIES[policy])) != answer:
                    return Witness(policy, seen, answer, changed)
    return None


@pytest.fixture(scope="module")
def witnesses(spark: SparkSession) -> DataFrame:
    """The evidence of all witnesses. They are few, and each change makes another plan of the ranking."""
    seen = [found.evidence for name in MUTATIONS if (found := witness(name))]
    each_once = {one.cluster.cluster_id: one for one in seen}
    return frame(spark, each_once.values())


@pytest.fixture(scope="module")
def honest_spark(witnesses: DataFrame) -> dict[str, Answers]:
    """What Spark says of them as it is, under the policies that show a change."""
    used = {found.policy for name in MUTATIONS if (found := witness(name))}
    return {name: by_spark(witnesses, POLICIES[name]) for name in used}


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_change_for_one_engine_alone_is_caught(
    name: str, witnesses: DataFrame, honest_spark: dict[str, Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somewhere in the random fleet each engine, changed, says what the other one does not say."""
    seen = witness(name)
    assert seen is not None
    told = {id: honest_spark[seen.policy][id] for id in seen.honest}
    assert told == seen.honest != seen.changed

    monkeypatch.setattr(*MUTATIONS[name].spark)

    rows = witnesses.where(F.col("cluster")["id"] == F.lit(seen.evidence.cluster.cluster_id))
    assert by_spark(rows, POLICIES[seen.policy]) == seen.changed


def all_as_long_are_equal(one: ReplicaLog, other: ReplicaLog) -> bool:
    return one.end == other.end


def nothing_is_lacking(chosen: ReplicaLog, other: ReplicaLog, broker: BrokerId) -> Lack | None:
    return None


def all_is_shared(one: ReplicaLog, other: ReplicaLog) -> Offset | None:
    return min(one.end, other.end)


@pytest.mark.parametrize(
    ("home", "name", "careless"),
    [
        (judgement, "interchangeable", all_as_long_are_equal),
        (loss, "lacks", nothing_is_lacking),
        (logs, "common_point", all_is_shared),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_careless_comparison_of_copies_by_python_is_caught(
    home: ModuleType, name: str, careless: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark says is what Python says as it is, see test_engines_agree."""
    unchanged = honest()["by default"]
    monkeypatch.setattr(home, name, careless)

    assert any(by_python((seen,), Policy()) != answer for seen, answer in zip(fleet(SEED), unchanged, strict=True))


def all_is_equal(one: Column, other: Column, common: Column) -> Column:
    return one["end"] == other["end"]


def all_is_held(one: Column, other: Column, common: Column) -> Column:
    return other["end"] - other["start"]


def the_shorter_end(one: Column, other: Column) -> Column:
    return F.least(one["end"], other["end"])


@pytest.mark.parametrize(
    ("name", "careless"), [("interchangeable", all_is_equal), ("held", all_is_held), ("common_point", the_shorter_end)]
)
def test_a_careless_comparison_of_copies_by_spark_is_caught(
    name: str, careless: Any, rows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {id: told for answers in honest()["by default"] for id, told in answers.items()}
    monkeypatch.setattr(ranking, name, careless)

    assert by_spark(rows, Policy()) != ours
