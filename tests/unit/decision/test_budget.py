"""The loss budget: how much automatic elections may cost before a person is asked."""

from __future__ import annotations

from dataclasses import replace

from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.ids import BrokerId, TopicId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, Limits, Policy, Rule, TopicSelector
from unit.decision.incident import evidence, history, log, partition, step

IN_SYNC = history(step(1, 2, 3), step(1, 2), step(1), intact=[2, 3])
"""Broker 2 left the ISR last, and is intact: what the chosen one lacks of it bounds its loss."""


def ids(*topics: str) -> list[TopicPartition]:
    return [TopicPartition(topic, 0) for topic in topics]


def planned(lacks: dict[str, int], budget: int | None, approval: Approval = Approval.AUTO, *first: str) -> Plan:
    """A plan that elects broker 3 for every topic, whose log lacks so many records of the intact broker 2's."""
    seen = evidence(
        *[
            partition(
                {1: None, 2: log(27), 3: log(27 - lack)},
                id=TopicPartition(topic, 0),
                history=replace(IN_SYNC, topic_id=TopicId(f"id-of-{topic}")),
            )
            for topic, lack in lacks.items()
        ]
    )
    rules = (*[Rule(t, TopicSelector((t,)), tier=1, approval=approval) for t in first], Rule("rest", approval=approval))
    everything = ids(*lacks)
    return decide(
        seen,
        Policy(rules, Limits(loss_budget_records=budget)),
        designated=dict.fromkeys(everything, BrokerId(3)),
    )


def asked(plan: Plan) -> list[str]:
    return [decision.id.topic for decision in plan.decisions if decision.needs_approval]


def test_what_does_not_fit_asks_a_person_and_says_why() -> None:
    plan = planned({"a": 12, "b": 9}, 20)
    fits, too_much = plan.decisions

    assert fits.loss is not None
    assert (fits.loss.loss_class, fits.loss.at_most, fits.warnings) == (LossClass.BOUNDED, 12, ())
    assert (fits.approval, too_much.approval) == (Approval.AUTO, Approval.MANUAL)
    assert too_much.warnings == (
        "it may lose 9 acknowledged records, and 8 are left (limits.lossBudgetRecords is 20): "
        "a person has to approve it",
    )


def test_what_is_too_large_leaves_the_rest_to_those_behind() -> None:
    assert asked(planned({"a": 21, "b": 8}, 20)) == ["a"]


def test_urgent_partitions_use_the_budget_first() -> None:
    assert asked(planned({"a": 12, "pay": 12}, 20, Approval.AUTO, "pay")) == ["a"]


def test_a_budget_of_nothing_lets_lossless_elections_pass() -> None:
    plan = planned({"a": 0, "b": 1}, 0)

    assert asked(plan) == ["b"]
    assert plan.decisions[0].loss is not None
    assert plan.decisions[0].loss.loss_class is LossClass.LOSSLESS


def test_what_a_person_approves_anyway_uses_none_of_it() -> None:
    assert [d.warnings for d in planned({"a": 12, "b": 12}, 0, Approval.MANUAL).decisions] == [(), ()]
    assert asked(planned({"a": 12, "b": 0}, 0, Approval.AUTO_LOSSLESS)) == ["a"]


def test_an_unproven_election_fits_no_budget() -> None:
    seen = evidence(partition({1: None, 2: log(27), 3: log(27)}))
    policy = Policy((Rule("all", approval=Approval.AUTO),), Limits(loss_budget_records=10**9))
    (decision,) = decide(seen, policy).decisions

    assert decision.needs_approval
    assert decision.warnings[-1].startswith("no proof bounds what this election loses, so it fits no budget")
