"""What an engine gives as its reason where that says that an order of an earlier run was not put back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.simulator.histories.facts import Answered, Shown, Unshown
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
    answers = restores_answered(told)
    if not answers:
        return held_up(told)
    last = last_look(told, answers)
    if told.said.outcome.id not in answers[-1].accepted or not isinstance(last, Shown):
        return True
    return is_older_than(last, plan) or (last.topic_id, last.assignment) == (decision.topic_id, decision.order)


def held_up(told: Told) -> bool:
    """Whether its process had to wait for a silent broker that may hold a request."""
    waits = ((wait.process, wait.why) for wait in told.story.delayed if wait.at <= told.said.at)
    return (told.said.process, "RelaySilent") in waits


def restores_answered(told: Told) -> list[Answered]:
    """The answers that its process had to what it asked for to put the order back."""
    mine = (a for a in told.story.answered if (a.process, a.what) == (told.said.process, "restore"))
    return [
        answered for answered in mine if told.said.outcome.id in answered.partitions and answered.at <= told.said.at
    ]


def last_look(told: Told, answers: Sequence[Answered]) -> Shown | Unshown | None:
    """The last that its process was shown of the partition, or was not, since these answers."""
    story, process, id = told.story, told.said.process, told.said.outcome.id
    since = answers[-1].at if answers else 0.0
    looks: list[Shown | Unshown] = [*story.shown, *story.unshown]
    looks = [look for look in looks if (look.process, look.id) == (process, id) and since <= look.at <= told.said.at]
    return max(looks, key=lambda look: look.at, default=None)


def is_older_than(look: Shown, plan: Plan) -> bool:
    """Whether a look read older metadata than the plan stands on; not where either is unknown."""
    as_of = plan.evidence.cluster.as_of
    return look.as_of is not None and as_of is not None and look.as_of < as_of
