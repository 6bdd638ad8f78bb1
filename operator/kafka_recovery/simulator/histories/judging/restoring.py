"""What a process was told of putting an order back: the controller's last answer, and what it was shown since."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_recovery.domain.plan import Decision, Plan
from kafka_recovery.simulator.histories.facts import Answered, Shown, Unshown
from kafka_recovery.simulator.histories.judging.told import Told


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """All by which a process can tell whether the order of a plan stands.

    `accepted`: whether the controller last accepted to put the original one back; None: it was not asked to.
    `shown`: the order that the last look since then showed; None: it showed nothing, or something older than the plan.
    `same_topic`: whether that look was at the topic of the plan, and not at another one of its name.
    """

    accepted: bool | None
    shown: tuple[int, ...] | None
    same_topic: bool


def last_answer(told: Told, plan: Plan, decision: Decision) -> LastAnswer:
    """What its process was last told of the order that this plan's decision had set."""
    answers = _answers(told, "restore")
    last = _last_look(told, plan, answers[-1].at if answers else 0.0)
    return LastAnswer(
        accepted=told.said.outcome.id in answers[-1].accepted if answers else None,
        shown=last.assignment if last else None,
        same_topic=last is not None and last.topic_id == decision.topic_id,
    )


def held_up(told: Told) -> bool:
    """Whether its process had to wait for a silent broker that may hold a request."""
    waits = ((wait.process, wait.why) for wait in told.story.delayed if wait.at <= told.said.at)
    return (told.said.process, "RelaySilent") in waits


def designation_is_in_doubt(told: Told) -> bool:
    """Whether the last answer to its process did not accept the plan's order: it may have set that, or may yet."""
    answers = _answers(told, "designate")
    return bool(answers) and told.said.outcome.id in answers[-1].claimed | answers[-1].doubtful


def _answers(told: Told, what: str) -> list[Answered]:
    """The answers that its process had to such requests about the partition."""
    mine = (a for a in told.story.answered if (a.process, a.what) == (told.said.process, what))
    return [
        answered for answered in mine if told.said.outcome.id in answered.partitions and answered.at <= told.said.at
    ]


def _last_look(told: Told, plan: Plan, since: float) -> Shown | None:
    """The last look of its process at it since then; None: it showed nothing, or something older than the plan.

    Of metadata whose age nobody told, and of a plan that knows no age, that is not asked.
    """
    story, process, id = told.story, told.said.process, told.said.outcome.id
    looks: list[Shown | Unshown] = [*story.shown, *story.unshown]
    looks = [look for look in looks if (look.process, look.id) == (process, id) and since <= look.at <= told.said.at]
    last, as_of = max(looks, key=lambda look: look.at, default=None), plan.evidence.cluster.as_of
    if not isinstance(last, Shown):
        return None
    is_older = last.as_of is not None and as_of is not None and last.as_of < as_of
    return None if is_older else last
