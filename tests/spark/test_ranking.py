"""What Spark does with a ranking: one pass over the rows, inside of the JVM, however many rules a policy has."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

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


def physical_plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_nothing_is_shuffled_and_no_row_leaves_the_jvm(spark: SparkSession) -> None:
    plan = physical_plan(ranking(frame(spark, (evidence(partition(LONGER_OR_NEWER)),)), TWO_ORDERS))

    assert "FileScan parquet" in plan
    for forbidden in ("Exchange", "Python", "Arrow", "BatchEval", "Sort ", "Join"):
        assert forbidden not in plan


def test_each_topic_is_ranked_by_the_order_of_its_own_rule(spark: SparkSession) -> None:
    ids = (TopicPartition("orders", 0), TopicPartition("pay-out", 0))
    seen = evidence(*[partition(LONGER_OR_NEWER, id=id) for id in ids])

    chosen = {row.topic: (row.rule, row.best_first) for row in ranking(frame(spark, (seen,)), TWO_ORDERS).collect()}

    assert chosen == {"orders": ("others", [3, 2]), "pay-out": ("payments", [2, 3])}


def test_a_replica_that_can_not_lead_by_the_present_order_is_not_chosen(spark: SparkSession) -> None:
    """Broker 1 is unregistered: Kafka takes no other order than the one that names it."""
    held = {"equal": {1: None, 3: log(27), 2: log(27)}, "worse": {1: None, 3: log(15), 2: log(27)}}
    seen = evidence(
        *[partition(of, id=TopicPartition(topic, 0)) for topic, of in held.items()], brokers=(broker(2), broker(3))
    )
    told = {
        row.topic: (row.verdict, row.reason, row.chosen) for row in ranking(frame(spark, (seen,)), Policy()).collect()
    }

    assert told == {"equal": ("Elect", None, 3), "worse": ("Refuse", "OrderCannotBeSet", None)}


def test_the_columns_are_a_contract(spark: SparkSession) -> None:
    ranked = ranking(frame(spark, (evidence(partition(LONGER_OR_NEWER)),)), Policy())

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


@pytest.mark.parametrize("rules", [1, 200])
def test_a_policy_of_many_rules_is_still_one_pass(spark: SparkSession, rules: int) -> None:
    policy = Policy(tuple(Rule(f"rule-{n}", TopicSelector(names=(f"topic-{n}",))) for n in range(rules)))
    id = TopicPartition(f"topic-{rules - 1}", 0)

    ranked = ranking(frame(spark, (evidence(partition(LONGER_OR_NEWER, id=id)),)), policy)

    assert [row.rule for row in ranked.collect()] == [f"rule-{rules - 1}"]
    assert "Exchange" not in physical_plan(ranked)
