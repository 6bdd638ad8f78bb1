"""What an engine gives as its reason where that says that an order of an earlier run was not put back."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.simulator.histories.judging.restoring import held_up, last_answer
from kafka_recovery.simulator.histories.judging.told import Told


def an_order_may_stand(told: Told) -> bool:
    """Whether an order of a plan that its machine has not finished stands there, or may by all that it was told.

    It may where the controller did not accept to put it back, or the last look since then has not shown that it is put
    back. Without asking for that it may only where a broker that may hold a request is silent.
    """
    return any(told.said.assignment == d.order or _is_unknown(told, p, d) for p, d in unfinished(told))


def unfinished(told: Told) -> Iterator[tuple[Plan, Decision]]:
    """The plans of its machine that have a wave with the partition begun, and that alter its order."""
    story, said = told.story, told.said
    mine = [kept for kept in story.kept if kept.machine == said.machine and kept.at <= said.at]
    finished = {kept.digest for kept in mine if kept.name == "finished.json"}
    for digest in {kept.digest for kept in mine if said.outcome.id in kept.wave} - finished:
        plan = story.plan(digest)
        decision = plan.elections.get(said.outcome.id)
        if decision is not None and decision.order != decision.assignment:
            yield plan, decision


def _is_unknown(told: Told, plan: Plan, decision: Decision) -> bool:
    """Whether its process could not know that the order of this plan does not stand."""
    last = last_answer(told, plan, decision)
    if last.accepted is None:
        return held_up(told)
    if not last.accepted or last.shown is None:
        return True
    return last.same_topic and last.shown == decision.order
