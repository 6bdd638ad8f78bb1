"""What released Kafka does in the hazards that the engine must live with, as measured on real brokers."""

from __future__ import annotations

import pytest

from kafka_recovery.domain.ids import LeaderEpoch
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    AlterReassignments,
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
from kafka_recovery.simulator.model.timeline import What
from simulation.incidents import left_by_its_leader
from simulation.telling import ORDERS, A, B, C, Story


def unclean(by: str = "engine") -> ElectLeaders:
    return ElectLeaders(ElectionType.UNCLEAN, (ORDERS,), by)


def test_an_unclean_election_takes_the_first_live_replica_in_assignment_order() -> None:
    story = left_by_its_leader("late")
    before = story.state
    assert story.ask(B, AlterReassignments({ORDERS: (C, B, A)}, "engine")).partitions == {ORDERS: Error.NONE}
    assert story.state[2:5] == before[2:5], "the order changes neither ISR, leader nor epoch"
    assert story.ask(B, unclean()).partitions == {ORDERS: Error.NONE}
    assert story.until_led() == C
    assert story.state.leader_epoch == before.leader_epoch + 1
    assert story.ask(B, unclean()).partitions == {ORDERS: Error.ELECTION_NOT_NEEDED}


def test_a_candidate_that_died_and_is_not_fenced_yet_is_elected_and_the_answer_is_none() -> None:
    story = left_by_its_leader("late")
    story.kill(B)
    assert story.ask(C, unclean()).partitions == {ORDERS: Error.NONE}
    assert (story.leader, story.isr) == (B, (B,))
    story.until_fenced(B)
    assert story.leader is None


@pytest.mark.parametrize("elr", [True, False])
def test_a_last_leader_that_comes_back_with_an_empty_disk_is_elected_by_the_controller_itself(elr: bool) -> None:
    story = left_by_its_leader("late", elr=elr)
    assert story.state.last_known_elr == ((A,) if elr else ())
    story.replace_disk(A)
    story.start(A)
    assert story.until_led() == A
    assert story.lost() == {"early", "late"}
    story.run_for(5)
    assert story.holds(B) == story.holds(C) == []


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


def test_an_isolated_leader_goes_on_acknowledging_acks_1_and_never_acks_all() -> None:
    story = Story(A, B, C, min_isr=2)
    story.isolate(A, from_brokers=True)
    one = story.begin_to_write("one", acks="1")
    all_ = story.producer("all", ORDERS, bootstrap=A).send()
    story.run_for(2)
    assert one.acknowledged_at is not None
    assert all_.acknowledged_at is None


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


def test_a_reassignment_by_others_ends_when_the_new_replicas_are_in_sync() -> None:
    story = Story(A, B, brokers=(A, B, C))
    story.write("r")
    assert story.reassign(ORDERS, [C, B]) is Error.NONE
    assert not story.run_while(lambda: bool(story.state.adding or story.state.removing))
    story.run_for(1)
    assert (story.state.replicas, story.leader) == ((C, B), C)
    assert story.lost() == set()
    assert story.truth.log_end(A, ORDERS) == 0, "the old replica is deleted"


def test_with_elr_a_member_that_stopped_cleanly_is_elected_cleanly_and_one_that_was_killed_is_not() -> None:
    story = Story(A, B, C, min_isr=2, elr=True)
    story.shut_down(C)
    story.until_isr(A, B)
    story.write("r")
    story.kill(A)
    story.until_isr(B)
    assert story.state.elr == (A,)
    story.shut_down(B)
    story.until_isr()
    assert set(story.state.elr) == {A, B}
    story.start(A)
    story.until_unfenced(A)
    assert (story.leader, story.state.elr) == (None, (B,))
    story.start(B)
    assert story.until_led() == B
    assert not [event for event in story.timeline.of(What.ELECTED) if event.details["unclean"]]
