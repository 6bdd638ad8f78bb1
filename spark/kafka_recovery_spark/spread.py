"""Who leads how much after a fleet's elections: leaders spread among equals, per broker and rack.

Partitions are counted by the set of their equal candidates, and only these counts are shuffled: a few thousand a
cluster, however many partitions it has. They are levelled by `decision.spread`, as in a plan, one cluster at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from kafka_recovery.decision.spread import TieSet, level, no_load
from kafka_recovery.domain.ids import BrokerId

LEADERS = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("broker", pa.int32()),
        ("rack", pa.string()),
        ("leads", pa.int64()),
        ("elected", pa.int64()),
        ("preferred", pa.int64()),
    ]
)
"""`leads`: of partitions that have a leader now. `elected`: as spread among equals. `preferred`: if the first of the
equals in assignment order were elected each time, as it would be without spreading."""


def leaders(evidence: DataFrame, ranked: DataFrame) -> DataFrame:
    """One row a broker, see LEADERS: what it leads now, and what it is to lead in addition.

    Levelling is done in the driver: it begins at once, and holds one cluster's counts at a time.
    """
    counts = _tie_sets(ranked).unionByName(_brokers(evidence), allowMissingColumns=True)
    names = ("ties", "chosen", "partitions", "broker", "rack", "leads")
    clusters = counts.groupBy("cluster_id").agg(F.collect_list(F.struct(*names)).alias("counts"))
    levelled = [row for cluster in clusters.toLocalIterator() for row in _levelled(cluster.cluster_id, cluster.counts)]
    # As Arrow's table: of a list Spark would make rows in Python processes of its own.
    return evidence.sparkSession.createDataFrame(pa.Table.from_pylist(levelled, schema=LEADERS))


def _tie_sets(ranked: DataFrame) -> DataFrame:
    """How many partitions have the same equal candidates, and of whom a ranking would choose first; null: of nobody.

    Who is not elected is left out by `_levelled`: a condition on the ranking here would be moved below the ranking's
    steps by Spark, and each step written out in it as often as the next one names it.
    """
    return (
        ranked.groupBy("cluster_id", F.sort_array("equals").alias("ties"), "chosen")
        .agg(F.count("*").alias("partitions"))
    )  # fmt: skip


def _brokers(evidence: DataFrame) -> DataFrame:
    """Each broker that holds a replica, with its rack and how many partitions it leads."""
    each = evidence.select(
        F.col("cluster")["id"].alias("cluster_id"), "leader", F.explode("replicas").alias("replica")
    ).select(
        "cluster_id",
        F.col("replica")["broker"].alias("broker"),
        F.col("replica")["broker_state"]["rack"].alias("rack"),
        F.coalesce(F.col("leader") == F.col("replica")["broker"], F.lit(False)).alias("is_leader"),
    )
    return each.groupBy("cluster_id", "broker").agg(F.max("rack").alias("rack"), F.count_if("is_leader").alias("leads"))


def _levelled(cluster: str, counts: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """One cluster's brokers, as rows of LEADERS."""
    brokers = {BrokerId(row.broker): row for row in counts if row.ties is None}
    ties: Counter[TieSet] = Counter()
    preferred: Counter[BrokerId] = Counter()
    for row in counts:
        if row.chosen is not None:
            ties[tuple(map(BrokerId, row.ties))] += row.partitions
            preferred[BrokerId(row.chosen)] += row.partitions
    loads = no_load({id: row.rack for id, row in brokers.items()})
    level(ties, loads)
    for id, row in sorted(brokers.items()):
        numbers = (row.leads, loads.by_broker[id], preferred[id])
        yield dict(zip(LEADERS.names, (cluster, id, row.rack, *numbers), strict=True))
