"""Disks of simulated brokers, as the real client sees them."""

from __future__ import annotations

from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.simulator.histories.chronicle import Chronicle
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario import (
    VERSION,
    EngineRun,
    Fault,
    Kind,
    Rules,
    Scenario,
    Topic,
    Traffic,
)
from kafka_recovery.simulator.histories.scenario_files import load_scenario

FAILS = f"""version: {VERSION}
seed: 7
brokers: 3
topics:
- name: orders
  assignments: [[1, 2, 3]]
faults:
- {{at: 5, kind: kill, broker: 2}}
- {{at: 6, kind: kill, broker: 3}}
- {{at: 25, kind: log-dir, broker: 1}}
- {{at: 26, kind: start, broker: 2}}
- {{at: 26, kind: start, broker: 3}}
engines:
- {{at: 45}}
"""
"""Broker 1 is the last of the ISR when the log directory with its copy fails."""


def filled(*brokers: int, approves: bool = True) -> Chronicle:
    """Three copies are equal when their leader dies; these brokers' volumes fill up before the engine is called.

    Broker 4 holds none, and is there to be asked.
    """
    scenario = Scenario(
        VERSION,
        seed=7,
        brokers=4,
        topics=(Topic("orders", ((1, 2, 3),)),),
        elr=False,
        rules=Rules(patience=1.0),
        traffic=(Traffic("orders-0", True, 1, 4, 1),),
        faults=(
            *(Fault(8, Kind.KILL, broker) for broker in (2, 3)),
            Fault(20, Kind.KILL, 1),
            *(Fault(21, Kind.START, broker) for broker in (2, 3)),
            *(Fault(26, Kind.FULL_VOLUME, broker) for broker in brokers),
        ),
        engines=(EngineRun(30, approves=approves, thinking=0),),
        quiet_at=120.0,
        lost=(1,),
    )
    history = happen(scenario)
    assert history.findings == ()
    return history.story


def said(story: Chronicle) -> tuple[Outcome, str | None]:
    """What the engine said first of the partition."""
    first = story.concluded[0].outcome
    return first.outcome, first.reason.code if first.reason else None


def test_of_equal_copies_the_one_with_room_is_elected_with_nobody_asked() -> None:
    story = filled(2)

    assert [held.leader for held in story.held if held.by.startswith("engine")] == [3]
    assert story.granted == []


def test_nobody_is_elected_onto_a_full_volume_without_a_persons_word() -> None:
    assert said(filled(2, 3, approves=False)) == (Outcome.REFUSED, "AwaitingApproval")


def test_a_leader_without_room_ends_before_it_leads() -> None:
    """As on Kafka 4.4 (tests/brokers/test_log_directories.py), where that directory is the broker's only one."""
    story = filled(2, 3)

    elected = [held for held in story.held if held.by.startswith("engine")]
    assert [held.leader for held in elected] == [2, 3]
    assert not {held.epoch for held in elected} & {led.epoch for led in story.led}
    assert (len(story.granted), said(story)) == (2, (Outcome.FAILED, "NoCandidate"))


def test_the_engine_is_told_which_log_directory_failed() -> None:
    look, *_ = happen(load_scenario(FAILS, "fails.yaml")).story.looked

    told = {its.broker: [each.error for each in its.directories] for its in look.evidence.cluster.log_directories}
    assert told == {1: [None, "KAFKA_STORAGE_ERROR"], 2: [None], 3: [None]}
