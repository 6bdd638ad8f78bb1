"""The loss budget: what automatic elections of one plan may cost together, by what is proven of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.plan import Decision, Verdict
from kafka_recovery.domain.policy import Approval


def within_budget(
    decisions: Sequence[Decision], waves: Iterable[Iterable[TopicPartition]], budget: int | None
) -> tuple[Decision, ...]:
    """The same decisions, but a person is asked about what does not fit; in the order of the waves.

    What is too large for the rest of the budget leaves it to those behind. What a person approves uses none of it up.
    """
    if budget is None:
        return tuple(decisions)
    place = {decision.id: index for index, decision in enumerate(decisions)}
    fitting, left = list(decisions), budget
    for id in (id for wave in waves for id in wave):
        decision = decisions[place[id]]
        if decision.verdict is not Verdict.ELECT or decision.needs_approval:
            continue
        cost = decision.loss.at_most if decision.loss else None
        if cost is not None and cost <= left:
            left -= cost
        else:
            warning = _too_much(cost, left, budget)
            fitting[place[id]] = replace(decision, approval=Approval.MANUAL, warnings=(*decision.warnings, warning))
    return tuple(fitting)


def _too_much(cost: int | None, left: int, budget: int) -> str:
    limit = f"limits.lossBudgetRecords is {budget}"
    if cost is None:
        return f"no proof bounds what this election loses, so it fits no budget ({limit}): a person has to approve it"
    return f"it may lose {cost} acknowledged records, and {left} are left ({limit}): a person has to approve it"
