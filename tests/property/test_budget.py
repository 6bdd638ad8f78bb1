"""Whatever elections cost, those that nobody is asked about never cost more than the budget."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from hypothesis import event, given
from hypothesis import strategies as st

from kafka_recovery.decision.budget import within_budget
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import Evidence
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Decision, Loss, Verdict
from kafka_recovery.domain.policy import Approval, CandidateOrder, Policy
from property.evidence import evidence, policies

losses = st.one_of(
    st.just(Loss(LossClass.LOSSLESS, at_most=0)),
    st.integers(1, 50).map(lambda most: Loss(LossClass.BOUNDED, at_most=most)),
    st.just(Loss(LossClass.UNKNOWN)),
)
costs = st.lists(st.tuples(st.sampled_from(Approval), losses, st.booleans()), max_size=12)


def decision(number: int, approval: Approval, loss: Loss, elects: bool) -> Decision:
    verdict = Verdict.ELECT if elects else Verdict.REFUSE
    id, assignment = TopicPartition("orders", number), (BrokerId(1),)
    rest = (verdict, "rule", 5, CandidateOrder.EPOCH_FIRST, approval)
    return Decision(id, TopicId("id"), LeaderEpoch(5), assignment, *rest, loss=loss if elects else None)


def automatic(decisions: tuple[Decision, ...]) -> list[Decision]:
    return [d for d in decisions if d.verdict is Verdict.ELECT and not d.needs_approval]


@given(costs, st.integers(0, 120), st.randoms(use_true_random=False))
def test_the_budget_is_never_exceeded_and_asks_nobody_without_need(
    each: list[tuple[Approval, Loss, bool]], budget: int, chance: object
) -> None:
    decisions = tuple(decision(number, *what) for number, what in enumerate(each))
    order = [d.id for d in decisions if d.verdict is Verdict.ELECT]
    chance.shuffle(order)  # type: ignore[attr-defined]
    fitting = within_budget(decisions, [order[:1], order[1:]], budget)

    bounds = [d.loss.at_most for d in automatic(fitting) if d.loss]
    assert None not in bounds
    spent = sum(bound or 0 for bound in bounds)
    assert spent <= budget
    asked = [old for old, new in zip(decisions, fitting, strict=True) if new != old]
    event(f"asked {min(len(asked), 3)}")
    for old in asked:
        assert old in automatic(decisions)
        assert old.loss is not None
        assert old.loss.at_most is None or old.loss.at_most + spent > budget


@given(evidence, policies, st.sampled_from((0, 10**9)))
def test_unproven_elections_are_never_automatic_under_a_budget(seen: Evidence, policy: Policy, budget: int) -> None:
    rules = tuple(replace(rule, approval=Approval.AUTO) for rule in policy.rules)
    limits = replace(policy.limits, loss_budget_records=budget)
    plan = decide(seen, Policy(rules, limits), waited=timedelta(minutes=1))

    assert automatic(plan.decisions) == []
