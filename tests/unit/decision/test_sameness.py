"""Whether a plan made again says the same: what an approval covers, and what it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.sameness import difference
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Decision, Lack, Loss, Plan, Verdict
from kafka_recovery.domain.policy import Approval, CandidateOrder
from kafka_recovery.domain.reason import Reason, Rejection
from unit.decision.incident import ORDERS, evidence, log, partition, policy

PAYMENTS = TopicPartition("payments", 0)
HELD = {1: None, 2: log(27), 3: log(15)}
PLAN = decide(evidence(partition(HELD), partition(HELD, id=PAYMENTS)), policy())
BOTH = {decision.id: decision for decision in PLAN.decisions}
BOUNDED = Loss(LossClass.BOUNDED, at_most=7)


def with_orders(**changes: Any) -> Plan:
    """The plan, with other words on orders-0."""
    return replace(PLAN, decisions=(replace(BOTH[ORDERS], **changes), BOTH[PAYMENTS]))


def code_and_message(planned: Plan, now: Plan) -> tuple[str, str]:
    found = difference(planned, now)
    assert found
    return found.code, found.message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topic_id": TopicId("another")}, "another topic of that name was id-of-orders, now it is another"),
        ({"verdict": Verdict.REFUSE}, "the verdict was Elect, now it is Refuse"),
        ({"leader_epoch": LeaderEpoch(6)}, "the leader epoch was 5, now it is 6"),
        ({"assignment": (BrokerId(1), BrokerId(2))}, "the assignment was [1, 2, 3], now it is [1, 2]"),
        ({"leader": BrokerId(3)}, "the leader to elect was 2, now it is 3"),
        ({"order": (BrokerId(2),)}, "the order of the other replicas was [1, 2, 3], now it is [2]"),
        ({"log_end": Offset(26)}, "the log end of the leader to elect was 27, now it is 26"),
        ({"rule": "strict"}, "the policy's rule was everything, now it is strict"),
        ({"candidate_order": CandidateOrder.LONGEST_LOG}, "the candidate order was LeastLoss, now it is LongestLog"),
        ({"approval": Approval.AUTO}, "who has to approve was ManualApprove, now it is AutoApprove"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_an_approval_is_about(changes: dict[str, Any], message: str) -> None:
    assert code_and_message(PLAN, with_orders(**changes)) == ("PlanOutdated", f"orders-0: {message}")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (BOUNDED, Loss(LossClass.UNKNOWN), "Bounded, at most 7 records, now it is Unknown"),
        (BOUNDED, replace(BOUNDED, at_most=8), "Bounded, at most 7 records, now it is Bounded, at most 8 records"),
        (
            BOUNDED,
            replace(BOUNDED, lacks=(Lack(BrokerId(3), Offset(27), 4),)),
            "Bounded, at most 7 records, now it is Bounded, at most 7 records, 4 records of other replicas",
        ),
        (None, BOUNDED, "none to speak of, now it is Bounded, at most 7 records"),
    ],
)
def test_what_it_costs_is_a_part_of_it(before: Loss | None, after: Loss, message: str) -> None:
    found = code_and_message(with_orders(loss=before), with_orders(loss=after))

    assert found == ("PlanOutdated", f"orders-0: its loss was {message}")


def test_more_that_is_surely_lost_is_another_plan() -> None:
    assert difference(with_orders(loss=BOUNDED), with_orders(loss=replace(BOUNDED, at_least=1)))


@pytest.mark.parametrize(
    "changes",
    [
        {"rejections": (Rejection(BrokerId(1), Reason("BrokerTimeout", "it did not answer within 5 s")),)},
        {"loss": replace(BOUNDED, missing=("broker 1 did not answer",))},
        {"warnings": ("broker 3 is in the same rack",)},
        {"reason": Reason("Elect", "said differently")},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_sentences_may_change_meanwhile(changes: dict[str, Any]) -> None:
    assert difference(with_orders(loss=BOUNDED), with_orders(**{"loss": BOUNDED, **changes})) is None


def auto(plan: Plan) -> Plan:
    return replace(plan, decisions=tuple(replace(each, approval=Approval.AUTO) for each in plan.decisions))


def test_that_nobody_would_be_asked_any_more_is_the_same_plan_where_a_person_has_to_say_yes_all_the_same() -> None:
    """A broker that tells of its disk at every other look would void each plan that somebody reads."""
    assert difference(PLAN, auto(PLAN), lambda _: True) is None


def test_that_somebody_has_to_be_asked_now_is_another_plan_also_while_everything_is_asked_about() -> None:
    found = difference(auto(PLAN), PLAN, lambda _: True)

    assert (found and found.message) == "orders-0: who has to approve was AutoApprove, now it is ManualApprove"


def test_an_election_that_is_gone_voids_the_approval() -> None:
    found = code_and_message(PLAN, replace(PLAN, decisions=(BOTH[PAYMENTS],)))

    assert found == ("PlanOutdated", "orders-0 can't be seen any more")


def refused(decision: Decision) -> Decision:
    return replace(decision, verdict=Verdict.REFUSE, leader=None, order=(), log_end=None, loss=None)


def test_nobody_approves_what_is_not_elected() -> None:
    """A partition that was refused may be electable by now: that is another plan's business."""
    planned = replace(PLAN, decisions=(refused(BOTH[ORDERS]), BOTH[PAYMENTS]))

    assert difference(planned, PLAN) is None
    assert difference(planned, replace(PLAN, decisions=(BOTH[PAYMENTS],))) is None
    assert tuple(planned.elections.values()) == (BOTH[PAYMENTS],)
