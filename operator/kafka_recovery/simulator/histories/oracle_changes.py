"""Invariant 4: no change without its record, nobody else's order replaced, none of ours left behind."""

from __future__ import annotations

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.histories.chronicle import ENGINE, Asked, Chronicle, Ordered
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
            if not any(_wave_is_known(story, asked, digest, ballot.id) for digest, _ in story.decisions(asked, ballot)):
                text = f"{asked.process} asks to {asked.what} {ballot.id} {list(ballot.order)}, which no durable plan"
                yield Finding("nothing_without_its_record", asked.at, f"{text} with a begun wave holds")


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
        mine = [change for change in story.ordered if change.id == id and _is_engine(change.by)]
        if not mine or mine[0].reassigned or _same_idea(story, id) or any(_raced(story, change) for change in mine):
            continue
        wanted = mine[0].before
        for change in story.ordered:
            if change.id == id and change.at >= mine[0].at and not _is_engine(change.by):
                wanted = change.after
        found = story.assignment(id)
        if found and found != wanted and set(found) == set(wanted):
            text = f"{id} is left in the order {list(found)}; its owner wants {list(wanted)}"
            yield Finding("no_order_is_left_behind", story.now, f"{text} (last altered by {mine[-1].by})")


def restored_is_restored(story: Chronicle, scenario: Scenario) -> Findings:
    """Invariant 4. Who says that the order is the original one is right, or warns that somebody else changed it."""
    for said in story.concluded:
        changes = [c for c in story.ordered if c.id == said.outcome.id and c.at <= said.at]
        told = said.outcome.warnings or (said.outcome.reason and said.outcome.reason.code in _CHANGED_BY_OTHERS)
        if not said.outcome.order_restored or not changes or changes[-1].by != said.process or told:
            continue
        cause = _cause(story, changes[-1])
        if cause is not None and cause.what == "designate" and changes[-1].before != changes[-1].after:
            text = f"{said.process} says that {said.outcome.id} is {said.outcome.outcome} and its order the original"
            yield Finding("restored_is_restored", said.at, f"{text} one, but it is still {list(said.assignment)}")


def _wave_is_known(story: Chronicle, asked: Asked, digest: str, id: TopicPartition) -> bool:
    """Whether a wave of this plan with this partition was begun before."""
    for kept in story.kept:
        if kept.digest == digest and kept.machine == asked.machine and kept.at <= asked.at:
            named = f'"{id}"'.encode()
            if kept.name.endswith("-started.json") and named in story.disks[kept.machine].runs[digest][kept.name]:
                return True
    return False


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


def _same_idea(story: Chronicle, id: TopicPartition) -> bool:
    """Whether somebody set an order between an engine's look and its change, or the very order of a begun wave.

    Whose an order is can't be seen in Kafka: once ours may be under way, one that looks the same counts as ours.
    """
    others = [change for change in story.ordered if change.id == id and not _is_engine(change.by)]
    return any(
        _seen_at(story, asked, id) <= change.at <= asked.at + RACE
        for asked in story.requests("designate")
        for ballot in asked.ballots
        if ballot.id == id
        for change in others
    ) or any(
        change.at >= kept.at and change.after == decision.order
        for kept in story.kept
        if kept.name.endswith("-started.json")
        for decision in story.plan(kept.digest).decisions
        if decision.id == id
        for change in others
    )


def _partitions(story: Chronicle) -> list[TopicPartition]:
    return sorted({change.id for change in story.ordered})


def _is_engine(by: str) -> bool:
    return by.startswith(ENGINE)
