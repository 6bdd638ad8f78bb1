"""No change without its record, nobody else's order replaced, none of the engine's left behind."""

from __future__ import annotations

from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.facts import Asked, Ordered, is_engine
from kafka_recovery.simulator.histories.findings import Examined, unless
from kafka_recovery.simulator.histories.judging.ownership import (
    RACE,
    after,
    cause_of,
    owned,
    owned_before,
    somebody_interfered,
)
from kafka_recovery.simulator.histories.judging.told import held_up_by_a_relay
from kafka_recovery.simulator.histories.scenario import Scenario


def nothing_without_its_record(story: Chronicle, scenario: Scenario) -> Examined:
    """Before each change its plan is durable and begun, and its process has written down that its wave is under way."""
    for asked in story.asked:
        for request in asked.requests if asked.what != "approve" else ():
            text = f"{asked.process} asks to {asked.what} {request.id} {list(request.order)}, which no durable plan"
            yield unless(story.decision(asked, request) is not None, asked.at, f"{text} with a begun wave holds")
            begun = any(k.process == asked.process and k.at <= asked.at and request.id in k.wave for k in story.kept)
            text = f"{asked.process} asks to {asked.what} {request.id}, and has begun no wave with it"
            yield unless(begun, asked.at, text)


def nothing_that_was_not_asked(story: Chronicle, scenario: Scenario) -> Examined:
    """What the controller did for an engine is what that engine said it asks for, and nothing else."""
    for change in story.ordered:
        if is_engine(change.by):
            text = f"{change.by} gave {change.id} the assignment {list(change.after)}, which no request of it holds"
            yield unless(cause_of(story, change) is not None, change.at, text)
    for held in story.held:
        if is_engine(held.by):
            named = any(
                asked.process == held.by and asked.at <= held.at and any(b.id == held.id for b in asked.requests)
                for asked in story.requests("elect")
            )
            text = f"{held.by} had broker {held.leader} elected for {held.id}, which no request of it holds"
            yield unless(named, held.at, text)


def plans_know_the_owners_order(story: Chronicle, scenario: Scenario) -> Examined:
    """An order is altered only where the plan knows what its owner wants: else that could never be put back.

    What somebody else changed after the plan was made can't have been known, nor what another machine had borrowed.
    """
    for change in story.ordered:
        asked = cause_of(story, change)
        if asked is None or asked.what != "designate":
            continue
        request = next(request for request in asked.requests if request.id == change.id)
        seen = _seen_at(story, asked, change)
        before = owned_before(story, change)
        if somebody_interfered(story, change, seen):
            continue
        knows = request.assignment == before.wanted or (before.plan is not None and before.machine != asked.machine)
        text = f"{asked.process} alters the order of {change.id} and takes {list(request.assignment)} for the original"
        yield unless(knows, change.at, f"{text} one; its owner wants {list(before.wanted)}{before.told}")


def only_own_orders_are_replaced(story: Chronicle, scenario: Scenario) -> Examined:
    """An order is put back only where this plan's order stands."""
    for change in story.ordered:
        asked = cause_of(story, change)
        if asked is None or asked.what != "restore" or change.before == change.after:
            continue
        request = next(request for request in asked.requests if request.id == change.id)
        own = change.before == request.order or somebody_interfered(story, change, asked.at - RACE)
        text = f"{change.by} put {change.id} back to {list(change.after)}, but {list(change.before)} stood there"
        yield unless(own, change.at, f"{text}, which is not its plan's order")


def no_order_is_left_behind(story: Chronicle, scenario: Scenario) -> Examined:
    """When all is quiet, every partition that an engine has altered stands in the order its owner wants.

    Where a broker that may hold a request never comes back, nobody may restore it: who said so has done what it can.
    """
    for id in sorted({change.id for change in story.ordered if is_engine(change.by)}):
        last = None
        for change in story.ordered:
            if (change.id, change.topic_id) == (id, story.topic_id(id)):
                last = after(story, last, change)
        found = story.assignment(id)
        if last is not None and set(found) == set(last.wanted):
            text = f"{id} is left in the order {list(found)}; its owner wants {list(last.wanted)}{last.told}"
            right = found == last.wanted or held_up_by_a_relay(story, id)
            yield unless(right, story.now, text)


def restored_is_restored(story: Chronicle, scenario: Scenario) -> Examined:
    """Who says that the order is the original one is right: no order of a plan of its machine stands there."""
    for said in story.concluded:
        if not said.outcome.order_restored or said.topic_id is None:
            continue
        stands = owned(story, said.outcome.id, said.topic_id, said.at)
        text = f"{said.process} says that {said.outcome.id} is {said.outcome.outcome} and its order the original one"
        ours = (
            stands is not None and stands.plan is not None and stands.machine == said.machine and is_engine(stands.by)
        )
        but = f"but it is still {list(said.assignment)}{stands.told if stands else ''}"
        yield unless(not ours, said.at, f"{text}, {but}")


def _seen_at(story: Chronicle, asked: Asked, change: Ordered) -> float:
    """When the engine read the order that it is about to change: a gather reads it first, then asks the replicas."""
    looked = story.last_look(asked, change.id)
    return asked.at - RACE if looked is None else looked.at - looked.evidence.cluster.took.total_seconds() - RACE
