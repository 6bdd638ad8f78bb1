"""What released Kafka does in the hazards that the engine must live with, as measured on real brokers."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.ids import LeaderEpoch
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    ApiVersions,
    At,
    DescribeQuorum,
    ElectionType,
    ElectLeaders,
    ListOffsets,
    QuorumDescribed,
    Refused,
    Versions,
)
from simulation.incidents import left_by_its_leader
from simulation.telling import ORDERS, A, B, C, Story


def unclean(by: str = "engine") -> ElectLeaders:
    return ElectLeaders(ElectionType.UNCLEAN, (ORDERS,), by)


def test_a_replica_under_another_epoch_says_which_side_is_behind() -> None:
    story = left_by_its_leader("late")
    epoch = story.state.leader_epoch
    asked = [ListOffsets({ORDERS: LeaderEpoch(epoch + by)}, debugging=True) for by in (-1, 0, 1)]
    codes = [story.ask(B, request).partitions[ORDERS].error for request in asked]
    assert codes == [Error.FENCED_LEADER_EPOCH, Error.NONE, Error.UNKNOWN_LEADER_EPOCH]
    asked_as_consumer = story.ask(B, ListOffsets({ORDERS: epoch})).partitions[ORDERS]
    assert asked_as_consumer.error is Error.NOT_LEADER_OR_FOLLOWER
    newest = story.ask(B, ListOffsets({ORDERS: epoch}, At.MAX_TIMESTAMP, debugging=True)).partitions[ORDERS]
    assert (newest.offset, newest.leader_epoch) == (0, 0)


def test_the_newest_timestamp_may_be_that_of_a_former_leader_whose_clock_was_ahead() -> None:
    """ListOffsets MAX_TIMESTAMP names that record's epoch: a hint at the last one's, and no proof."""
    story = Story(A, B, C)
    story.jump_clock(A, 3600)
    story.write("ahead")
    story.kill(A)
    assert story.until_led() == B
    story.write("later")
    story.run_for(1)
    asked = ListOffsets({ORDERS: story.state.leader_epoch}, At.MAX_TIMESTAMP, debugging=True)
    newest = story.ask(C, asked).partitions[ORDERS]

    assert story.holds(C) == ["ahead", "later"]
    assert (newest.offset, newest.leader_epoch) == (0, 0)


def test_a_dead_process_refuses_and_a_dead_host_is_silent() -> None:
    story = left_by_its_leader("late")
    assert story.ask(A, ApiVersions()) == Refused(A)
    story.host_crash(A)
    answers: list[Versions | Refused] = []
    story.request("client", A, ApiVersions(), answers.append)
    story.run_for(30)
    assert answers == []


@pytest.mark.parametrize("full", [A, C])
def test_a_broker_without_room_on_its_volume_ends_at_the_next_record_that_it_would_hold(full: int) -> None:
    """Be it the leader or a follower: Kafka takes its only log directory offline, and stops the process."""
    story = Story(A, B, C)
    story.write("with room")
    story.run_for(1)
    story.fill_volume(full)
    assert story.alive(full)
    story.write("without")
    story.run_for(1)

    assert not story.alive(full)
    assert story.holds(full) == ["with room"]


def test_an_election_sent_while_the_controller_is_gone_takes_effect_when_it_returns() -> None:
    story = left_by_its_leader("late")
    story.pause_controller()
    answers: list[object] = []
    story.request("engine", B, unclean(), answers.append)
    story.run_for(40)
    applied = story.ask(B, ApiVersions()).metadata_offset
    story.run_for(2)
    assert story.ask(B, ApiVersions()).metadata_offset == applied, "metadata stands still"
    assert answers == []
    assert story.leader is None
    story.thaw_controller()
    assert story.until_led() == B


def test_after_sixty_seconds_without_a_controller_the_outcome_is_left_open() -> None:
    story = left_by_its_leader("late")
    story.pause_controller()
    assert story.ask(B, DescribeQuorum()) == QuorumDescribed(Error.REQUEST_TIMED_OUT, -1)


def test_below_min_insync_replicas_the_new_leader_neither_acknowledges_nor_tells_its_end() -> None:
    story = left_by_its_leader("late")
    story.set_min_isr("orders", 2)
    story.pause(C)
    story.until_fenced(C)
    story.ask(B, unclean())
    story.until_led()
    sent = story.begin_to_write("later")
    story.run_for(3)
    assert sent.acknowledged_at is None
    story.thaw(C)
    story.until_isr(B, C)
    assert not story.run_while(lambda: sent.acknowledged_at is None)


def test_a_failed_log_directory_is_answered_as_a_storage_error_and_cannot_lead() -> None:
    story = left_by_its_leader("late")
    story.log_dir_offline(B, [ORDERS])
    story.run_for(0.1)
    found = story.ask(B, ListOffsets({ORDERS: story.state.leader_epoch}, debugging=True)).partitions[ORDERS]
    assert found.error is Error.KAFKA_STORAGE_ERROR
    story.ask(C, unclean())
    assert story.until_led() == C


def test_a_leader_whose_log_directory_fails_is_followed_by_an_in_sync_replica() -> None:
    """Its followers' fetches are answered with a storage error until they know better."""
    story = Story(A, B, C, min_isr=2)
    story.write("r")
    heartbeats = story.hold(A, "controller-1", "Heartbeat")
    story.log_dir_offline(A, [ORDERS])
    story.run_for(2)
    assert story.leader == A
    heartbeats.release()
    assert story.until_led() == B
    story.write("s")

    assert (set(story.isr), story.lost()) == ({B, C}, set())
