"""The last look before electing: each thing that may have changed since the plan."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.decision.cluster_index import back
from kafka_recovery.decision.recheck import Before, LastLook, stands_still
from kafka_recovery.domain.evidence import Broker, Evidence, MissingPartition, PartitionEvidence, Reassignment, Replica
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset, TopicId
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.policy import CandidateOrder, Limits, Policy
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import (
    ORDERS,
    THREE,
    Held,
    broker,
    dead,
    decided,
    evidence,
    history,
    log,
    partition,
    policy,
    step,
)

COPIES: dict[int, Held] = {1: None, 2: log(27), 3: log(15)}
PLANNED = partition(COPIES)
BEST_LAST = partition({1: None, 3: log(15), 2: log(27)})


def again(
    fresh: PartitionEvidence | Evidence, *, planned: PartitionEvidence = PLANNED, by: Policy | None = None, **how: Any
) -> Reason | None:
    """Plan on `planned`, look again and see `fresh`."""
    decision = decided(evidence(planned), policy(), **how)
    seen = fresh if isinstance(fresh, Evidence) else evidence(fresh)
    return recheck(decision, made_on(evidence(planned)), seen, by or policy())


def recheck(
    decision: Decision,
    planned: Before,
    seen: Evidence,
    by: Policy,
    *,
    designated: bool = False,
) -> Reason | None:
    """Hold one decision to what is seen now."""
    return LastLook(seen, by, designated=designated).difference(decision, planned)


def made_on(seen: Evidence) -> Before:
    """What a plan on this evidence knew of its only partition."""
    epochs = {each.id: each.epoch for each in seen.cluster.brokers if each.epoch is not None}
    return Before(seen.partitions[0], back(seen.cluster), epochs, seen.cluster.designated_elections)


def code(reason: Reason | None) -> str | None:
    return reason.code if reason else None


def test_an_order_that_somebody_put_back_would_elect_the_wrong_replica() -> None:
    decision = decided(evidence(BEST_LAST))

    reason = recheck(decision, made_on(evidence(BEST_LAST)), evidence(BEST_LAST), policy(), designated=True)
    assert str(reason).startswith("PlanOutdated: orders-0 is assigned to ")


def test_an_order_that_was_left_as_it_stands_has_to_elect_the_leader_still() -> None:
    """Broker 1 was passed over as unregistered; now it is registered again, and was never in the ISR."""
    unregistered = (broker(2), broker(3), broker(4, fenced=True, reachable=False))
    planned = evidence(partition({1: None, 2: log(27), 3: log(15)}, isr=(4,)), brokers=unregistered)
    decision = decided(planned)
    assert decision.order == decision.assignment

    seen = replace(
        planned, cluster=replace(planned.cluster, brokers=(broker(1, fenced=True, reachable=False), *unregistered))
    )
    reason = recheck(decision, made_on(planned), seen, policy())
    assert code(reason) == "PlanOutdated"
    assert "a replica before broker 2 could be elected by now" in str(reason)


def test_a_clean_member_that_is_back_but_not_measured_yet_gets_its_patience() -> None:
    returning = broker(1, fenced=True, reachable=True)

    assert code(again(evidence(PLANNED, brokers=(returning, broker(2), broker(3))))) == "ElectableBrokerReturning"


def test_a_clean_member_that_was_waited_for_already_is_not_waited_for_again() -> None:
    brokers = (broker(1, fenced=True, reachable=True), broker(2), broker(3))
    seen = evidence(PLANNED, brokers=brokers)
    decision = decided(seen, waited=timedelta(minutes=1))

    assert recheck(decision, made_on(seen), seen, policy()) is None


@pytest.mark.parametrize(
    ("fresh", "expected"),
    [
        (partition(COPIES, topic_id=TopicId("another")), "PlanOutdated: topic orders was deleted and created again"),
        (partition(COPIES, leader=BrokerId(1), leader_epoch=LeaderEpoch(6)), "AlreadyOnline: broker 1, an ISR or ELR"),
        (partition(COPIES, leader=BrokerId(2), leader_epoch=LeaderEpoch(6)), "AlreadyOnline: broker 2, the planned"),
        (partition(COPIES, leader=BrokerId(3), leader_epoch=LeaderEpoch(6)), "UnexpectedLeader"),
        (partition(COPIES, leader_epoch=LeaderEpoch(6)), "PlanOutdated: orders-0 is at leader epoch 6, planned at 5"),
        (partition({3: log(15), 1: None, 2: log(27)}), "PlanOutdated: orders-0 is assigned to 3, 1, 2, expected"),
        (partition({1: None, 2: log(27), 4: log(15)}), "PlanOutdated: orders-0 is assigned to 1, 2, 4, expected"),
        (partition(COPIES, reassignment=Reassignment((BrokerId(4),), ())), "ReassignmentOngoing"),
        (
            partition(COPIES, reassignment_known=False),
            "AnswerIncomplete: the controller did not say whether orders-0 is being reassigned",
        ),
        (partition({**COPIES, 1: Replica(BrokerId(1), None, leads=True)}), "OldLeaderAnswers"),
        (partition({**COPIES, 1: log(30)}), "PlanOutdated: electing broker 2 for orders-0 costs"),
        (partition({**COPIES, 2: log(26)}), "PlanOutdated: broker 2's log of orders-0 ends at 26"),
        (partition({**COPIES, 2: log(27, (0, 0), (1, 20))}), "PlanOutdated: broker 2's log of orders-0 ends at 27"),
        (partition({**COPIES, 2: log(27, answered_under=None)}), "ReplicaOnOldEpoch"),
        (partition({**COPIES, 3: log(28)}), "PlanOutdated: broker 3 is now better than broker 2"),
    ],
)
def test_what_differs_goes_back_to_deciding(fresh: PartitionEvidence, expected: str) -> None:
    assert str(again(fresh)).startswith(expected)


@pytest.mark.parametrize(
    ("sick", "expected"),
    [
        (broker(2, fenced=True), "Fenced"),
        (broker(2, stopping=True), "BrokerStopping"),
        (broker(2, reachable=False), "BrokerUnreachable"),
        (broker(2, metadata_advances=False), "BrokerCutOff"),
    ],
)
def test_a_planned_leader_that_can_not_lead_any_more_is_not_elected(sick: Broker, expected: str) -> None:
    assert code(again(evidence(PLANNED, brokers=(dead(1), sick, broker(3))))) == expected


class TestIncarnations:
    """KIP-903: a broker that registers anew gets another epoch, and may have lost what it had."""

    @pytest.mark.parametrize(
        ("before", "now", "restarted"),
        [
            (7, 7, False),
            (7, 9, True),
            (9, 7, True),
            (7, None, True),
            (None, 9, False),
            (None, None, False),
        ],
    )
    def test_a_leader_that_was_restarted_was_never_measured(
        self, before: int | None, now: int | None, restarted: bool
    ) -> None:
        """Though its log ends where it did."""
        planned = evidence(PLANNED, brokers=(dead(1), broker(2, epoch=before), broker(3)))
        fresh = evidence(PLANNED, brokers=(dead(1), broker(2, epoch=now), broker(3)))

        reason = recheck(decided(planned), made_on(planned), fresh, policy())
        assert code(reason) == ("PlanOutdated" if restarted else None)
        assert ("That measurement is void" in str(reason)) is restarted

    def test_one_that_says_no_epoch_any_more_is_not_called_restarted(self) -> None:
        """It may be another configuration that does not ask it."""
        planned = evidence(PLANNED, brokers=(dead(1), broker(2, epoch=7), broker(3)))
        fresh = evidence(PLANNED, brokers=(dead(1), broker(2), broker(3)))

        reason = recheck(decided(planned), made_on(planned), fresh, policy())

        assert "does not tell its broker epoch any more" in str(reason)
        assert "was restarted" not in str(reason)

    def test_others_may_be(self) -> None:
        """They are measured again, and ranked."""
        planned = evidence(PLANNED, brokers=(dead(1), broker(2, epoch=7), broker(3, epoch=8)))
        fresh = evidence(PLANNED, brokers=(dead(1), broker(2, epoch=7), broker(3, epoch=9)))

        assert recheck(decided(planned), made_on(planned), fresh, policy()) is None


@pytest.mark.parametrize("then", [True, False])
def test_a_plan_for_one_way_of_electing_is_not_carried_out_by_the_other(then: bool) -> None:
    """Both may have the same order; by the order another one might lead in the end."""
    planned, fresh = (evidence(PLANNED, designated_elections=each) for each in (then, not then))

    reason = recheck(decided(planned), made_on(planned), fresh, policy())
    assert code(reason) == "PlanOutdated"
    assert "was planned to be elected by" in str(reason)


def test_what_stands_against_any_election_by_now_stands_against_this_one() -> None:
    assert code(again(PLANNED, by=policy(Limits(brokers_down_percent=33)))) == "TooManyBrokersDown"
    assert again(PLANNED, by=policy(Limits(brokers_down_percent=34))) is None


def test_an_elr_member_that_came_back_and_leads_is_the_clean_way_out() -> None:
    planned = partition(COPIES, isr=(), elr=(BrokerId(1),))
    fresh = partition(COPIES, isr=(1,), leader=BrokerId(1), leader_epoch=LeaderEpoch(6))
    assert code(again(fresh, planned=planned)) == "AlreadyOnline"


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("UnknownTopicOrPartition", "PartitionGone"),
        ("PartitionGone", "PartitionGone"),
        ("TopicAuthorizationFailed", "TopicAuthorizationFailed"),
        ("AnswerIncomplete", "AnswerIncomplete"),
    ],
)
def test_a_partition_that_is_not_there_is_gone_and_one_that_may_not_be_seen_is_not(why: str, told: str) -> None:
    seen = Evidence(evidence(PLANNED).cluster, (), (MissingPartition(ORDERS, Reason(why, "so said a broker")),))

    reason = again(seen)

    assert code(reason) == told
    assert "so said a broker" in str(reason)


def test_a_partition_of_which_nothing_is_said_is_not_called_gone() -> None:
    assert code(again(evidence())) == "AnswerIncomplete"


def test_a_policy_that_ranks_otherwise_now_goes_back_to_deciding() -> None:
    reason = again(PLANNED, by=policy(candidate_order=CandidateOrder.LONGEST_LOG))
    assert code(reason) == "PlanOutdated"
    assert "now falls under rule" in str(reason)


def test_a_leader_named_by_a_person_needs_not_be_the_best() -> None:
    assert again(PLANNED, designated={ORDERS: BrokerId(3)}) is None


def test_as_many_records_of_another_broker_were_not_approved() -> None:
    """Broker 3 was to lose 100; broker 4, which was silent, would lose another 100."""
    four = (*THREE, dead(4))
    planned = partition({1: None, 2: log(20, (0, 0), (5, 0)), 3: log(100, (0, 0)), 4: None})
    fresh = partition({1: None, 2: log(20, (0, 0), (5, 0)), 3: log(100, (0, 0)), 4: log(100, (1, 0))})
    then, now = evidence(planned, brokers=four), evidence(fresh, brokers=(*THREE, broker(4)))

    reason = recheck(decided(then), made_on(then), now, policy())
    assert code(reason) == "PlanOutdated"
    assert "visibly lacking 100 records of broker 3" in str(reason)


def test_a_last_known_leader_that_came_back_since_the_plan_is_left_to_kafka() -> None:
    planned = partition(COPIES, isr=(), elr=(), last_known_elr=(BrokerId(1),))
    fresh = evidence(planned, brokers=(broker(1, fenced=True), broker(2), broker(3)))
    assert code(again(fresh, planned=planned)) == "ElectableBrokerReturning"


def test_a_bound_that_grew_was_not_approved_though_each_broker_loses_what_was_planned() -> None:
    """Broker 3, of which the leader lacks 5 records, is another process now; broker 4, of which it lacks 8, is not."""
    four = tuple(step(*members, min_isr=3, replicas=(1, 2, 3, 4)) for members in ((1, 2, 3, 4), (1, 3, 4), (1,)))
    seen = partition({1: None, 2: log(12, (0, 0), (5, 10)), 3: log(15, (0, 0)), 4: log(18, (0, 0))})
    brokers, epochs_first = (*THREE, broker(4)), policy(candidate_order=CandidateOrder.EPOCH_FIRST)
    then = evidence(replace(seen, history=history(*four, intact=(3, 4))), brokers=brokers)
    now = evidence(replace(seen, history=history(*four, intact=(4,))), brokers=brokers)
    decision = decided(then, epochs_first)
    assert (decision.loss and decision.loss.at_most) == 5

    assert recheck(decision, made_on(then), then, epochs_first) is None
    reason = recheck(decision, made_on(then), now, epochs_first)
    assert code(reason) == "PlanOutdated"
    assert "costs Bounded (at most 8, at least 0" in str(reason)
    assert "planned Bounded (at most 5, at least 0" in str(reason)


@pytest.mark.parametrize(
    ("as_of", "view_advances", "why"),
    [
        (50, None, "MetadataAgeUnknown"),
        (None, None, "MetadataAgeUnknown"),
        (100, None, None),
        (50, True, None),
        (50, False, "BrokerCutOff"),
    ],
)
def test_nothing_is_concluded_of_leaders_by_a_view_that_may_be_behind_the_controller(
    as_of: int | None, view_advances: bool | None, why: str | None
) -> None:
    """The controller has committed 100. A broker that then fell silent showed what it had applied by then."""
    seen = evidence(PLANNED, brokers=(dead(1), broker(2, metadata_advances=view_advances), broker(3)))
    read_at = None if as_of is None else MetadataOffset(as_of)
    cluster = replace(seen.cluster, view_from=BrokerId(2), as_of=read_at, committed=MetadataOffset(100))

    reason = stands_still(replace(seen, cluster=cluster), policy())

    assert (reason.code if reason else None) == why


@pytest.mark.parametrize(("committed", "named"), [(None, True), (100, False)])
def test_who_does_not_hear_what_is_committed_is_told_the_right_that_it_needs(
    committed: int | None, named: bool
) -> None:
    seen = evidence(PLANNED, brokers=(broker(2, metadata_advances=None), broker(3, metadata_advances=None)))
    told = None if committed is None else MetadataOffset(committed)
    cluster = replace(seen.cluster, view_from=BrokerId(2), as_of=MetadataOffset(50), committed=told)

    reason = stands_still(replace(seen, cluster=cluster), policy())

    assert reason is not None
    assert ("grant DESCRIBE on the cluster" in reason.message) is named
