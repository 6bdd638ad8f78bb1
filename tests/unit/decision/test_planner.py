"""The plan as a whole: what a person may impose, and that it depends on nothing but its inputs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.history import MOST_STEPS
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import BrokerLoss, Plan, Verdict
from kafka_recovery.formats.documents import InvalidDocument, canonical, digest, read
from unit.decision.incident import (
    ORDERS,
    broker,
    code,
    dead,
    decided,
    evidence,
    history,
    log,
    partition,
    policy,
    step,
)

COPIES = {1: None, 2: log(27), 3: log(15)}


def test_a_person_may_name_a_worse_leader() -> None:
    decision = decided(evidence(partition(COPIES)), designated={ORDERS: BrokerId(3)})

    assert (decision.leader, decision.order, decision.log_end) == (3, (3, 2, 1), 15)
    assert (decision.ranking, decision.equals) == ((2, 3), (2,))
    assert decision.loss is not None
    assert decision.loss.lacks[0].records == 12


def test_a_named_leader_must_pass_every_guard() -> None:
    decision = decided(evidence(partition(COPIES)), designated={ORDERS: BrokerId(1)})

    assert (decision.verdict, code(decision), decision.leader) == (Verdict.REFUSE, "DesignatedLeaderRejected", None)
    assert "may not lead: Fenced: broker 1 is fenced" in str(decision.reason)


def test_a_named_leader_is_told_why_even_if_nobody_may_lead() -> None:
    brokers = (dead(1), broker(2, fenced=True), dead(3))
    decision = decided(evidence(partition(COPIES), brokers=brokers), designated={ORDERS: BrokerId(2)})
    assert code(decision) == "DesignatedLeaderRejected"


def test_a_named_leader_must_be_a_replica() -> None:
    decision = decided(evidence(partition(COPIES)), designated={ORDERS: BrokerId(9)})

    assert code(decision) == "DesignatedLeaderRejected"
    assert "those are 1, 2, 3" in str(decision.reason)


def test_where_no_replica_may_be_elected_a_named_leader_is_not_what_is_to_blame() -> None:
    silent_but_alive = {1: None, 2: log(27), 3: None}
    decision = decided(evidence(partition(silent_but_alive)), designated={ORDERS: BrokerId(2)})

    assert (decision.verdict, code(decision)) == (Verdict.REFUSE, "LiveReplicaUnmeasured")


def test_a_name_for_another_partition_changes_nothing() -> None:
    assert decided(evidence(partition(COPIES)), designated={TopicPartition("orders", 1): BrokerId(3)}).leader == 2


def test_the_plan_does_not_depend_on_who_answered_first() -> None:
    seen = evidence(*[partition(COPIES, id=TopicPartition("orders", n)) for n in range(5)])
    other = replace(
        seen,
        partitions=seen.partitions[::-1],
        cluster=replace(seen.cluster, brokers=seen.cluster.brokers[::-1]),
    )

    assert digest(decide(seen, policy())) == digest(decide(other, policy()))


def test_what_is_known_of_the_past_is_a_part_of_the_plan_and_of_its_digest() -> None:
    known = history(step(1, 2, 3), step(1, 3), step(1), intact=[3])
    lossless, unknown = (decide(evidence(partition(COPIES, history=h)), policy()) for h in (known, None))

    assert lossless.evidence.partitions[0].history == known
    assert digest(lossless) != digest(unknown)
    assert read(Plan, canonical(lossless), "plan") == lossless


def test_a_plan_with_a_history_without_end_is_not_read() -> None:
    plan = decide(evidence(partition(COPIES, history=history(step(1, 2, 3)))), policy())
    (steps,) = re.findall(rb'"steps":\[(\{.*?\})\]', canonical(plan))
    endless = canonical(plan).replace(steps, b",".join([steps] * (MOST_STEPS + 1)))

    with pytest.raises(InvalidDocument, match=r"history: .*at most 100 steps"):
        read(Plan, endless, "plan")


def test_where_an_election_names_its_leader_no_order_is_altered() -> None:
    """KIP-1275."""
    best_last = partition({1: None, 3: log(15), 2: log(27)})
    by_order = decided(evidence(best_last))
    by_request = decided(evidence(best_last, designated_elections=True))

    assert by_order.leader == by_request.leader == 2
    assert (by_order.order[0], by_request.order) == (2, by_request.assignment)


def test_a_plan_says_what_each_broker_may_lose() -> None:
    """Twelve records of broker 2 in each partition; what the dead one holds nobody knows."""
    second = partition(COPIES, id=TopicPartition("payments", 0))
    led = partition(COPIES, id=TopicPartition("quiet", 0), leader=3)
    seen = evidence(partition(COPIES), second, led)
    plan = decide(seen, policy(), designated={ORDERS: BrokerId(3), second.id: BrokerId(3)})

    assert plan.may_lose == (BrokerLoss(BrokerId(1), 0, 0, 2), BrokerLoss(BrokerId(2), 2, 24, 0))
    assert [decision.loss and decision.loss.unmeasured for decision in plan.decisions] == [(1,), (1,), None]
