"""What a plan may take from each broker: at most so much, or unknown; never false, never silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_recovery.decision.bad_leaders import longer_but_older
from kafka_recovery.decision.costs import BrokerCost, costs, in_a_line
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.returns import before_consent
from kafka_recovery.domain.evidence import Replica, ReplicaLog, WitnessedEnd
from kafka_recovery.domain.ids import BrokerId, Offset, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Loss, Plan
from kafka_recovery.domain.policy import CandidateOrder, EvidenceRules, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import evidence, log, partition

ANY = Policy((Rule("any", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))
DEAD = Replica(BrokerId(1), None, Reason("BrokerUnreachable", "connection refused"))
LONGER = {1: DEAD, 2: log(27), 3: log(15, (0, 0))}
DIVERGED = {1: DEAD, 2: log(20, (0, 0), (1, 10)), 3: log(27, (0, 0))}


def planned(*held: dict[int, Any], policy: Policy = ANY) -> Plan:
    """One plan for partitions that are held so."""
    seen = [partition(each, id=TopicPartition("orders", number)) for number, each in enumerate(held)]
    plan = decide(evidence(*seen), policy)
    assert len(plan.elections) == len(held)
    return plan


def test_a_longer_log_of_another_branch_is_what_its_broker_may_lose_and_the_dead_one_is_unknown() -> None:
    plan = planned(DIVERGED, DIVERGED, LONGER)

    found = costs(plan)

    assert found == (
        BrokerCost(BrokerId(3), records=34, partitions=2),
        BrokerCost(BrokerId(1), unknown=3, because="could not be read: BrokerUnreachable"),
    )
    assert in_a_line(plan, found) == (
        "Electing as planned may lose up to 34 records that broker 3 holds and the new leader lacks, on 2 partitions; "
        "an unknown part of what broker 1 holds on 3 partitions (could not be read: BrokerUnreachable)."
    )


@pytest.mark.parametrize(
    ("held", "told"),
    [
        ((DIVERGED,), "While orders-0 has no leader, first of all copy its directory FROM broker 3 to"),
        (
            (DIVERGED, LONGER, DIVERGED),
            "While orders-0, orders-2 have no leader, first of all copy their directories FROM broker 3 to",
        ),
    ],
)
def test_a_living_copy_that_is_to_be_cut_can_be_saved_before_anybody_consents(
    held: tuple[dict[int, Any], ...], told: str
) -> None:
    (said,) = before_consent(planned(*held))

    deleted = "what the next leader lacks is deleted inside log.dirs within seconds."
    assert said == f"{told} a place outside log.dirs: {deleted}"


def test_a_living_copy_that_can_not_be_compared_can_be_saved_as_well() -> None:
    """Nobody knows what it holds: that nothing is seen to be lacking says nothing of it."""
    (said,) = before_consent(planned({1: DEAD, 2: log(27, (0, 0)), 3: log(15, epochs=None)}))

    assert "first of all copy its directory FROM broker 3 to" in said


def test_equal_logs_are_copied_from_nobody_also_where_another_plan_is_better() -> None:
    assert not list(before_consent(planned({1: log(27), 2: log(27), 3: log(27)}), either=True))


BY_LENGTH = Policy((replace(ANY.rules[0], candidate_order=CandidateOrder.LONGEST_LOG),))
NOT_COMPARED = "its log can't be compared with the new leader's: "


@pytest.mark.parametrize(
    ("leader", "other", "why"),
    [
        (log(28), log(27, epochs=None), "its own leader epochs are unknown, and it may be the newer one"),
        (log(28, epochs=None), log(27), "the new leader's leader epochs are unknown, and it may be the newer one"),
        (
            log(28, epochs=None),
            log(27, epochs=None),
            "its own and the new leader's leader epochs are unknown, and it may be the newer one",
        ),
        (log(28, (0, 0), (1, 5)), log(27, (0, 0), (1, 9)), "their leader epochs contradict each other"),
    ],
)
def test_a_log_that_can_not_be_compared_is_unknown_and_why_is_said(
    leader: ReplicaLog, other: ReplicaLog, why: str
) -> None:
    """Shorter than the chosen one: it may hold other records all the same."""
    plan = planned({1: DEAD, 2: leader, 3: other}, policy=BY_LENGTH)

    (found, _dead) = sorted(costs(plan), key=lambda cost: -cost.broker)

    assert found == BrokerCost(BrokerId(3), unknown=1, because=NOT_COMPARED + why)


def test_an_older_log_that_is_as_long_is_not_called_longer() -> None:
    assert not list(longer_but_older(planned({1: DEAD, 2: log(27, (1, 0)), 3: log(27)})))


def test_what_is_certain_of_a_log_that_can_not_be_compared_is_told_as_the_least() -> None:
    plan = planned({1: DEAD, 2: log(27, (1, 0)), 3: log(30, epochs=None)})

    found = {cost.broker: cost for cost in costs(plan)}
    told = in_a_line(plan, costs(plan))

    assert plan.elections[TopicPartition("orders", 0)].leader == 2
    assert (found[BrokerId(3)].records, found[BrokerId(3)].certain) == (0, 3)
    assert "an unknown part of what broker 3 holds on 1 partition, 3 offsets at least" in told
    assert "up to" not in told


def test_nothing_is_lacking_and_yet_nothing_is_proven() -> None:
    plan = planned({1: log(27, answered_under=None), 2: log(27), 3: log(27)}, policy=Policy())

    assert costs(plan) == ()
    assert in_a_line(plan, ()).endswith("Whether an acknowledged record is missing in all copies is not known.")


def test_of_a_lossless_plan_no_doubt_is_told() -> None:
    plan = planned({1: log(27, answered_under=None), 2: log(27), 3: log(27)}, policy=Policy())
    proven = tuple(replace(each, loss=Loss(LossClass.LOSSLESS, at_most=0)) for each in plan.decisions)

    assert in_a_line(replace(plan, decisions=proven), ()).endswith("no new leader lacks any of it.")


def test_what_a_lossless_plan_deletes_was_not_acknowledged() -> None:
    plan = planned(LONGER)
    proven = tuple(replace(each, loss=Loss(LossClass.LOSSLESS, at_most=0)) for each in plan.decisions)

    told = in_a_line(replace(plan, decisions=proven), costs(plan))

    assert told.startswith("What may be lost was not acknowledged with acks=all: an unknown part of what broker 1 ")


def test_offsets_that_a_witness_saw_beyond_the_leader_are_told_though_no_replica_that_was_read_holds_them() -> None:
    whole = {1: log(27, answered_under=None), 2: log(27), 3: log(27)}
    plan = decide(evidence(partition(whole, witnessed_ends=(WitnessedEnd("a group", Offset(40)),))), Policy())

    assert " On 1 partition 13 offsets that were seen once lie beyond the new leader's log." in in_a_line(plan, ())


def test_a_plan_that_elects_nobody_loses_nothing() -> None:
    plan = decide(evidence(), ANY)

    assert in_a_line(plan, costs(plan)) == "This plan elects nobody, so nothing is lost by it."


def test_of_many_brokers_the_line_names_those_that_may_lose_most() -> None:
    held = {broker: log(20 + broker, (0, 0)) for broker in range(3, 10)}
    plan = planned({1: DEAD, 2: log(20, (0, 0), (1, 10)), **held})

    told = in_a_line(plan, costs(plan))

    assert told.index("up to 19 records that broker 9 holds") < told.index("up to 18 records that broker 8 holds")
    assert told.endswith("; 4 more brokers.")


@pytest.mark.parametrize("held", [LONGER, DIVERGED, {1: DEAD, 2: log(27, (1, 0)), 3: log(30, epochs=None)}])
def test_it_is_what_the_plan_says_and_a_person_approves(held: dict[int, Any]) -> None:
    plan = planned(held, held)
    found = {cost.broker: cost for cost in costs(plan)}

    for said in plan.may_lose:
        assert found[said.broker].records + found[said.broker].certain == said.records
        assert found[said.broker].unknown >= said.unmeasured
