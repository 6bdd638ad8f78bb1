"""What would be lost if some brokers failed now: every single broker, every rack, every pair of brokers of a cluster.

A partition goes offline when the last living member of its ISR fails. So it is asked only about the scenarios that take
all of those: its own broker, its own pair, its own rack. Where one broker holds the whole ISR, every pair with that one
is meant as well; these are not written out. They differ from the loss of the broker alone only if the second one holds
a copy too: such a pair gets the difference, one count more of what is left then, one less of what was left before.
So the rows grow with the partitions at risk, not with pairs x partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kafka_recovery.decision.conditions import ALIVE, On
from kafka_recovery.decision.guards import BROKER_GUARDS, REPLICA_GUARDS, log_dir_online
from kafka_recovery.decision.judgement import OBSERVED_ONLY
from kafka_recovery.domain.policy import Policy
from kafka_recovery_spark.columns import Seen, first_objection, true_if
from kafka_recovery_spark.copies import common_point, held, let
from kafka_recovery_spark.ranking import keys_for, rule_for


class Kind(StrEnum):
    """What fails. NOW: nothing more than has failed already."""

    NOW = "Now"
    BROKER = "Broker"
    RACK = "Rack"
    PAIR = "Pair"


class Saved(StrEnum):
    """What could be done about a partition that is offline; the best that holds.

    LOSSLESS: a living ELR member (KIP-966), or a candidate that provably holds all that the leader's log held when it
    was measured. BOUNDED: the best candidate by the rule's order lacks a known number of the leader's offsets. UNKNOWN:
    a copy is alive, but it or the leader was not measured, or may not lead as it stands, or there is or may be a remote
    tier (KIP-405), of which logs prove nothing. NONE: no copy is alive.
    """

    LOSSLESS = "lossless"
    BOUNDED = "bounded"
    UNKNOWN = "unknown"
    NONE = "none"


COUNTS = ("offline", *map(str, Saved), "lacking")
"""Of partitions, by `Saved`; `lacking`: offsets, summed over the bounded ones, which 64 bits need not hold."""

_OFFSETS = "decimal(38,0)"
_KEYS = ("kind", "rack", "one", "other", "is_own")


def hanging(evidence: DataFrame, policy: Policy) -> DataFrame:
    """How many partitions of each topic hang on what: KEYS and COUNTS by cluster and topic.

    Approvals, limits and guards about a whole partition are those of one plan, and of its time: they are left out, and
    a topic that no rule selects is looked at under a rule's defaults. Where `is_own` is false, counts are differences.
    """
    every_topic = replace(policy, rules=(*policy.rules, OBSERVED_ONLY))
    seen = Seen(policy.limits, timedelta(0))
    asked = _scenarios(_at_risk(_standing(evidence, every_topic, seen)), seen)
    return _counted(_outcome(_compared(_examined(asked, every_topic, seen)).withColumn("asked", F.explode("asked"))))


def losses(evidence: DataFrame, counts: DataFrame) -> DataFrame:
    """One row for each broker, rack and pair, also where nothing hangs on it; `counts` as `hanging` has them.

    `failing` names them for people. Of `offline`, `together` are those that the loss of both takes offline, but of
    neither alone. What is offline already, or was before, is not counted. Brokers that are down can't fail again.
    """
    brokers = _at_hand(_brokers(evidence))
    single = _at_hand(_summed([_nothing_lost(brokers, one=F.col("broker")), _of(counts, Kind.BROKER)], Kind.BROKER))
    rack = _summed([_nothing_lost(_racks(brokers), rack=F.col("rack")), _of(counts, Kind.RACK)], Kind.RACK)
    pair = _summed([_two_alone(single), _of(counts, Kind.PAIR)], Kind.PAIR)
    both = single.unionByName(pair).unionByName(rack)
    return both.select(
        "cluster_id",
        "kind",
        _named().alias("failing"),
        "rack",
        F.array_compact(F.array("one", "other")).alias("brokers"),
        *COUNTS[:1],
        "together",
        *COUNTS[1:],
    )


def offline_now(counts: DataFrame) -> DataFrame:
    """One row for each cluster and topic with partitions that are offline already: COUNTS."""
    return _of(counts, Kind.NOW).select("cluster_id", "topic", *COUNTS)


def topics(counts: DataFrame) -> DataFrame:
    """One row for each topic and kind of failure: how many of its partitions hang on one broker, rack or pair.

    A partition hangs on a pair if the loss of both takes it offline, but of neither alone. `worst` is the failure that
    takes most of the topic's partitions, `worst_offline` so many.
    """
    own = counts.where(F.col("is_own") & (F.col("kind") != F.lit(str(Kind.NOW))))
    worst = F.max_by(_named(), F.struct("offline", F.bitwise_not("one"), F.bitwise_not("other"), "rack"))
    return own.groupBy("cluster_id", "topic", "kind").agg(
        *[F.sum(name).alias(name) for name in COUNTS],
        worst.alias("worst"),
        F.max("offline").alias("worst_offline"),
    )


# One partition.


def _standing(evidence: DataFrame, policy: Policy, seen: Seen) -> DataFrame:
    """`standing`: who of the ISR is alive, and in which rack. With nobody or without leader it is offline."""
    ruled = evidence.select(
        F.col("cluster")["id"].alias("cluster_id"),
        "topic",
        "leader",
        "leader_epoch",
        "isr",
        "elr",
        "replicas",
        "cluster",
        (F.coalesce("tiered", F.col("configs_problem").isNotNull())).alias("may_be_tiered"),
        rule_for(F.col("topic"), policy.rules).alias("rule"),
    )
    in_sync = F.filter(
        "replicas", lambda replica: _surely(F.array_contains("isr", replica["broker"])) & _is_alive(replica, seen)
    )
    left = F.transform(
        in_sync, lambda replica: F.struct(replica["broker"], replica["broker_state"]["rack"].alias("rack"))
    )
    return ruled.withColumn("standing", F.when(F.col("leader").isNotNull(), left).otherwise(F.slice(left, 1, 0)))


def _at_risk(standing: DataFrame) -> DataFrame:
    """Only partitions that some scenario takes offline, or that are. `rack`: the one that holds all that is left."""
    # Bound, or Spark would work it out once more for each time that the condition names it.
    is_at_risk = let(F.col("standing"), lambda left: (F.size(left) <= 2) | _shared_rack(left).isNotNull())
    return standing.where(is_at_risk).select(
        *[name for name in standing.columns if name != "standing"],
        F.sort_array(F.transform("standing", lambda replica: replica["broker"])).alias("left"),
        _shared_rack(F.col("standing")).alias("rack"),
    )


def _shared_rack(replicas: Column) -> Column:
    """The rack that all of these are in; null if there is none."""
    first = F.get(replicas, F.lit(0))["rack"]
    return F.when(~F.exists(replicas, lambda replica: ~replica["rack"].eqNullSafe(first)), first)


def _scenarios(at_risk: DataFrame, seen: Seen) -> DataFrame:
    """`asked`: all scenarios that concern this partition, each with the brokers that fail, and how it counts."""
    left, one, other = F.col("left"), F.get("left", F.lit(0)), F.get("left", F.lit(1))
    in_rack = F.transform(
        F.filter("replicas", lambda replica: replica["broker_state"]["rack"].eqNullSafe(F.col("rack"))),
        lambda replica: replica["broker"],
    )
    own = F.array(
        F.when(F.size(left) == 0, _scenario(Kind.NOW, left)),
        F.when(F.size(left) == 1, _scenario(Kind.BROKER, left, one=one)),
        F.when(F.size(left) == 2, _scenario(Kind.PAIR, left, one=one, other=other)),
        F.when((F.size(left) > 0) & F.col("rack").isNotNull(), _scenario(Kind.RACK, in_rack, rack=F.col("rack"))),
    )

    def with_a_second(replica: Column) -> Column:
        first, last = F.least(one, replica["broker"]), F.greatest(one, replica["broker"])
        both = F.array(one, replica["broker"])
        return F.array(
            _scenario(Kind.PAIR, both, one=first, other=last, is_own=False),
            _scenario(Kind.PAIR, left, one=first, other=last, is_own=False, weight=-1),
        )

    others = F.filter("replicas", lambda replica: (replica["broker"] != one) & _is_alive(replica, seen))
    differences = F.when(F.size(left) == 1, F.flatten(F.transform(others, with_a_second)))
    everything = F.concat(F.array_compact(own), F.coalesce(differences, F.array()))
    return at_risk.select(
        *[name for name in at_risk.columns if name not in ("left", "rack")], everything.alias("asked")
    )


def _scenario(
    kind: Kind,
    failing: Column,
    *,
    rack: Column | None = None,
    one: Column | None = None,
    other: Column | None = None,
    is_own: bool = True,
    weight: int = 1,
) -> Column:
    nobody = F.lit(None).cast("int")
    return F.struct(
        F.lit(str(kind)).alias("kind"),
        (F.lit(None).cast("string") if rack is None else rack).alias("rack"),
        (nobody if one is None else one).alias("one"),
        (nobody if other is None else other).alias("other"),
        F.lit(is_own).alias("is_own"),
        failing.alias("failing"),
        F.lit(weight).alias("weight"),
    )


def _examined(asked: DataFrame, policy: Policy, seen: Seen) -> DataFrame:
    """Each copy with what it is good for. `is_sound`: its log counts as measured, whatever broker it is on."""

    def examined(replica: Column, position: Column) -> Column:
        about, log = seen.of(replica, position), replica["log"]
        is_sound = first_objection(REPLICA_GUARDS, about).isNull()
        return F.struct(
            F.struct(*keys_for(policy, about)).alias("keys"),
            replica["broker"].alias("broker"),
            log["start"].alias("start"),
            log["end"].alias("end"),
            log["epochs"].alias("epochs"),
            is_sound.alias("is_sound"),
            (is_sound & first_objection(BROKER_GUARDS, about).isNull()).alias("is_candidate"),
            (_is_alive(replica, seen) & ~true_if(log_dir_online.when, about)).alias("is_alive"),
            _surely(F.array_contains("elr", replica["broker"])).alias("is_eligible"),
        )

    return asked.select(
        "cluster_id", "topic", "leader", "may_be_tiered", "asked", F.transform("replicas", examined).alias("replicas")
    )


def _compared(examined: DataFrame) -> DataFrame:
    """Each living copy with how many of the leader's offsets it lacks; null if that can't be known."""
    leads = F.filter("replicas", lambda replica: replica["is_sound"] & (replica["broker"] == F.col("leader")))
    led = examined.select("*", F.get(leads, F.lit(0)).alias("led"))
    log = F.col("led")

    def compared(replica: Column) -> Column:
        lacking = let(
            common_point(replica, log),
            lambda common: F.when(common.isNotNull(), log["end"] - log["start"] - held(replica, log, common)),
        )
        return F.struct(
            replica["keys"],
            replica["broker"],
            replica["is_candidate"],
            replica["is_eligible"],
            F.when(replica["is_candidate"], lacking).alias("lacking"),
        )

    alive = F.filter("replicas", lambda replica: replica["is_alive"])
    return led.select("cluster_id", "topic", "may_be_tiered", "asked", F.transform(alive, compared).alias("copies"))


def _outcome(asked: DataFrame) -> DataFrame:
    """What could be done if this scenario came true, as `saved`, and what the best candidate would lack."""
    failing = F.col("asked")["failing"]
    left = F.filter("copies", lambda copy: ~F.array_contains(failing, copy["broker"]))
    weighed = asked.select("cluster_id", "topic", "may_be_tiered", "asked", left.alias("copies"))
    best = F.array_min(F.filter("copies", lambda copy: copy["is_candidate"]))
    has_everything = F.exists("copies", lambda copy: copy["is_eligible"] | _surely(copy["lacking"] == 0))
    return weighed.select(
        "cluster_id",
        "topic",
        *[F.col("asked")[name].alias(name) for name in (*_KEYS, "weight")],
        F.when(F.size("copies") == 0, F.lit(str(Saved.NONE)))
        .when(F.col("may_be_tiered"), F.lit(str(Saved.UNKNOWN)))
        .when(has_everything, F.lit(str(Saved.LOSSLESS)))
        .when(best["lacking"].isNotNull(), F.lit(str(Saved.BOUNDED)))
        .otherwise(F.lit(str(Saved.UNKNOWN)))
        .alias("saved"),
        best["lacking"].cast(_OFFSETS).alias("lacking"),
    )


def _is_alive(replica: Column, seen: Seen) -> Column:
    return true_if(On(ALIVE), seen.of(replica))


def _surely(column: Column) -> Column:
    return F.coalesce(column, F.lit(False))


# Counting them.


def _counted(outcomes: DataFrame) -> DataFrame:
    is_bounded = F.col("saved") == F.lit(str(Saved.BOUNDED))
    by_class = [
        F.sum(F.when(F.col("saved") == F.lit(str(saved)), F.col("weight")).otherwise(0)).alias(str(saved))
        for saved in Saved
    ]
    lacking = F.sum(F.when(is_bounded, F.col("lacking") * F.col("weight")).otherwise(0)).cast(_OFFSETS)
    return outcomes.groupBy("cluster_id", "topic", *_KEYS).agg(
        F.sum("weight").alias("offline"), *by_class, lacking.alias("lacking")
    )


def _of(counts: DataFrame, kind: Kind) -> DataFrame:
    together = F.when(F.col("is_own"), F.col("offline")).otherwise(0) if kind is Kind.PAIR else F.lit(0)
    return counts.where(F.col("kind") == F.lit(str(kind))).withColumn("together", together.cast("bigint"))


def _brokers(evidence: DataFrame) -> DataFrame:
    """Each living broker that holds a copy, and its rack."""
    state = F.col("replica")["broker_state"]
    each = evidence.select(F.col("cluster")["id"].alias("cluster_id"), F.explode("replicas").alias("replica"))
    alive = each.where(F.coalesce(state["registered"] & ~state["fenced"], F.lit(False)))
    return alive.groupBy("cluster_id", F.col("replica")["broker"].alias("broker")).agg(
        F.max(state["rack"]).alias("rack")
    )


def _at_hand(small: DataFrame) -> DataFrame:
    """The same, worked out now and once: a row for each broker of the fleet."""
    return small.sparkSession.createDataFrame(small.toArrow())


def _racks(brokers: DataFrame) -> DataFrame:
    return brokers.where(F.col("rack").isNotNull()).select("cluster_id", "rack").distinct()


def _nothing_lost(places: DataFrame, *, rack: Column | None = None, one: Column | None = None) -> DataFrame:
    """A row of zeros for each of these places."""
    nobody = F.lit(None).cast("int")
    return places.select(
        "cluster_id",
        (F.lit(None).cast("string") if rack is None else rack).alias("rack"),
        (nobody if one is None else one).alias("one"),
        nobody.alias("other"),
        *[F.lit(0).cast(_OFFSETS if name == "lacking" else "bigint").alias(name) for name in (*COUNTS, "together")],
    )


def _two_alone(single: DataFrame) -> DataFrame:
    """What the loss of each of two brokers takes offline by itself, summed."""
    first, second = single.alias("first"), single.alias("second")
    same_cluster = F.col("first.cluster_id") == F.col("second.cluster_id")
    return first.join(second, same_cluster & (F.col("first.one") < F.col("second.one"))).select(
        "first.cluster_id",
        "first.rack",
        "first.one",
        F.col("second.one").alias("other"),
        *[(F.col(f"first.{name}") + F.col(f"second.{name}")).alias(name) for name in (*COUNTS, "together")],
    )


def _summed(parts: Sequence[DataFrame], kind: Kind) -> DataFrame:
    columns = ("cluster_id", "rack", "one", "other", *COUNTS, "together")
    everything = reduce(DataFrame.unionByName, [part.select(*columns) for part in parts])
    return everything.groupBy("cluster_id", "rack", "one", "other").agg(
        F.lit(str(kind)).alias("kind"),
        *[F.sum(name).cast(_OFFSETS if name == "lacking" else "bigint").alias(name) for name in (*COUNTS, "together")],
    )


def _named() -> Column:
    """What fails, for people."""
    return (
        F.when(F.col("rack").isNotNull(), F.concat(F.lit("rack "), "rack"))
        .when(F.col("other").isNotNull(), F.concat(F.lit("brokers "), "one", F.lit(" and "), "other"))
        .otherwise(F.concat(F.lit("broker "), "one"))
    )
