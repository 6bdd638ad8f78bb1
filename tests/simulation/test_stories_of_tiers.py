"""Tiered topics (KIP-405): two survivors hold the same, and one has less of it on its own disk."""

from __future__ import annotations

import pytest

from kafka_recovery.simulator.histories.scenario import EngineRun
from simulation.telling import ORDERS, A, B, C, Story
from simulation.with_engine import broken_promises, the_engine_recovers


@pytest.mark.parametrize("tiered", [True, False])
def test_of_equal_logs_of_a_tiered_topic_the_engine_elects_the_one_with_more_on_its_own_disk(tiered: bool) -> None:
    """B stands before C in the assignment, and leads where nothing else decides."""
    story = Story(A, B, C)
    if tiered:
        story.set_tiered("orders")
    story.write("r", records=20)
    story.run_for(5)
    story.delete_locally(B, ORDERS, 15)
    story.delete_locally(C, ORDERS, 5)
    for broker in (B, C):
        story.kill_and_fence(broker)
    story.kill_and_fence(A)
    for broker in (B, C):
        story.bring_back(broker)
    story.run_for(1)
    assert story.leader is None

    said = the_engine_recovers(story, run=EngineRun(story.scheduler.now))

    assert said.chosen == (C if tiered else B)
    assert broken_promises(story) == set()
