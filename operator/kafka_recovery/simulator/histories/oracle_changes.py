"""Invariant 4: no change without its record, nobody else's order replaced, none of ours left behind."""

from __future__ import annotations

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.histories.chronicle import ENGINE, Asked, Chronicle, Kept, Ordered
from kafka_recovery.simulator.histories.findings import Finding, Findings
from kafka_recovery.simulator.histories.scenario import Scenario

RACE = 0.2
"""Seconds in which somebody else's change may not have been visible: Kafka has no compare-and-set for assignments."""


_CHANGED_BY_OTHERS = frozenset({"AssignmentChanged", "ReassignmentOngoing"})
"""Reasons that say as much as a warning: the assignment is not the planned one."""


def nothing_without_its_record(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 4. Before each change its plan is durable, begun, and its wave is known to be under way."""
    for asked in story.asked:
        for ballot in asked.ballots if asked.what != "approve" else ():
            if story.decision(asked, ballot) is None:
                text = f"{asked.process} asks to {asked.what} {ballot.id} {list(ballot.order)}, which no durable plan"
                yield Finding("nothing_without_its_record", asked.at, f"{text} with a begun wave holds")


def nothing_that_was_not_asked(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 4. What the controller did for an engine is what that engine said it asks for, and nothing else."""
    for change in story.ordered:
        if _is_engine(change.by) and _cause(story, change) is None:
            text = f"{change.by} gave {change.id} the assignment {list(change.after)}, which no request of it holds"
            yield Finding("nothing_that_was_not_asked", change.at, text)
    for held in story.held:
        if _is_engine(held.by) and not any(
            asked.process == held.by and asked.at <= held.at and any(ballot.id == held.id for ballot in asked.ballots)
            for asked in story.requests("elect")
        ):
            text = f"{held.by} had broker {held.leader} elected for {held.id}, which no request of it holds"
            yield Finding("nothing_that_was_not_asked", held.at, text)


def only_own_orders_are_replaced(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 4. An order is put back only where this plan's order stands."""
    for change in story.ordered:
        asked = _cause(story, change)
        if asked is None or asked.what != "restore" or change.before == change.after:
            continue
        ballot = next(ballot for ballot in asked.ballots if ballot.id == change.id)
        if change.before != ballot.order and not _somebody_interfered(story, change, asked.at - RACE):
            text = f"{change.by} put {change.id} back to {list(change.after)}, but {list(change.before)} stood there"
            yield Finding("only_own_orders_are_replaced", change.at, f"{text}, which is not its plan's order")


def no_order_is_left_behind(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 4. When all is quiet, every partition stands in the order its owner wants."""
    for id in _partitions(story):
        changes = [change for change in story.ordered if (change.id, change.topic_id) == (id, story.topic_id(id))]
        mine = [change for change in changes if _is_engine(change.by)]
        if not mine or mine[0].reassigned or _same_idea(story, id) or any(_raced(story, change) for change in mine):
            continue
        if _taken_for_the_original(story, id):
            continue
        wanted = mine[0].before
        for change in changes:
            if change.at >= mine[0].at and not _is_engine(change.by):
                wanted = change.after
        found = story.assignment(id)
        if found != wanted and set(found) == set(wanted):
            text = f"{id} is left in the order {list(found)}; its owner wants {list(wanted)}"
            yield Finding("no_order_is_left_behind", story.now, f"{text} (last altered by {mine[-1].by})")


def restored_is_restored(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 4. Who says that the order is the original one is right, or warns that somebody else changed it."""
    for said in story.concluded:
        topic = said.outcome.id, said.topic_id
        changes = [c for c in story.ordered if (c.id, c.topic_id) == topic and c.at <= said.at]
        told = said.outcome.warnings or (said.outcome.reason and said.outcome.reason.code in _CHANGED_BY_OTHERS)
        if not said.outcome.order_restored or not changes or changes[-1].by != said.process or told:
            continue
        cause = _cause(story, changes[-1])
        if cause is not None and cause.what == "designate" and changes[-1].before != changes[-1].after:
            text = f"{said.process} says that {said.outcome.id} is {said.outcome.outcome} and its order the original"
            yield Finding("restored_is_restored", said.at, f"{text} one, but it is still {list(said.assignment)}")


def _cause(story: Chronicle, change: Ordered) -> Asked | None:
    """The engine's request behind a change of an order."""
    for asked in reversed(story.asked):
        if asked.process != change.by or asked.at > change.at or asked.what in ("elect", "approve"):
            continue
        for ballot in asked.ballots:
            if ballot.id == change.id and change.after == (
                ballot.assignment if asked.what == "restore" else ballot.order
            ):
                return asked
    return None


def _somebody_interfered(story: Chronicle, change: Ordered, since: float) -> bool:
    """Whether anybody but this engine altered the order between its last look and its own change."""
    return any(
        other.id == change.id and since <= other.at <= change.at and other.by != change.by for other in story.ordered
    )


def _raced(story: Chronicle, change: Ordered) -> bool:
    """Whether an engine overwrote what it can't have seen; Kafka offers no way to prevent that."""
    asked = _cause(story, change)
    return asked is None or _somebody_interfered(story, change, _seen_at(story, asked, change.id))


def _seen_at(story: Chronicle, asked: Asked, id: TopicPartition) -> float:
    """When the engine read the order that it is about to change: a gather reads it first, then asks the replicas."""
    looked = story.last_look(asked, id) if asked.what == "designate" else None
    return asked.at - RACE if looked is None else looked.at - looked.evidence.cluster.took.total_seconds() - RACE


def _taken_for_the_original(story: Chronicle, id: TopicPartition) -> bool:
    """Whether an engine planned while the order of another one with another journal stood.

    Engines with one journal put back what is altered before they plan. Two journals do not know of each other, and in
    Kafka a temporary order looks like any other (docs/guarantees.md).
    """
    topic = id, story.topic_id(id)
    begun = [
        (kept.machine, decision)
        for kept in story.kept
        if id in kept.wave
        for decision in story.plan(kept.digest).decisions
        if (decision.id, decision.topic_id) == topic
    ]
    return any(
        here != there and mine.order == theirs.assignment != mine.assignment
        for here, mine in begun
        for there, theirs in begun
    )


def _same_idea(story: Chronicle, id: TopicPartition) -> bool:
    """Whether somebody set an order between an engine's look and its change, or the very order of a begun wave.

    Whose an order is can't be seen in Kafka: once ours may be under way, one that looks the same counts as ours. That
    is over when the journal says that nothing of the plan is left to do or undo.
    """
    topic = id, story.topic_id(id)
    others = [c for c in story.ordered if (c.id, c.topic_id) == topic and not _is_engine(c.by)]
    return any(
        _seen_at(story, asked, id) <= change.at <= asked.at + RACE
        for asked in story.requests("designate")
        for ballot in asked.ballots
        if ballot.id == id
        for change in others
    ) or any(
        begun.at <= change.at <= _over_at(story, begun) and change.after == decision.order
        for begun in story.kept
        if id in begun.wave
        for decision in story.plan(begun.digest).decisions
        if (decision.id, decision.topic_id) == topic
        for change in others
    )


def _over_at(story: Chronicle, begun: Kept) -> float:
    """When a machine's journal says that a plan is finished; never, if it does not say so."""
    plan = begun.machine, begun.digest, "finished.json"
    return next((k.at for k in story.kept if (k.machine, k.digest, k.name) == plan), float("inf"))


def _partitions(story: Chronicle) -> list[TopicPartition]:
    return sorted({change.id for change in story.ordered})


def _is_engine(by: str) -> bool:
    return by.startswith(ENGINE)
