"""A fleet's ranking: the verdict on every partition, its candidates best first, who may not lead and why, and the loss.

It says what `decision.planner.decide` says of each partition, from its row alone: nothing is shuffled, no Python runs
in the executors. What belongs to one cluster's plan is left to the plan: limits on partitions and loss, waves,
approvals, and which of several equals leads.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kafka_recovery.decision.guards import BROKER_GUARDS, REPLICA_GUARDS
from kafka_recovery.decision.judgement import OBSERVED_ONLY
from kafka_recovery.decision.order import BY_LOGS
from kafka_recovery.decision.refusals import CLUSTER_GUARDS, PARTITION_GUARDS, RETURN_GUARDS
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Verdict
from kafka_recovery.domain.policy import CandidateOrder, Policy, Rule, TopicSelector
from kafka_recovery_spark.columns import Seen, every, first_objection, literal, sort_keys
from kafka_recovery_spark.copies import common_point, first_lacking, held, interchangeable, let, records_lacking

NO_WAIT = timedelta(0)


def ranking(evidence: DataFrame, policy: Policy, waited: timedelta = NO_WAIT) -> DataFrame:
    """One row a partition, in no order.

    `chosen` is the first of `equals`; whichever of them leads, `log_end`, `at_least` and `lacks` are the same.
    `at_most` is null and `loss_class` at best Unknown: an ISR history is proof for the plan, and is not read here. So
    an order by what is proven ranks as where nothing is; a plan that knows a history does not take this choice.
    """
    seen = Seen(policy.limits, waited)
    judged = _judged(_placed(_ruled(evidence, policy), seen), seen)
    return _told(_sorted(_compared(_best(_examined(judged, policy, seen)))))


def _ruled(evidence: DataFrame, policy: Policy) -> DataFrame:
    """The rows, each with the rule that its topic falls under, or null."""
    return evidence.select(
        F.col("cluster")["id"].alias("cluster_id"),
        "topic",
        "topic_id",
        "partition",
        "leader",
        "leader_epoch",
        "isr",
        "elr",
        "last_known_elr",
        "reassignment",
        "reassignment_known",
        "witnessed_ends",
        "replicas",
        "cluster",
        rule_for(F.col("topic"), policy.rules).alias("rule"),
    )


def _placed(ruled: DataFrame, seen: Seen) -> DataFrame:
    """Whether anything is to be done at all, and the obstacle to any election in this cluster, if there is one."""
    is_led, is_observed_only = F.col("leader").isNotNull(), F.col("rule").isNull()
    return ruled.select(
        *_but(ruled),
        is_led.alias("is_led"),
        is_observed_only.alias("is_observed_only"),
        F.when(~is_led & ~is_observed_only, first_objection(RETURN_GUARDS, seen)).alias("returning"),
        _only_leader().alias("only_leader"),
        first_objection(CLUSTER_GUARDS, seen).alias("obstacle"),
    )


def _only_leader() -> Column:
    """Whom the assignment elects as it stands, where Kafka takes no other order; nobody: -1. Null: any may be set.

    See `decision.present_order`: an assignment that names an unregistered broker can't be altered.
    """
    names_absent = ~F.coalesce(F.col("cluster")["release"].startswith("3"), F.lit(False))
    members = F.concat("isr", F.coalesce("elr", F.array()))

    def is_unregistered(replica: Column) -> Column:
        state = replica["broker_state"]
        return F.when(state.isNull(), names_absent).otherwise(F.coalesce(~state["registered"], F.lit(False)))

    def can_be_elected(replica: Column) -> Column:
        state = replica["broker_state"]
        is_away = state.isNull() | state["fenced"]
        return ~is_unregistered(replica) & ~(is_away & F.array_contains(members, replica["broker"]))

    first = F.get(F.filter("replicas", can_be_elected), F.lit(0))["broker"]
    is_fixed = ~F.col("cluster")["designated_elections"] & F.exists("replicas", is_unregistered)
    return F.when(is_fixed, F.coalesce(first, F.lit(-1)))


def _judged(placed: DataFrame, seen: Seen) -> DataFrame:
    """The code of whatever stands against an election, as `objection`; `is_weighed`: its replicas are looked at."""
    waits = F.col("returning").isNotNull()
    is_left_alone = F.col("is_led") | F.col("is_observed_only") | waits
    return placed.select(
        "cluster_id",
        "topic",
        "topic_id",
        "partition",
        "leader_epoch",
        "rule",
        "replicas",
        "witnessed_ends",
        "only_leader",
        "is_led",
        waits.alias("waits"),
        F.when(F.col("is_led"), F.lit(None).cast("string"))
        .when(F.col("is_observed_only"), F.lit("NoRule"))
        .when(waits, F.col("returning"))
        .otherwise(F.coalesce("obstacle", first_objection(PARTITION_GUARDS, seen)))
        .alias("objection"),
        (~is_left_alone & F.col("obstacle").isNull()).alias("is_weighed"),
    )


def _examined(judged: DataFrame, policy: Policy, seen: Seen) -> DataFrame:
    """Each replica with the code of the first guard that it fails, or with the numbers it is sorted by."""

    def examined(replica: Column, position: Column) -> Column:
        log = replica["log"]
        about = seen.of(replica, position)
        return F.struct(
            F.struct(*keys_for(policy, about)).alias("keys"),
            replica["broker"].alias("broker"),
            log["start"].alias("start"),
            log["end"].alias("end"),
            log["epochs"].alias("epochs"),
            log["local_start"].alias("local_start"),
            log["almost_full"].alias("almost_full"),
            first_objection((*BROKER_GUARDS, *REPLICA_GUARDS), about).alias("code"),
        )

    return judged.select(
        *_but(judged, "replicas", "is_weighed"),
        F.when(F.col("is_weighed"), F.transform("replicas", examined)).alias("replicas"),
    )


def _best(examined: DataFrame) -> DataFrame:
    """`best`: the first of those who passed every guard; null where the partition as a whole is refused."""
    best = F.array_min(F.filter("replicas", _passed))
    return examined.select(*_but(examined), F.when(F.col("objection").isNull(), best).alias("best"))


def _compared(with_best: DataFrame) -> DataFrame:
    """Each replica with what its log and the best one have in common."""
    best = F.col("best")

    def compared(replica: Column, common: Column) -> Column:
        is_equal = (replica["broker"] == best["broker"]) | interchangeable(best, replica, common)
        return F.struct(
            replica["keys"],
            replica["broker"],
            is_equal.alias("is_equal"),
            replica["start"],
            replica["end"],
            replica["code"],
            common.alias("common"),
            held(best, replica, common).alias("held"),
        )

    each = F.transform(
        "replicas",
        lambda replica: let(common_point(best, replica), lambda common: compared(replica, common)),
    )
    return with_best.select(*_but(with_best, "replicas"), each.alias("replicas"))


def _sorted(compared: DataFrame) -> DataFrame:
    """`ranked`: those who passed, best first. The keys stand first, and no two have the same."""
    passed = F.transform(
        F.filter("replicas", _passed),
        lambda replica: F.struct(replica["keys"], replica["broker"], replica["is_equal"]),
    )
    ranked = F.when(F.col("best").isNotNull(), F.sort_array(passed))
    return compared.select(*_but(compared), ranked.alias("ranked"))


def _passed(replica: Column) -> Column:
    return replica["code"].isNull()


def _told(compared: DataFrame) -> DataFrame:
    """The result, column by column."""
    best, ranked, only = F.col("best"), F.col("ranked"), F.col("only_leader")
    brokers = F.transform(ranked, lambda replica: replica["broker"])
    first_other = F.array_position(F.transform(ranked, lambda replica: replica["is_equal"]), False)
    among = F.when(first_other == 0, brokers).otherwise(F.slice(brokers, 1, first_other.cast("int") - 1))
    stuck = F.coalesce(best.isNotNull() & only.isNotNull() & ~F.array_contains("among", only), F.lit(False))
    # Columns of their own: what so many others ask for would be worked out anew for each of them.
    compared = compared.withColumn("among", among).withColumn("is_stuck", stuck)
    equals, is_stuck = F.col("among"), F.col("is_stuck")
    is_elected = best.isNotNull() & ~is_stuck
    is_refused = ~is_elected & ~F.col("is_led") & ~F.col("waits")
    rejected = F.filter("replicas", lambda replica: replica["code"].isNotNull())
    others = F.filter("replicas", lambda replica: replica["broker"] != best["broker"])
    lacking = F.transform(
        F.filter(others, lambda replica: records_lacking(replica) > 0),
        lambda replica: F.struct(
            replica["broker"],
            first_lacking(best, replica).alias("from_offset"),
            records_lacking(replica).alias("records"),
        ),
    )
    seen_beyond = F.array_max(F.transform("witnessed_ends", lambda seen: seen["end"])) - best["end"]
    why_not = F.transform(rejected, lambda replica: F.struct(replica["broker"], replica["code"]))
    return compared.select(
        "cluster_id",
        "topic",
        "topic_id",
        "partition",
        "leader_epoch",
        F.coalesce(F.col("rule")["name"], F.lit(OBSERVED_ONLY.name)).alias("rule"),
        F.when(F.col("is_led"), F.lit(str(Verdict.NOTHING)))
        .when(F.col("waits"), F.lit(str(Verdict.WAIT)))
        .when(is_elected, F.lit(str(Verdict.ELECT)))
        .otherwise(F.lit(str(Verdict.REFUSE)))
        .alias("verdict"),
        F.coalesce(
            "objection", F.when(is_stuck, F.lit("OrderCannotBeSet")), F.when(is_refused, F.lit("NoCandidate"))
        ).alias("reason"),
        F.when(is_elected, F.coalesce(only, best["broker"])).alias("chosen"),
        _or_none(brokers).alias("best_first"),
        _or_none(equals).alias("equals"),
        _or_none(why_not).alias("rejections"),
        F.when(is_elected, best["end"]).alias("log_end"),
        F.when(is_elected, F.lit(str(LossClass.UNKNOWN))).alias("loss_class"),
        F.when(is_elected, F.greatest(F.lit(0).cast("bigint"), seen_beyond)).alias("at_least"),
        F.lit(None).cast("bigint").alias("at_most"),
        _or_none(F.when(is_elected, lacking)).alias("lacks"),
    )


def _or_none(array: Column) -> Column:
    """An empty list instead of null."""
    return F.coalesce(array, F.array())


def _but(frame: DataFrame, *dropped: str) -> list[str]:
    return [name for name in frame.columns if name not in dropped]


# The policy.


def rule_for(topic: Column, rules: Sequence[Rule]) -> Column:
    """The first rule that selects the topic, as a struct; null if none does."""
    found = F.when(F.lit(False), _as_struct(OBSERVED_ONLY))
    for rule in rules:
        found = found.when(_selects(rule.topics, topic), _as_struct(rule))
    return found


def _as_struct(rule: Rule) -> Column:
    """What guards and orders look at, each under the last name of its path."""
    evidence = rule.evidence
    looked_at = {
        "name": rule.name,
        "min_replication_factor": rule.min_replication_factor,
        "candidate_order": rule.candidate_order,
        "patience": rule.patience,
        "required_answers": evidence.required_answers,
        "max_age": evidence.max_age,
    }
    return F.struct(*[literal(value).alias(name) for name, value in looked_at.items()])


def _selects(topics: TopicSelector, topic: Column) -> Column:
    if not topics.names and not topics.prefixes:
        return F.lit(True)
    named = [topic.isin(*topics.names)] if topics.names else []
    return ~every(~ways for ways in (*named, *map(topic.startswith, topics.prefixes)))


def keys_for(policy: Policy, about: Seen) -> list[Column]:
    """The keys of the rule's order; where all rules have the same one, of that one."""
    orders = sorted({rule.candidate_order for rule in policy.rules}) or [CandidateOrder.LEAST_LOSS]
    first, *rest = [sort_keys(BY_LOGS[order], about) for order in orders]
    keys = first
    for order, others in zip(orders[1:], rest, strict=True):
        chosen = F.col("rule")["candidate_order"] == F.lit(str(order))
        keys = [F.when(chosen, other).otherwise(key) for key, other in zip(keys, others, strict=True)]
    return [key.alias(f"key_{place}") for place, key in enumerate(keys)]
