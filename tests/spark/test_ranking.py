"""What Spark does with a ranking: one pass over the rows, inside of the JVM, however many rules a policy has."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.policy import CandidateOrder, Policy, Rule, TopicSelector
from kafka_recovery_spark.ranking import ranking
from spark.fleets import frame
from unit.decision.incident import broker, evidence, log, partition

TWO_ORDERS = Policy(
    (
        Rule("payments", TopicSelector(prefixes=("pay-",)), candidate_order=CandidateOrder.LONGEST_LOG),
        Rule("others", patience=timedelta(0)),
    )
)
LONGER_OR_NEWER = {1: None, 2: log(50, (0, 0), (3, 8)), 3: log(10, (0, 0), (4, 8))}
HEALTHY = evidence(*(partition(LONGER_OR_NEWER, id=TopicPartition(topic, 0)) for topic in ("orders", "pay-out")))

HELD = {"equal": {1: None, 3: log(27), 2: log(27)}, "worse": {1: None, 3: log(15), 2: log(27)}}
UNREGISTERED = evidence(
    *(partition(of, id=TopicPartition(topic, 0)) for topic, of in HELD.items()),
    brokers=(broker(2), broker(3)),
    cluster_id="1 is gone",
)


def physical_plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


@pytest.fixture(scope="module")
def ranked(spark: SparkSession) -> DataFrame:
    return ranking(frame(spark, (HEALTHY, UNREGISTERED)), TWO_ORDERS)


@pytest.fixture(scope="module")
def by_topic(ranked: DataFrame) -> dict[str, Row]:
    return {row.topic: row for row in ranked.collect()}


def test_nothing_is_shuffled_and_no_row_leaves_the_jvm(ranked: DataFrame) -> None:
    plan = physical_plan(ranked)

    assert "FileScan parquet" in plan
    for forbidden in ("Exchange", "Python", "Arrow", "BatchEval", "Sort ", "Join"):
        assert forbidden not in plan


def test_each_topic_is_ranked_by_the_order_of_its_own_rule(by_topic: dict[str, Row]) -> None:
    chosen = {topic: (by_topic[topic].rule, by_topic[topic].best_first) for topic in ("orders", "pay-out")}

    assert chosen == {"orders": ("others", [3, 2]), "pay-out": ("payments", [2, 3])}


def test_a_replica_that_can_not_lead_by_the_present_order_is_not_chosen(by_topic: dict[str, Row]) -> None:
    """Broker 1 is unregistered: Kafka takes no other order than the one that names it."""
    told = {topic: (row.verdict, row.reason, row.chosen) for topic, row in by_topic.items() if topic in HELD}

    assert told == {"equal": ("Elect", None, 3), "worse": ("Refuse", "OrderCannotBeSet", None)}


def test_the_columns_are_a_contract(ranked: DataFrame) -> None:
    assert [f"{field.name} {field.dataType.simpleString()}" for field in ranked.schema] == [
        "cluster_id string",
        "topic string",
        "topic_id string",
        "partition int",
        "leader_epoch int",
        "rule string",
        "verdict string",
        "reason string",
        "chosen int",
        "best_first array<int>",
        "equals array<int>",
        "rejections array<struct<broker:int,code:string>>",
        "log_end bigint",
        "loss_class string",
        "at_least bigint",
        "at_most bigint",
        "lacks array<struct<broker:int,from_offset:bigint,records:bigint>>",
    ]


def test_a_policy_of_many_rules_is_still_one_pass(spark: SparkSession) -> None:
    policy = Policy(tuple(Rule(f"rule-{n}", TopicSelector(names=(f"topic-{n}",))) for n in range(200)))
    id = TopicPartition("topic-199", 0)

    ranked = ranking(frame(spark, (evidence(partition(LONGER_OR_NEWER, id=id)),)), policy)

    assert [row.rule for row in ranked.collect()] == ["rule-199"]
    assert "Exchange" not in physical_plan(ranked)
