"""Python decides an incident, Spark ranks a fleet: the same guards and orders, the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from itertools import product
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_recovery.domain.policy import CandidateOrder, EvidenceRules, Limits, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.policy import TopicSelector as Topics
from spark.fleets import SEED, by_python, by_spark, compiled, fleet

ANY_ANSWER = EvidenceRules(required_answers=RequiredAnswers.ANY)
NO_PATIENCE = timedelta(0)
POLICIES = {
    "by default": Policy(),
    "longest log, strict": Policy(
        (Rule("all", candidate_order=CandidateOrder.LONGEST_LOG, min_replication_factor=2),),
        Limits(brokers_down_percent=40),
    ),
    "by epochs, whatever is proven": Policy((Rule("all", candidate_order=CandidateOrder.EPOCH_FIRST),)),
    "whoever answers": Policy((Rule("all", evidence=ANY_ANSWER, patience=NO_PATIENCE),)),
    "first match wins": Policy(
        (
            Rule(
                "internal",
                Topics(prefixes=("__", "x")),
                candidate_order=CandidateOrder.EPOCH_FIRST,
                patience=NO_PATIENCE,
            ),
            Rule("named", Topics(names=("orders", "none"), prefixes=("__c",)), evidence=ANY_ANSWER),
            Rule("longest", Topics(names=("pay",)), candidate_order=CandidateOrder.LONGEST_LOG),
        )
    ),
    "nothing at all": Policy(()),
}


class Asked(NamedTuple):
    """A question to both engines."""

    policy: str
    waited: timedelta

    def __str__(self) -> str:
        return f"{self.policy}-{'after a minute' if self.waited else 'at once'}"


AT_ONCE, A_MINUTE = timedelta(0), timedelta(minutes=1)
ALWAYS = (
    Asked("by default", AT_ONCE),
    Asked("longest log, strict", A_MINUTE),
    Asked("first match wins", AT_ONCE),
    Asked("nothing at all", AT_ONCE),
)
"""They have every guard, order and comparison of copies in them, see test_mutations; the others say them in another
composition, and are asked in full."""

ALWAYS_COMPILED = Asked("first match wins", AT_ONCE)
"""Where plans become Java code, as in the job; in full all that are asked at once. Else Spark interprets them."""


def questions() -> Iterator[object]:
    for each in product(POLICIES, (AT_ONCE, A_MINUTE)):
        asked = Asked(*each)
        if asked.waited == AT_ONCE:
            marks = () if asked == ALWAYS_COMPILED else pytest.mark.full
            yield pytest.param(asked, True, id=f"{asked}-compiled", marks=marks)
        else:
            yield pytest.param(asked, False, id=str(asked), marks=() if asked in ALWAYS else pytest.mark.full)
    for asked in ALWAYS:
        if asked.waited == AT_ONCE and asked != ALWAYS_COMPILED:
            yield pytest.param(asked, False, id=str(asked))


@pytest.mark.parametrize(("asked", "as_code"), list(questions()))
def test_both_engines_say_the_same_of_random_clusters(
    spark: SparkSession, rows: DataFrame, asked: Asked, as_code: bool
) -> None:
    policy = POLICIES[asked.policy]
    ours = by_python(fleet(SEED), policy, waited=asked.waited)
    with compiled(spark) if as_code else nullcontext():
        theirs = by_spark(rows, policy, waited=asked.waited)

    assert theirs.keys() == ours.keys()
    apart = [(id, key) for id in ours for key in ours[id] if theirs[id][key] != ours[id][key]]
    shown = [f"{id} {key}: Spark {theirs[id][key]}, Python {ours[id][key]}" for id, key in apart[:5]]
    assert not apart, "\n".join([f"{len(apart)} differences, such as", *shown])
