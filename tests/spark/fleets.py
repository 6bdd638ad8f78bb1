"""Random clusters as a fleet's rows, and what each engine says about them in the same words.

Two kinds: what the property tests of the decision think up, and incidents like those of life, in which copies are
mostly equal, or nearly.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any
from uuid import uuid4

import hypothesis
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import ClusterState, Evidence
from kafka_recovery.domain.plan import Decision, Verdict
from kafka_recovery.domain.policy import Policy
from kafka_recovery.fleet.rows import rows
from kafka_recovery.fleet.schema import SCHEMA
from kafka_recovery_spark.evidence import READ
from kafka_recovery_spark.ranking import ranking
from property.evidence import evidence
from spark.incidents import far, incidents, without_replicas

Answer = dict[str, Any]
Fleet = tuple[Evidence, ...]

SEED = int(os.environ.get("SEED", "20261121"))
"""Of every random fleet here; another one draws others. What fails says under which it did."""

near = evidence
thought_up = st.one_of(near, near, near.map(far), near.map(without_replicas))


@cache
def fleet(seed: int, random: int = 60, lifelike: int = 300) -> Fleet:
    """So many clusters, the same ones for the same seed. One job ranks them all: a job each would take hours."""
    found: list[Evidence] = [*incidents(seed, lifelike)]

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=random, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @hypothesis.given(thought_up)
    def collect(seen: Evidence) -> None:
        found.append(seen)

    collect()
    return tuple(replace(one, cluster=replace(one.cluster, cluster_id=f"c{n}")) for n, one in enumerate(found))


def frame(spark: SparkSession, clusters: Iterable[Evidence]) -> DataFrame:
    """The rows of evidence files, read from one: what stands in memory, Spark would rank while it plans."""
    everything = pa.Table.from_pylist(list(chain.from_iterable(map(rows, clusters))), schema=SCHEMA)
    place = Path(str(spark.conf.get("spark.sql.warehouse.dir")).removeprefix("file:"), f"{uuid4()}.parquet")
    place.parent.mkdir(exist_ok=True)
    pq.write_table(everything, place)
    return spark.read.schema(READ).parquet(str(place))


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""For a handful of rows: to compile a plan takes longer than to go through it."""

JAVA_OF_A_TEST = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For so short a life the second compiler and more threads of the collector do not pay."""

UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""For a Java in which every plan is interpreted: all of its classes are from Spark's archive, which pip has checked.
Where plans are compiled, Java has to verify what Spark makes of our guards, and can't tell that from the rest.
"""

COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""Spark's own defaults, and so the job's."""


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Plans as the job has them: Java code, made for each."""
    for key, value in COMPILED.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in INTERPRETED.items():
            spark.conf.set(key, value)


def by_python(fleet: Fleet, policy: Policy, **how: Any) -> dict[Any, Answer]:
    """One decision after the other. Which of several equals leads is a plan's matter."""
    unlimited = replace(policy, limits=replace(policy.limits, partitions=1_000_000, loss_budget_records=None))
    answers = {}
    for seen in fleet:
        for decision in decide(seen, unlimited, **how).decisions:
            answers[seen.cluster.cluster_id, *decision.id] = _told(decision, seen.cluster)
    return answers


def by_spark(rows: DataFrame, policy: Policy, **how: Any) -> dict[Any, Answer]:
    """One job for all."""
    answers = {}
    for row in ranking(rows, policy, **how).collect():
        told = row.asDict(recursive=True)
        told.pop("leader_epoch")
        answers[told.pop("cluster_id"), told.pop("topic"), told.pop("partition")] = told
    return answers


def _told(decision: Decision, cluster: ClusterState) -> Answer:
    loss = decision.loss
    free = cluster.designated_elections or not _names_unregistered(decision, cluster)
    return {
        "topic_id": decision.topic_id,
        "rule": decision.rule,
        "verdict": str(decision.verdict),
        "reason": decision.reason and decision.reason.code,
        "chosen": None if decision.verdict is not Verdict.ELECT else decision.ranking[0] if free else decision.leader,
        "best_first": list(decision.ranking),
        "equals": list(decision.equals),
        "rejections": [{"broker": each.broker, "code": each.reason.code} for each in decision.rejections],
        "log_end": decision.log_end,
        "loss_class": loss and str(loss.loss_class),
        "at_least": loss and loss.at_least,
        "at_most": loss and loss.at_most,
        "lacks": [
            {"broker": lack.broker, "from_offset": lack.from_offset, "records": lack.records}
            for lack in (loss.lacks if loss else ())
        ],
    }


def _names_unregistered(decision: Decision, cluster: ClusterState) -> bool:
    """Whether Kafka takes no other order of this assignment."""
    known = {broker.id: broker.registered for broker in cluster.brokers}
    lists_all = not (cluster.release or "").startswith("3")
    return any((known[id] is False) if id in known else lists_all for id in decision.assignment)
