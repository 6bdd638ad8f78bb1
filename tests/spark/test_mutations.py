"""Whoever changes a guard, an order or a comparison of copies for one engine only is caught by comparing the two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from kafka_recovery.decision import guards, judgement, logs, loss, order, planner, refusals
from kafka_recovery.decision.chains import Guard, Link
from kafka_recovery.domain.evidence import Evidence, ReplicaLog
from kafka_recovery.domain.ids import BrokerId, Offset
from kafka_recovery.domain.plan import Lack
from kafka_recovery.domain.policy import CandidateOrder
from kafka_recovery_spark import ranking
from kafka_recovery_spark.columns import Seen
from kafka_recovery_spark.columns import sort_keys as honest_sort_keys
from spark.changes import changed_in, done_instead, each_left_out, readable, worked_out_instead
from spark.fleets import SEED, Answer, by_python, by_spark, fleet, frame
from spark.test_engines_agree import ALWAYS, POLICIES, Asked
from unit.decision.written import merit, objection


@dataclass(frozen=True)
class Mutation:
    """One chain, order or comparison, changed: where Python reads it, and what it reads there."""

    name: str
    home: ModuleType
    function: str
    changed: Any


CHAINS: dict[str, tuple[ModuleType, str, tuple[Any, ...]]] = {
    "BROKER_GUARDS": (planner, "broker_objection", guards.BROKER_GUARDS),
    "REPLICA_GUARDS": (judgement, "replica_objection", guards.REPLICA_GUARDS),
    "PARTITION_GUARDS": (judgement, "partition_objection", refusals.PARTITION_GUARDS),
    "CLUSTER_GUARDS": (planner, "cluster_objection", refusals.CLUSTER_GUARDS),
    "RETURN_GUARDS": (judgement, "clean_return", refusals.RETURN_GUARDS),
}

ORDERS_OF_LOGS = (CandidateOrder.EPOCH_FIRST, CandidateOrder.LONGEST_LOG)

ONLY_WORDED = (guards.listed,)
"""Whatever it objects to, the next guard objects to under the same code."""


def without(chain: str, guard: Guard[...]) -> str:
    code = guard.code if isinstance(guard.code, str) else guard.code.otherwise
    return f"{chain} without {code} of {guard.explain.__name__}"


def turned(name: CandidateOrder, key: order.Key) -> str:
    return f"{name} with {key.fact} turned round"


def without_one(chain: tuple[Link[...], ...]) -> Iterator[tuple[Guard[...], tuple[Link[...], ...]]]:
    """The chain without each of its guards, one after the other."""
    for place, link in enumerate(chain):
        if isinstance(link, Guard):
            yield link, chain[:place] + chain[place + 1 :]
            continue
        for inner, guard in enumerate(link.guards):
            rest = link.guards[:inner] + link.guards[inner + 1 :]
            kept = (replace(link, guards=rest),) if rest else ()
            yield guard, (*chain[:place], *kept, *chain[place + 1 :])


def all_as_long_are_equal(one: ReplicaLog, other: ReplicaLog) -> bool:
    return one.end == other.end


def nothing_is_lacking(chosen: ReplicaLog, other: ReplicaLog, broker: BrokerId) -> Lack | None:
    return None


def all_is_shared(one: ReplicaLog, other: ReplicaLog) -> Offset | None:
    return min(one.end, other.end)


def all_is_equal(one: Column, other: Column, common: Column) -> Column:
    return one["end"] == other["end"]


def all_is_held(one: Column, other: Column, common: Column) -> Column:
    return other["end"] - other["start"]


def the_shorter_end(one: Column, other: Column) -> Column:
    return F.least(one["end"], other["end"])


CARELESS = (
    (
        Mutation("all as long are equal", judgement, "interchangeable", all_as_long_are_equal),
        "interchangeable",
        all_is_equal,
    ),
    (Mutation("nothing is lacking", loss, "lacks", nothing_is_lacking), "held", all_is_held),
    (Mutation("all is shared", logs, "common_point", all_is_shared), "common_point", the_shorter_end),
)
"""Comparisons of copies, with what Spark has in their place."""


def mutations() -> Iterator[Mutation]:
    for chain, (home, function, links) in CHAINS.items():
        for guard, rest in without_one(links):
            if guard not in ONLY_WORDED:
                yield Mutation(without(chain, guard), home, function, objection(rest))
    for name in ORDERS_OF_LOGS:
        for place, key in enumerate(order.ORDERS[name]):
            keys = list(order.ORDERS[name])
            keys[place] = replace(key, descending=not key.descending)
            merits = {each: merit(tuple(keys) if each is name else order.ORDERS[each]) for each in order.ORDERS}
            yield Mutation(turned(name, key), judgement, "MERITS", merits)
    yield from (mutation for mutation, *_ in CARELESS)


MUTATIONS = {each.name: each for each in mutations()}
Answers = dict[Any, Answer]


def changed_for_spark(patch: pytest.MonkeyPatch) -> None:
    """Each mutation, in the clusters that are called like it."""
    readable(patch)
    for chain, (_, _, links) in CHAINS.items():
        patch.setattr(ranking, chain, each_left_out(links, partial(without, chain)))
    patch.setattr(ranking, "sort_keys", sort_keys)
    for mutation, name, careless in CARELESS:
        patch.setattr(ranking, name, done_instead(mutation.name, careless, getattr(ranking, name)))


def sort_keys(keys: Sequence[order.Key], seen: Seen) -> list[Column]:
    """Each key turned round in clusters of its own."""
    (name,) = (each for each in ORDERS_OF_LOGS if order.ORDERS[each] == keys)
    columns = []
    for key in keys:
        other = replace(key, descending=not key.descending)
        both = zip(honest_sort_keys((other,), seen), honest_sort_keys((key,), seen), strict=True)
        columns += [worked_out_instead(turned(name, key), *each) for each in both]
    return columns


@cache
def honest() -> dict[Asked, tuple[Answers, ...]]:
    """What Python decides as it is of each cluster, asked what both engines are always asked."""
    return {asked: tuple(decided(seen, asked) for seen in fleet(SEED)) for asked in ALWAYS}


def decided(seen: Evidence, asked: Asked) -> Answers:
    return by_python((seen,), POLICIES[asked.policy], waited=asked.waited)


@dataclass(frozen=True)
class Witness:
    """The first question and cluster of which Python decides otherwise once it is changed, and how."""

    asked: Asked
    evidence: Evidence
    honest: Answers
    changed: Answers


@cache
def witness(name: str) -> Witness | None:
    unchanged, mutation = honest(), MUTATIONS[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mutation.home, mutation.function, mutation.changed)
        for asked, answers in unchanged.items():
            for seen, answer in zip(fleet(SEED), answers, strict=True):
                if (changed := decided(seen, asked)) != answer:
                    return Witness(asked, seen, answer, changed)
    return None


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> dict[Asked, Answers]:
    """What Spark says of all witnesses: as they are, and under the name of the mutation that each shows."""
    clusters: dict[Asked, dict[str, Evidence]] = {}
    for name in MUTATIONS:
        if found := witness(name):
            both = (found.evidence, changed_in(found.evidence, name))
            clusters.setdefault(found.asked, {}).update((each.cluster.cluster_id, each) for each in both)
    with pytest.MonkeyPatch.context() as patch:
        changed_for_spark(patch)
        return {
            asked: by_spark(frame(spark, seen.values()), POLICIES[asked.policy], waited=asked.waited)
            for asked, seen in clusters.items()
        }


def of(seen: Evidence, answers: Answers) -> Answers:
    """What was said of one cluster's partitions, whatever the cluster is called."""
    return {id[1:]: answer for id, answer in answers.items() if id[0] == seen.cluster.cluster_id}


def test_every_mutation_has_a_name_of_its_own() -> None:
    assert len(MUTATIONS) == len(tuple(mutations()))


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_change_for_one_engine_alone_is_caught(name: str, told: dict[Asked, Answers]) -> None:
    """Somewhere in the random fleet each engine, changed, says what the other one does not say: so what both are always
    asked has every guard, order and comparison in it.
    """
    seen = witness(name)
    assert seen is not None
    as_they_are, changed = of(seen.evidence, seen.honest), of(seen.evidence, seen.changed)

    assert of(seen.evidence, told[seen.asked]) == as_they_are != changed
    assert of(changed_in(seen.evidence, name), told[seen.asked]) == changed
