"""What would be lost if brokers failed: Spark says what going through every scenario says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_recovery.decision import guards
from kafka_recovery.decision.conditions import BACK
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import Policy
from kafka_recovery_spark import readiness
from kafka_recovery_spark.readiness import COUNTS, hanging, losses, offline_now, topics
from spark.fleets import SEED, Fleet, compiled, fleet, frame
from spark.readiness_in_python import UNREAD, Numbers, expected, expected_now, up_and_running
from spark.test_engines_agree import POLICIES
from unit.decision.incident import broker, dead, evidence, log, partition

ENOUGH = 40
"""Clusters in which each careless look shows."""

RACKS = {1: "b", 2: "a", 3: "b", 4: "a", 5: "b", 6: "c", 7: "d"}


def led(topic: str, held: dict[int, Any], isr: tuple[int, ...], **more: Any) -> PartitionEvidence:
    return partition(held, id=TopicPartition(topic, 0), isr=isr, leader=isr[0], **more)


VILLAGE = evidence(
    led("safe", {1: log(9), 2: log(9), 3: log(9)}, (1, 2, 3)),
    led("copied", {1: log(9), 2: log(9)}, (1,)),
    led("behind", {1: log(9), 3: log(6)}, (1,)),
    led("silent", {1: log(9), 4: None}, (1,)),
    led("alone", {5: log(9)}, (5,)),
    led("two", {2: log(9), 4: log(9), 5: log(7)}, (2, 4)),
    led("eligible", {3: log(9), 5: None}, (3,), elr=(5,)),
    led("tiered", {6: log(9), 7: log(9)}, (6,), tiered=True),
    led("perhaps-tiered", {6: log(9), 7: log(9)}, (6,), configs_problem=UNREAD),
    led("not-tiered", {6: log(9), 7: log(9)}, (6,), tiered=False, configs_problem=UNREAD),
    partition({2: log(5), 3: None}, id=TopicPartition("down", 0), isr=()),
    brokers=[broker(n, rack=rack) for n, rack in RACKS.items()],
)


@cache
def running(seed: int) -> Fleet:
    chance = Random(seed)
    return tuple(up_and_running(seen, chance) for seen in fleet(seed))


def told(frame: DataFrame, *names: str) -> dict[Any, Numbers]:
    """What Spark counted, by these columns; zeros left out."""
    return {tuple(row[name] for name in names): counted(row.asDict()) for row in frame.collect()}


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


@pytest.mark.parametrize("name", POLICIES)
def test_spark_counts_what_going_through_every_scenario_counts(spark: SparkSession, rows: DataFrame, name: str) -> None:
    """Under one policy with plans as the job has them, under the others interpreted, which takes less time."""
    policy, clusters = POLICIES[name], running(SEED)
    ours = {(c.cluster.cluster_id, what): cost for c in clusters for what, cost in expected(c, policy).items()}
    now = {c.cluster.cluster_id: cost for c in clusters if (cost := expected_now(c, policy))}

    with compiled(spark) if name == "by default" else nullcontext(), counted_once(rows, policy) as counts:
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


def without(guard: Any, chain: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(each for each in chain if each is not guard)


@pytest.mark.parametrize(
    ("name", "careless"),
    [
        ("BROKER_GUARDS", without(guards.reachable, guards.BROKER_GUARDS)),
        ("REPLICA_GUARDS", without(guards.promised, guards.REPLICA_GUARDS)),
        ("log_dir_online", guards.answered),
        ("ALIVE", BACK),
        ("common_point", the_shorter_end),
    ],
)
def test_whoever_looks_at_copies_otherwise_for_spark_alone_is_caught(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str, careless: Any
) -> None:
    clusters = running(SEED)[:ENOUGH]
    ours = {(c.cluster.cluster_id, what): cost for c in clusters for what, cost in expected(c, Policy()).items()}
    rows = frame(spark, clusters)
    monkeypatch.setattr(readiness, name, careless)

    with counted_once(rows, Policy()) as counts:
        assert told(losses(rows, counts), "cluster_id", "failing") != ours


def test_the_random_fleet_has_everything_in_it() -> None:
    """Or agreeing would mean little."""
    seen = [cost for c in running(SEED) for cost in expected(c, Policy()).values()]

    total = sum(seen, Counter[str]())
    assert all(total[name] > 100 for name in COUNTS), total


@pytest.fixture(scope="module")
def village(spark: SparkSession) -> dict[str, dict[Any, Numbers]]:
    rows = frame(spark, (VILLAGE,))
    with counted_once(rows, Policy()) as counts:
        return {
            "losses": {what: numbers for (what,), numbers in told(losses(rows, counts), "failing").items()},
            "topics": told(topics(counts), "topic", "kind", "worst"),
            "now": told(offline_now(counts), "topic"),
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


def test_a_broker_that_is_down_can_not_fail_again(spark: SparkSession) -> None:
    seen = evidence(led("orders", {1: None, 2: log(9)}, (2,)), brokers=(dead(1), broker(2)))
    rows = frame(spark, (seen,))

    with counted_once(rows, Policy()) as counts:
        assert told(losses(rows, counts), "failing") == {("broker 2",): Counter(offline=1, none=1)}
