"""What became of a partition: which word about it still holds, and what its elections cost."""

from __future__ import annotations

from dataclasses import replace

from kafka_recovery.domain.policy import Approval, Policy, Rule
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario import EngineRun, Fault, Kind, Scenario, Topic, Traffic
from kafka_recovery.simulator.rehearsal.fates import Ending, Fate, fates
from kafka_recovery.simulator.rehearsal.rehearse import given

REFUSING = Policy((Rule("all", approval=Approval.AUTO, min_replication_factor=4),))
ELECTING = Policy((Rule("all", approval=Approval.AUTO),))

FALLEN = Scenario(
    1,
    seed=5,
    brokers=3,
    topics=(Topic("orders", ((1, 2, 3),)),),
    elr=False,
    traffic=(Traffic("orders-0", True, 1, 40, 0.5),),
    faults=(Fault(5, Kind.KILL, 2), Fault(10, Kind.KILL, 3), Fault(15, Kind.KILL, 1), Fault(20, Kind.START, 2)),
    engines=(EngineRun(30),),
    quiet_at=80.0,
)
"""Two replicas have more than broker 2, and are gone when it comes back."""

OVERTHROWN = replace(
    FALLEN,
    traffic=(Traffic("orders-0", True, 0, 60, 25),),
    faults=(
        Fault(26, Kind.FREEZE, 2),
        Fault(26, Kind.FREEZE, 3),
        Fault(30, Kind.ISOLATE, 1),
        Fault(30, Kind.HIDE, 1),
        Fault(31, Kind.THAW, 2),
        Fault(31, Kind.THAW, 3),
    ),
    engines=(EngineRun(36),),
)
"""Broker 1 is overthrown, is not told, and acknowledges another record."""


def fate(scenario: Scenario, policy: Policy) -> Fate:
    played = given(scenario, policy)
    return next(fates(happen(played, timeline=True).story, played.quiet_at, policy))


def test_what_the_engine_refused_and_nothing_changed_is_refused() -> None:
    told = fate(FALLEN, REFUSING)

    assert (told.ending, told.reason) == (Ending.REFUSED, "ReplicationFactorTooLow")


def test_a_refusal_does_not_speak_for_a_leader_that_fell_after_it() -> None:
    back_and_gone = (Fault(45, Kind.START, 1), Fault(60, Kind.KILL, 1), Fault(60, Kind.KILL, 2))
    told = fate(replace(FALLEN, faults=(*FALLEN.faults, *back_and_gone)), REFUSING)

    assert (told.ending, told.said, told.reason) == (Ending.UNTOUCHED, None, None)


def test_what_an_overthrown_leader_acknowledges_is_lost_by_the_election_that_overthrew_it() -> None:
    told = fate(OVERTHROWN, ELECTING)

    assert (told.ending, told.lost, told.lost_otherwise) == (Ending.ELECTED, 1, 0)


def test_what_an_overthrown_leader_acknowledges_is_not_lost_by_a_later_election() -> None:
    """Broker 2 is elected instead of 1, falls, and 3 is elected: what 1 acknowledges then was lost to broker 2."""
    later = replace(
        OVERTHROWN,
        traffic=(Traffic("orders-0", True, 0, 100, 35),),
        faults=(*OVERTHROWN.faults, Fault(42.5, Kind.KILL, 3), Fault(50, Kind.KILL, 2), Fault(52, Kind.START, 3)),
        engines=(EngineRun(36), EngineRun(56)),
        quiet_at=110.0,
    )
    story = happen(given(later, ELECTING), timeline=True).story
    mine = [held for held in story.held if held.by.startswith("engine")]

    assert [len(story.lost_later(held)) for held in mine] == [1, 0]
