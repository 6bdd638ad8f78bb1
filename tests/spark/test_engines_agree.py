"""Python decides an incident, Spark ranks a fleet: the same guards and orders, the same answers."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_recovery.domain.policy import CandidateOrder, EvidenceRules, Limits, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.policy import TopicSelector as Topics
from spark.fleets import SEED, by_python, by_spark, compiled, fleet

ANY_ANSWER = EvidenceRules(required_answers=RequiredAnswers.ANY)
POLICIES = {
    "by default": Policy(),
    "longest log, strict": Policy(
        (Rule("all", candidate_order=CandidateOrder.LONGEST_LOG, min_replication_factor=2),),
        Limits(brokers_down_percent=40),
    ),
    "by epochs, whatever is proven": Policy((Rule("all", candidate_order=CandidateOrder.EPOCH_FIRST),)),
    "whoever answers": Policy((Rule("all", evidence=ANY_ANSWER, patience=timedelta(0)),)),
    "first match wins": Policy(
        (
            Rule("internal", Topics(prefixes=("__", "x")), candidate_order=CandidateOrder.LONGEST_LOG),
            Rule("named", Topics(names=("orders", "none"), prefixes=("__c",)), evidence=ANY_ANSWER),
        )
    ),
    "nothing at all": Policy(()),
}


WAITED = (timedelta(0), timedelta(minutes=1))
COMPILED = (timedelta(0),)
"""Where plans become Java code, as in the job; elsewhere Spark interprets them."""


@pytest.mark.parametrize("waited", WAITED, ids=("at once", "after a minute"))
@pytest.mark.parametrize("name", POLICIES)
def test_both_engines_say_the_same_of_random_clusters(
    spark: SparkSession, rows: DataFrame, name: str, waited: timedelta
) -> None:
    ours = by_python(fleet(SEED), POLICIES[name], waited=waited)
    with compiled(spark) if waited in COMPILED else nullcontext():
        theirs = by_spark(rows, POLICIES[name], waited=waited)

    assert theirs.keys() == ours.keys()
    apart = [(id, key) for id in ours for key in ours[id] if theirs[id][key] != ours[id][key]]
    shown = [f"{id} {key}: Spark {theirs[id][key]}, Python {ours[id][key]}" for id, key in apart[:5]]
    assert not apart, "\n".join([f"{len(apart)} differences, such as", *shown])
