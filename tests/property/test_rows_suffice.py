"""A row alone leads to the decision that the whole evidence leads to: an engine that reads rows misses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import given

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import Broker, ClusterState, Evidence
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Policy
from kafka_recovery.fleet.rows import Row, partition, rows
from property.evidence import evidence, policies

NAMELESS = 1000
"""Ids from here on stand for brokers that a row only counts."""


def a_broker(id: int, **known: Any) -> Broker:
    """One that is alive and silent, but for what is known of it."""
    silent: dict[str, Any] = {"rack": None, "registered": True, "fenced": False, "stopping": None, "reachable": False}
    unsaid: dict[str, Any] = {"host": None, "port": None, "metadata_offset": None, "metadata_advances": None}
    return Broker(BrokerId(id), **(silent | unsaid | known))


def brokers(row: Row) -> Iterator[Broker]:
    """The brokers of the replicas by their states, and others until all counts are right."""
    cluster = row["cluster"]
    named = {r["broker"]: a_broker(r["broker"], **r["broker_state"]) for r in row["replicas"] if r["broker_state"]}
    yield from named.values()
    others = cluster["brokers_known"] - len(named)
    down = cluster["brokers_down"] - sum(broker.fenced or not broker.registered for broker in named.values())
    view = [cluster["view_from"]] if cluster["view_from"] not in named else []
    ids = [*view, *range(NAMELESS, NAMELESS + others)][:others]
    for place, id in enumerate(ids):
        advances = cluster["view_advances"] if id in view else cluster["controller_present"]
        yield a_broker(id, fenced=place < down, reachable=advances is not None, metadata_advances=advances)


def alone(row: Row, whole: ClusterState) -> Evidence:
    """The evidence that one row amounts to."""
    said = row["cluster"]
    cluster = replace(
        whole,
        cluster_id=said["id"],
        release=said["release"],
        features=(),
        elr_enabled=said["elr_enabled"],
        view_from=said["view_from"],
        brokers=tuple(brokers(row)),
        observed_at=said["observed_at"],
    )
    return Evidence(cluster, (partition(row),))


def essence(plan: Plan) -> Any:
    """The decision without its sentences, which may name brokers that a row only counts."""
    (decision,) = plan.decisions
    rejections = tuple((rejection.broker, rejection.reason.code) for rejection in decision.rejections)
    loss = decision.loss and (decision.loss.loss_class, decision.loss.at_least, decision.loss.lacks)
    reason = decision.reason and decision.reason.code
    return (
        decision.verdict,
        decision.leader,
        decision.order,
        decision.ranking,
        decision.equals,
        rejections,
        reason,
        loss,
    )


@given(evidence, policies)
def test_a_row_alone_leads_to_the_same_decision(seen: Evidence, policy: Policy) -> None:
    for row, one in zip(rows(seen), seen.partitions, strict=True):
        whole = decide(replace(seen, partitions=(one,)), policy)

        assert essence(decide(alone(row, seen.cluster), policy)) == essence(whole)
