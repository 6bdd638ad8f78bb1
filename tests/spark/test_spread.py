"""A fleet's leaders after its elections: as level as a plan of each cluster would make them."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from pyspark.sql import Row, SparkSession

from kafka_recovery.decision.spread import TieSet
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import Policy
from kafka_recovery_spark.ranking import ranking
from kafka_recovery_spark.spread import leaders
from property.test_spread import optimum
from spark.fleets import SEED, by_python, fleet, frame
from unit.decision.incident import broker, dead, evidence, log, partition

BROKERS = range(2, 8)


def skewed(seed: int, partitions: int = 300) -> Evidence:
    """Low broker ids hold far more than high ones; copies are equal mostly."""
    chance = Random(seed)
    held = []
    for index in range(partitions):
        survivors = {min(BROKERS.stop - 1, BROKERS.start + int(chance.expovariate(0.6))) for _ in range(3)}
        logs = {b: log(9 if chance.random() < 0.9 else 5) for b in survivors}
        held.append(partition({1: None, **logs}, id=TopicPartition("orders", index)))
    brokers = [broker(n, rack=f"rack-{n % 3}") for n in BROKERS]
    return evidence(*held, brokers=(dead(1), *brokers), cluster_id=f"seed-{seed}")


SKEWED = tuple(skewed(seed) for seed in range(6))


@pytest.fixture(scope="module")
def spread(spark: SparkSession) -> list[Row]:
    """The leaders of these, and of the random fleet."""
    rows = frame(spark, (*SKEWED, *fleet(SEED)))
    return leaders(rows, ranking(rows, Policy())).collect()


def test_the_busiest_broker_is_as_little_busy_as_can_be(spread: list[Row]) -> None:
    decided = by_python(SKEWED, Policy())
    for seen in SKEWED:
        id = seen.cluster.cluster_id
        ties: Counter[TieSet] = Counter(
            tuple(sorted(map(BrokerId, told["equals"])))
            for (cluster, *_), told in decided.items()
            if cluster == id and told["verdict"] == Verdict.ELECT
        )
        assert max(row.elected for row in spread if row.cluster_id == id) == optimum(ties, {}), id


def test_every_election_is_counted_once_and_leaders_of_now_are_told(spread: list[Row]) -> None:
    clusters = (*SKEWED, *fleet(SEED))

    elections = sum(answer["verdict"] == Verdict.ELECT for answer in by_python(clusters, Policy()).values())
    led = [seen for cluster in clusters for seen in cluster.partitions if seen.replica(seen.leader)]
    assert sum(row.elected for row in spread) == sum(row.preferred for row in spread) == elections
    assert sum(row.leads for row in spread) == len(led)


def test_a_broker_stands_in_its_rack(spread: list[Row]) -> None:
    told = {row.broker: row.rack for row in spread if row.cluster_id == "seed-1"}

    assert told == {1: None, **{n: f"rack-{n % 3}" for n in BROKERS}}
