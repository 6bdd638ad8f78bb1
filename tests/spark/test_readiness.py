"""What would be lost if brokers failed: Spark says what going through every scenario says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_recovery.decision import guards
from kafka_recovery.decision.conditions import ALIVE, BACK
from kafka_recovery.domain.policy import Policy
from kafka_recovery_spark import copies, readiness
from kafka_recovery_spark.readiness import COUNTS, hanging, losses, offline_now
from spark.changes import AFTER, asked_instead, changed_in, done_instead, left_out, readable
from spark.fleets import SEED, Fleet, compiled, fleet, frame
from spark.readiness_in_python import Numbers, expected, expected_now, up_and_running
from spark.test_engines_agree import POLICIES
from spark.villages import Told

ENOUGH = 40
"""Clusters in which each careless look shows."""

ALWAYS = "first match wins"
"""Every order, and either answer to whose silence counts: of a policy readiness looks at nothing else. Its plans become
Java code, as in the job; the others, in full, are interpreted, which takes less time.
"""


@cache
def running(seed: int) -> Fleet:
    chance = Random(seed)
    return tuple(up_and_running(seen, chance) for seen in fleet(seed))


def told(frame: DataFrame, *names: str) -> dict[Any, Numbers]:
    """What Spark counted, by these columns."""
    return by((row.asDict() for row in frame.collect()), *names)


def by(rows: Iterable[dict[str, Any]], *names: str) -> dict[Any, Numbers]:
    """The same of rows; zeros left out."""
    return {tuple(row[name] for name in names): counted(row) for row in rows}


def counted(row: dict[str, Any]) -> Numbers:
    return Counter({name: int(row[name]) for name in COUNTS if row[name]})


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """The evidence of the fleet as it runs."""
    return frame(spark, running(SEED))


@contextmanager
def counted_once(rows: DataFrame, policy: Policy) -> Iterator[DataFrame]:
    """As the job does: what is asked of them afterwards asks several times."""
    counts = hanging(rows, policy).persist()
    try:
        yield counts
    finally:
        counts.unpersist()


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each == ALWAYS else pytest.mark.full) for each in POLICIES]
)
def test_spark_counts_what_going_through_every_scenario_counts(spark: SparkSession, rows: DataFrame, name: str) -> None:
    policy, clusters = POLICIES[name], running(SEED)
    ours = {(c.cluster.cluster_id, what): cost for c in clusters for what, cost in expected(c, policy).items()}
    now = {c.cluster.cluster_id: cost for c in clusters if (cost := expected_now(c, policy))}

    with compiled(spark) if name == ALWAYS else nullcontext(), counted_once(rows, policy) as counts:
        theirs = told(losses(rows, counts), "cluster_id", "failing")
        by_topic = told(offline_now(counts), "cluster_id", "topic")
    theirs_now: dict[str, Numbers] = {}
    for (cluster, _), numbers in by_topic.items():
        theirs_now[cluster] = theirs_now.get(cluster, Counter()) + numbers

    assert theirs.keys() == ours.keys()
    apart = [f"{id}: Spark {theirs[id]}, Python {ours[id]}" for id in ours if theirs[id] != ours[id]]
    assert not apart, "\n".join([f"{len(apart)} differences, such as", *apart[:5]])
    assert theirs_now == now


def the_shorter_end(one: Any, other: Any) -> Any:
    return F.least(one["end"], other["end"])


def out_of(chain: tuple[Any, ...], guard: Any, change: str) -> tuple[Any, ...]:
    return tuple(left_out(each, change) if each is guard else each for each in chain)


CARELESS: dict[str, Any] = {
    "BROKER_GUARDS": out_of(guards.BROKER_GUARDS, guards.reachable, "BROKER_GUARDS"),
    "REPLICA_GUARDS": out_of(guards.REPLICA_GUARDS, guards.promised, "REPLICA_GUARDS"),
    "log_dir_online": replace(
        guards.log_dir_online,
        when=asked_instead("log_dir_online", guards.answered.when, guards.log_dir_online.when),
    ),
    "ALIVE": replace(ALIVE, condition=asked_instead("ALIVE", BACK.condition, ALIVE.condition)),
    "common_point": done_instead("common_point", the_shorter_end, copies.common_point),
}
"""What readiness has under these names, looking otherwise in clusters that are called so."""

AS_IT_IS = "nothing is changed"


@pytest.fixture(scope="module")
def carelessly(spark: SparkSession) -> dict[Any, Numbers]:
    """What Spark counts where something is changed, and where nothing is."""
    clusters = [changed_in(seen, change) for change in (*CARELESS, AS_IT_IS) for seen in running(SEED)[:ENOUGH]]
    rows = frame(spark, clusters)
    with pytest.MonkeyPatch.context() as patch:
        readable(patch)
        for name, careless in CARELESS.items():
            patch.setattr(readiness, name, careless)
        with counted_once(rows, Policy()) as counts:
            return told(losses(rows, counts), "cluster_id", "failing")


@pytest.mark.parametrize("change", [*CARELESS, AS_IT_IS])
def test_whoever_looks_at_copies_otherwise_for_spark_alone_is_caught(
    carelessly: dict[Any, Numbers], change: str
) -> None:
    clusters = [changed_in(seen, change) for seen in running(SEED)[:ENOUGH]]
    ours = {(c.cluster.cluster_id, what): cost for c in clusters for what, cost in expected(c, Policy()).items()}
    theirs = {id: counts for id, counts in carelessly.items() if id[0].startswith(f"{change}{AFTER}")}

    assert (theirs == ours) is (change == AS_IT_IS)


def test_the_random_fleet_has_everything_in_it() -> None:
    """Or agreeing would mean little."""
    seen = {
        name: [cost for c in running(SEED) for cost in expected(c, POLICIES[name]).values()]
        for name in (ALWAYS, "by default")
    }

    total = sum(seen[ALWAYS], Counter[str]())
    assert all(total[name] > 100 for name in COUNTS), total
    assert seen[ALWAYS] != seen["by default"]


@pytest.fixture
def village(villages: Told) -> dict[str, dict[Any, Numbers]]:
    """What the job found in VILLAGE."""
    return {
        "losses": {what: numbers for (what,), numbers in by(villages.rows("losses", "village"), "failing").items()},
        "topics": by(villages.rows("topics", "village"), "topic", "kind", "worst"),
        "now": by(villages.rows("offline", "village"), "topic"),
    }


Village = dict[str, dict[Any, Numbers]]


def test_a_partition_is_lost_with_the_last_living_member_of_its_isr(village: Village) -> None:
    assert village["losses"]["broker 1"] == Counter(offline=3, lossless=1, bounded=1, unknown=1, lacking=3)
    assert village["losses"]["broker 5"] == Counter(offline=1, none=1)


def test_a_living_elr_member_loses_nothing_though_it_was_not_measured(village: Village) -> None:
    assert village["losses"]["broker 3"] == Counter(offline=1, lossless=1)


def test_of_what_is_or_may_be_in_a_remote_tier_no_copy_proves_anything(village: Village) -> None:
    assert village["losses"]["broker 6"] == Counter(offline=3, unknown=2, lossless=1)


def test_a_broker_on_which_nothing_hangs_is_told_as_well(village: Village) -> None:
    assert village["losses"]["broker 2"] == village["losses"]["broker 4"] == Counter()


def test_a_pair_takes_offline_what_neither_does_alone(village: Village) -> None:
    assert village["losses"]["brokers 2 and 4"] == Counter(offline=1, bounded=1, lacking=2)


def test_a_pair_costs_what_each_of_the_two_costs_alone(village: Village) -> None:
    alone = village["losses"]["broker 1"] + village["losses"]["broker 5"]
    assert village["losses"]["brokers 1 and 5"] == alone


def test_a_copy_that_fails_as_well_saves_nothing(village: Village) -> None:
    assert village["losses"]["brokers 1 and 2"] == Counter(offline=3, bounded=1, unknown=1, none=1, lacking=3)


def test_a_rack_takes_all_its_brokers_with_it(village: Village) -> None:
    assert village["losses"]["rack a"] == Counter(offline=1, bounded=1, lacking=2)
    assert village["losses"]["rack b"] == Counter(offline=5, lossless=1, unknown=1, none=3)


def test_what_is_offline_already_is_counted_apart(village: Village) -> None:
    assert village["now"] == {("down",): Counter(offline=1, unknown=1)}
    assert "down" not in {topic for topic, *_ in village["topics"]}


def test_topics_tell_on_what_they_hang(village: Village) -> None:
    assert village["topics"]["two", "Pair", "brokers 2 and 4"] == Counter(offline=1, bounded=1, lacking=2)
    assert village["topics"]["alone", "Broker", "broker 5"] == Counter(offline=1, none=1)
    assert "safe" not in {topic for topic, *_ in village["topics"]}


def test_a_broker_that_is_down_can_not_fail_again(villages: Told) -> None:
    failing = {row["failing"] for row in villages.rows("losses", "town")}

    assert failing == {"broker 3", "broker 4", "brokers 3 and 4", "rack a", "rack b"}
