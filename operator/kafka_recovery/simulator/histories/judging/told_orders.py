"""What an engine tells of a partition's order where it does not say that it is the original one."""

from __future__ import annotations

from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.findings import Examined, unless
from kafka_recovery.simulator.histories.judging.left_orders import unfinished
from kafka_recovery.simulator.histories.judging.restoring import designation_is_in_doubt, held_up, last_answer
from kafka_recovery.simulator.histories.judging.told import Told, near, told_of
from kafka_recovery.simulator.histories.scenario import Scenario


def the_order_is_as_told(story: Chronicle, scenario: Scenario) -> Examined:
    """Who says that the election's order stands is right; who says that nobody knows had no way to know.

    The election's is an order of a plan that the machine has begun and not finished. It stood there a moment ago, and
    the last look since it was to be put back showed no other one. Nobody knows where that look showed nothing, or
    something older than the plan; where it showed another order, and the controller has not accepted to put the
    original one back; where nobody was asked for that yet, and the request that sets the plan's order has no answer;
    where it showed the plan's order in a topic that was made anew, which a request that names no topic id may have set
    there; and where a broker that may hold a request is silent. That the order is the original one is what
    `restored_is_restored` judges.
    """
    for said in story.concluded:
        answer, told = said.outcome.order_restored, told_of(story, scenario, said)
        plans = list(unfinished(told))
        text = f"{said.process} says that {said.outcome.id} is {said.outcome.outcome}, and"
        if answer is False:
            but = f"of the orders {[list(decision.order) for _, decision in plans]} none stood there, or it saw another"
            yield unless(
                any(_stands(told, *each) for each in plans), said.at, f"{text} its order the election's; {but}"
            )
        elif answer is None:
            text = f"{text} that nobody knows whose its order is; it had seen that"
            yield unless(any(_nobody_knows(told, *each) for each in plans), said.at, text)
        else:
            yield None


def _stands(told: Told, plan: Plan, decision: Decision) -> bool:
    """Whether the order of this plan stood there a moment ago, and its process was shown no other one since."""
    if last_answer(told, plan, decision).shown not in (None, decision.order):
        return False
    return any(tuple(state.replicas) == decision.order for state in near(told))


def _nobody_knows(told: Told, plan: Plan, decision: Decision) -> bool:
    """Whether its process could not tell if the order of this plan stands, and will go on standing or not."""
    last = last_answer(told, plan, decision)
    if last.shown is None:
        return True
    if not last.same_topic:
        return last.shown == decision.order or last.accepted is False
    if last.shown == decision.order:
        return False
    if last.accepted is None:
        return held_up(told) or designation_is_in_doubt(told)
    return not last.accepted
