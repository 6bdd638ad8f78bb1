"""Where an oracle grows soft: excuses that cover too much, bounds of somebody else's rule, evidence that is forgotten.

The honest engine keeps every promise in these histories; listed mutations break one there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.policy import Approval, CandidateOrder, Policy, Rule, TopicSelector
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario import (
    Command,
    EngineRun,
    Fault,
    Kind,
    Rules,
    Scenario,
    Topic,
    Traffic,
    Upon,
)
from kafka_recovery.simulator.rehearsal.rehearse import given
from simulation.telling import Story

ONE_AFTER_THE_OTHER = (
    Fault(5, Kind.KILL, 2),
    Fault(10, Kind.KILL, 3),
    Fault(15, Kind.KILL, 1),
    Fault(20, Kind.START, 2),
    Fault(20, Kind.START, 3),
)
"""Broker 1 leads what 2 and 3 have not, and does not come back; 3 has more than 2."""

ORDERS = (Topic("orders", ((1, 2, 3),)),)


def incident(*more: Fault, **changed: Any) -> Scenario:
    """One partition whose last leader stays away; one engine is called."""
    usual = Scenario(
        1,
        seed=7,
        brokers=3,
        topics=ORDERS,
        elr=False,
        rules=Rules(patience=1.0),
        traffic=(Traffic("orders-0", True, 1, 80, 1),),
        faults=(*ONE_AFTER_THE_OTHER, *more),
        engines=(EngineRun(30),),
        quiet_at=100.0,
    )
    return replace(usual, **changed)


TWO_TURNS = incident(
    topics=(Topic("orders", ((1, 2, 3), (1, 3, 2), (1, 2, 3))),),
    rules=Rules(patience=1.0, approval=Approval.MANUAL),
    engines=(EngineRun(30, thinking=10),),
    within=5.0,
)
"""The person who is asked takes longer than the run may take."""

SILENT_LEADER = incident(
    Fault(30, Kind.HIDE, upon=Upon.ELECT, designated=True),
    within=5.0,
    quiet_at=700.0,
)


PLANNED_TWICE = incident(
    Fault(29, Kind.HIDE, upon=Upon.APPROVE, designated=True, lasting=9),
    rules=Rules(patience=1.0, approval=Approval.MANUAL),
    engines=(EngineRun(30, thinking=2),),
)
"""The designated broker is silent at the last look; a little later it is designated again, on the same log."""


TWO_TOPICS = incident(
    topics=(*ORDERS, Topic("payments", ((1, 2),))),
    rules=Rules(patience=1.0, min_replication_factor=3),
)
"""Nobody asked for payments: too few replicas."""


SAME_IDEA_LATER = incident(
    Fault(60, Kind.REASSIGN, partition="orders-0", replicas=(3, 2, 1)),
    engines=(EngineRun(30), EngineRun(70, Command.UNDO)),
)
"""Long after the plan was finished, somebody wants for good the very order that it had used."""


BACK_WHILE_ASKED = incident(
    topics=(Topic("orders", ((1, 2, 3),), min_isr=2),),
    elr=True,
    faults=(
        Fault(5, Kind.KILL, 3),
        Fault(10, Kind.FREEZE, 2),
        Fault(15, Kind.KILL, 1),
        Fault(20, Kind.START, 3),
        Fault(29, Kind.ISOLATE, 2, upon=Upon.APPROVE),
        Fault(29, Kind.THAW, 2, upon=Upon.APPROVE, later=1),
    ),
    rules=Rules(patience=20.0, approval=Approval.MANUAL),
    engines=(EngineRun(30, thinking=15),),
    quiet_at=140.0,
)
"""A member of the ELR answers again while a person thinks, but the controller does not hear it."""


SMALL_ARE_REFUSED = given(
    incident(),
    Policy(
        (
            Rule("others", TopicSelector(names=("others",)), approval=Approval.AUTO),
            Rule("orders", min_replication_factor=4, approval=Approval.AUTO),
        )
    ),
)
LONGEST_OF_ORDERS = given(
    incident(
        traffic=(Traffic("orders-0", True, 1, 80, 1), Traffic("orders-0", False, 1, 7.5, 0.2, 5)),
        faults=(
            Fault(4, Kind.CUT, 1, other=2, lasting=40),
            Fault(4, Kind.CUT, 1, other=3, lasting=40),
            Fault(8, Kind.KILL, 1),
            Fault(16, Kind.KILL, 3),
            Fault(22, Kind.KILL, 2),
            Fault(24, Kind.START, 1),
            Fault(24, Kind.START, 3),
        ),
    ),
    Policy(
        (
            Rule("others", TopicSelector(names=("others",)), approval=Approval.AUTO),
            Rule("orders", candidate_order=CandidateOrder.LONGEST_LOG, approval=Approval.AUTO),
        )
    ),
)
"""Broker 1 has the longest log and broker 3 the newest epoch."""
NOT_SELECTED = given(incident(), Policy((Rule("others", TopicSelector(names=("others",)), approval=Approval.AUTO),)))


OVERTHROWN = incident(
    faults=(
        Fault(26, Kind.FREEZE, 2),
        Fault(26, Kind.FREEZE, 3),
        Fault(30, Kind.ISOLATE, 1),
        Fault(30, Kind.HIDE, 1),
        Fault(31, Kind.THAW, 2),
        Fault(31, Kind.THAW, 3),
    ),
    traffic=(Traffic("orders-0", True, 0, 60, 25),),
    engines=(EngineRun(36),),
    knows_history=True,
    quiet_at=80.0,
)
"""Broker 1 alone is in sync, cut off from the controller and hidden from the engine, and still has its producer.

Nothing is lost at the moment of the election; what broker 1 acknowledges afterwards is.
"""


FOUND_BY_ITSELF = incident(
    rules=Rules(min_replication_factor=4), engines=(EngineRun(30, whole_cluster=True),), quiet_at=60.0
)
"""Nobody names a partition, and no plan elects one."""

CORNERS = {
    "a person takes longer than the run may": TWO_TURNS,
    "a leader falls silent, and time is over soon": SILENT_LEADER,
    "the same is designated twice": PLANNED_TWICE,
    "nobody asked for one of two topics": TWO_TOPICS,
    "somebody orders another way, in a topic that is deleted later": incident(
        Fault(30, Kind.REASSIGN, upon=Upon.ELECT, later=0.02, partition="orders-0", replicas=(1, 3, 2)),
        Fault(90, Kind.RECREATE, partition="orders-0"),
    ),
    "an owner's order like that of a finished plan": SAME_IDEA_LATER,
    "a member is back while a person thinks": BACK_WHILE_ASKED,
    "a rule's replication factor": SMALL_ARE_REFUSED,
    "a topic without a rule": NOT_SELECTED,
    "a refusal that nobody asked about": FOUND_BY_ITSELF,
}


@pytest.mark.parametrize("corner", CORNERS)
def test_the_honest_engine_keeps_every_promise_there(corner: str) -> None:
    assert "\n".join(map(str, happen(CORNERS[corner]).findings)) == ""


def test_a_partition_that_never_was_has_no_states() -> None:
    """Garbled answers name such ones, and the oracle judges what an engine says of them."""
    story = Story(BrokerId(1))
    story.run_for(1)

    assert story.chronicle.states(TopicPartition("nobody-made-it", 0), 0.0, 1.0) == ()
