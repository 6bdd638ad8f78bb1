"""Bugs of released Kafka that its real brokers have shown: the model has each behind a switch, and can leave it out."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.model.timeline import What
from simulation.telling import A, B, C, Story, unless

BUG = "cleared_members_are_forgotten"
GONE = TopicPartition("gone", 0)
LONG = 40.0
"""Seconds in which a broker registers many times, and is let in at once where nothing is wrong."""

switched = pytest.mark.parametrize("fixed", [True, False], ids=["fixed", "as in 4.0 to 4.4"])


def told(*, fixed: bool, cleared: bool = True, controllers: int = 1) -> Story:
    """B was in the ELR of a topic; mostly that was cleared."""
    story = Story(A, C, elr=True, off=unless(fixed, BUG), controllers=controllers)
    story.create_topic("gone", [[A, B]], min_isr=2)
    story.run_for(1)
    story.kill_and_fence(B)
    state = story.truth.state(GONE)
    assert (state and state.elr) == (B,)
    if cleared:
        story.set_min_isr("gone", 1)
    return story


def failures(story: Story) -> list[str]:
    """Of controllers, one after the other."""
    return [event.actor for event in story.timeline.of(What.FAULT) if "failed" in event.details]


@switched
def test_a_member_of_a_cleared_elr_whose_topic_is_gone_fails_the_controller_whenever_it_registers(fixed: bool) -> None:
    """The controller is the only one, is elected again, and fails again at the broker's next try."""
    story = told(fixed=fixed)
    story.delete_topic("gone")
    story.start(B)
    story.run_for(LONG)

    assert story.truth.fenced(B) is not fixed
    assert (len(failures(story)) > 5) is not fixed


@switched
def test_another_controller_fails_as_well(fixed: bool) -> None:
    story = told(fixed=fixed, controllers=3)
    story.delete_topic("gone")
    story.start(B)
    story.run_for(LONG)

    assert (len(set(failures(story))) > 1) is not fixed


@switched
def test_it_makes_no_difference_whether_the_broker_was_back_before_the_topic_went(fixed: bool) -> None:
    story = told(fixed=fixed)
    story.bring_back(B)
    story.run_for(5)
    assert failures(story) == []
    story.delete_topic("gone")
    story.kill_and_fence(B)
    story.start(B)
    story.run_for(LONG)

    assert story.truth.fenced(B) is not fixed


def test_a_topic_whose_elr_was_not_cleared_leaves_nothing_behind() -> None:
    story = told(fixed=False, cleared=False)
    story.delete_topic("gone")
    story.bring_back(B)

    assert failures(story) == []


def test_a_broker_that_is_stopped_in_order_registers_in_peace() -> None:
    story = told(fixed=False)
    story.bring_back(B)
    story.delete_topic("gone")
    story.shut_down(B)
    story.run_for(5)
    story.bring_back(B)

    assert failures(story) == []


def test_who_has_left_a_later_elr_of_the_topic_is_no_member_any_more() -> None:
    """As Kafka's code says it; no real broker was seen to do it."""
    story = told(fixed=False)
    story.set_min_isr("gone", 2)
    story.start(B)
    story.run_for(8)
    story.kill_and_fence(B)
    state = story.truth.state(GONE)
    assert (state and state.elr) == (B,), "a member again"
    story.start(B)
    story.run_for(8)
    story.delete_topic("gone")
    story.kill_and_fence(B)
    story.bring_back(B)

    assert failures(story) == []


def test_with_a_topic_goes_all_that_its_last_members_had_in_it() -> None:
    """As Kafka's code says it: B is a member of one partition when the topic goes, and was one of the other before."""
    story = Story(A, C, elr=True, off=unless(False, BUG))
    story.create_topic("gone", [[A, B], [A, B, C]], min_isr=3)
    story.run_for(1)
    story.kill_and_fence(B)
    story.set_min_isr("gone", 2)
    story.start(B)
    story.run_for(8)
    story.kill_and_fence(B)
    members = [
        state and state.elr for state in (story.truth.state(GONE), story.truth.state(GONE._replace(partition=1)))
    ]
    assert members == [(B,), ()]
    story.delete_topic("gone")
    story.bring_back(B)

    assert failures(story) == []
