"""KIP-1275's stories: measuring log ends and designating a leader, with and without the rules that make it safe."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.grants import Operation
from kafka_recovery.simulator.model.requests import (
    SERVED,
    Decided,
    ElectionType,
    ElectLeaders,
    GetReplicaLogInfo,
    Unsupported,
)
from simulation.incidents import left_by_its_leader
from simulation.telling import ORDERS, A, B, C, Story, unless

switched = pytest.mark.parametrize("on", [True, False], ids=["on", "off"])


def reassigned_and_offline(on: bool) -> Story:
    """`orders` has four records on A and two on B; C, first in the new order, is empty. A dies for good."""
    story = Story(A, B, off=unless(on, "designated_elections"))
    story.write("early", records=2)
    story.pause(B)
    story.until_fenced(B)
    story.write("late", records=2)
    story.cut(C, A)
    story.reassign(ORDERS, [C, A, B])
    story.run_for(0.5)
    story.kill_and_fence(A)
    story.thaw(B)
    story.until_unfenced(B)
    story.run_for(1)
    assert story.leader is None
    return story


@switched
def test_kip_1275_an_empty_new_replica_is_chosen_unless_the_longest_log_is_designated(on: bool) -> None:
    """The motivation: the reassignment had only begun, so the new replica has nothing at all."""
    story = reassigned_and_offline(on)
    state = story.state
    asked = GetReplicaLogInfo(((ORDERS, state.topic_id),))
    answers = {broker: story.ask(B, asked) if broker == B else story.ask(C, asked) for broker in (B, C)}
    if on:
        ends = {broker: answer.partitions[ORDERS].log_end for broker, answer in answers.items()}
        assert ends == {B: 2, C: 0}
        best = max(ends, key=lambda broker: ends[broker])
        request = ElectLeaders(ElectionType.DESIGNATED, (ORDERS,), "tool", (best,))
    else:
        assert set(answers.values()) == {Unsupported()}
        request = ElectLeaders(ElectionType.UNCLEAN, (ORDERS,), "tool")
    decided = story.ask(B, request)
    leader = story.until_led()

    assert decided.partitions == {ORDERS: Error.NONE}
    assert leader == (B if on else C)
    assert story.lost() == ({"late"} if on else {"early", "late"})


@switched
def test_kip_1275_a_designation_that_is_overtaken_by_a_returning_elr_member_does_nothing(on: bool) -> None:
    """Between the tool's look and its election, a replica that holds everything comes back and leads."""
    story = Story(A, B, C, min_isr=2, elr=True, off=unless(on, "designation_offline_only"))
    story.shut_down(C)
    story.until_isr(A, B)
    story.write("r")
    story.shut_down(B)
    story.until_isr(A)
    story.shut_down(A)
    story.until_isr()
    story.bring_back(C)
    state = story.state
    assert (state.leader, state.isr, set(state.elr)) == (None, (), {A, B})
    looked = story.ask(C, GetReplicaLogInfo(((ORDERS, state.topic_id),)))
    assert looked.partitions[ORDERS].log_end == 0
    late = story.hold("tool", C, "ElectLeaders")
    answers: list[object] = []
    designation = ElectLeaders(ElectionType.DESIGNATED, (ORDERS,), "tool", (C,))
    story.request("tool", C, designation, answers.append)
    story.start(A)
    assert story.until_led() == A
    late.release()
    story.run_for(1)
    story.start(B)
    story.run_for(10)

    assert answers == [Decided(Error.NONE, {ORDERS: Error.ELECTION_NOT_NEEDED if on else Error.NONE})]
    assert story.leader == (A if on else C)
    assert story.lost() == (set() if on else {"r"})


@switched
def test_kip_1275_a_fenced_broker_answers_about_its_log_but_cannot_be_designated(on: bool) -> None:
    """The tool reaches a broker that the controller does not; the replica that has everything is about to return."""
    story = Story(A, B, C, off=unless(on, "designation_eligible_only"))
    story.write("both")
    story.isolate(C, from_brokers=True)
    story.until_fenced(C)
    story.write("r")
    story.kill(B)
    story.until_isr(A)
    story.kill_and_fence(A)
    state = story.state
    assert story.truth.fenced(C)
    looked = story.ask(C, GetReplicaLogInfo(((ORDERS, state.topic_id),)))
    assert looked.partitions[ORDERS] == (Error.NONE, 0, 1)
    assert looked.broker_epoch == story.truth.broker_epoch(C)

    story.start(B, recovery=1)
    story.until_unfenced(B)
    story.run_for(1)
    code = story.ask(B, ElectLeaders(ElectionType.DESIGNATED, (ORDERS,), "tool", (C,))).partitions[ORDERS]
    story.heal(C)
    story.start(A)
    story.run_for(20)

    assert code is (Error.ELIGIBLE_LEADERS_NOT_AVAILABLE if on else Error.NONE)
    assert story.leader == (A if on else C)
    assert story.lost() == (set() if on else {"r"})


def designated(*leaders: int, timeout: float = 60.0) -> ElectLeaders:
    return ElectLeaders(ElectionType.DESIGNATED, (ORDERS,), "tool", tuple(map(BrokerId, leaders)), timeout)


def test_a_broker_is_asked_for_all_it_holds_in_requests_of_a_thousand() -> None:
    story = Story(A, B, C)
    many = story.create_topic("many", [[B, C]] * 1500)
    story.run_for(20)
    wanted = tuple((TopicPartition("many", index), many) for index in range(1500))

    whole = story.ask(B, GetReplicaLogInfo(None))
    first = story.ask(B, GetReplicaLogInfo(wanted))
    rest = story.ask(B, GetReplicaLogInfo(wanted[len(first.partitions) :]))

    assert (len(whole.partitions), whole.has_more_data) == (SERVED, True)
    assert ORDERS in whole.partitions
    assert (len(first.partitions), first.has_more_data) == (SERVED, True)
    assert (len(rest.partitions), rest.has_more_data) == (500, False)
    assert {found.error for found in (*first.partitions.values(), *rest.partitions.values())} == {Error.NONE}


def test_of_a_designated_election_the_first_thousand_are_served_and_the_others_left_out() -> None:
    story = Story(A, B, C)
    story.create_topic("many", [[B]] * 1200)
    story.kill_and_fence(B)
    story.start(B)
    ids = tuple(TopicPartition("many", index) for index in range(1200))
    decided = story.ask(A, ElectLeaders(ElectionType.DESIGNATED, ids, "tool", (B,) * 1200))

    assert tuple(decided.partitions) == ids[:SERVED]


def test_every_partition_has_its_leader_at_the_same_place_and_a_request_where_they_dont_match_is_invalid() -> None:
    story = left_by_its_leader()
    assert story.ask(B, designated(B, C)) == Decided(Error.INVALID_REQUEST, {})
    assert story.ask(B, designated()) == Decided(Error.INVALID_REQUEST, {})
    nobody_named = ElectLeaders(ElectionType.DESIGNATED, (ORDERS,), "tool")
    everything = ElectLeaders(ElectionType.DESIGNATED, None, "tool", (C,))
    assert story.ask(B, nobody_named) == story.ask(B, everything) == Decided(Error.INVALID_REQUEST, {})
    gone = TopicPartition("orders", 7)
    two = ElectLeaders(ElectionType.DESIGNATED, (gone, ORDERS), "tool", (B, C))
    assert story.ask(B, two).partitions == {gone: Error.UNKNOWN_TOPIC_OR_PARTITION, ORDERS: Error.NONE}
    assert story.until_led() == C


def test_why_a_replica_cant_be_measured_is_told_for_each_partition() -> None:
    story = left_by_its_leader()
    topic_id = story.state.topic_id
    story.log_dir_offline(C, [ORDERS])
    elsewhere = story.create_topic("elsewhere", [[B]])
    story.run_for(1)
    asked = GetReplicaLogInfo(
        ((ORDERS, topic_id), (TopicPartition("elsewhere", 0), elsewhere), (TopicPartition("orders", 9), topic_id))
    )
    found = story.ask(C, asked)

    assert [info.error for info in found.partitions.values()] == [
        Error.KAFKA_STORAGE_ERROR,
        Error.UNKNOWN_TOPIC_ID,
        Error.UNKNOWN_TOPIC_ID,
    ]
    assert {(info.leader_epoch, info.log_end) for info in found.partitions.values()} == {(-1, -1)}


def test_who_may_not_act_on_the_cluster_neither_measures_nor_designates() -> None:
    story = left_by_its_leader()
    asked = GetReplicaLogInfo(((ORDERS, story.state.topic_id),), by="tool")
    story.grants.deny("tool", Operation.CLUSTER_ACTION)
    assert story.ask(B, asked).partitions[ORDERS].error is Error.CLUSTER_AUTHORIZATION_FAILED
    assert story.ask(B, designated(B)) == Decided(Error.CLUSTER_AUTHORIZATION_FAILED, {})
    story.grants.allow("tool", Operation.CLUSTER_ACTION)
    story.grants.deny("tool", Operation.DESCRIBE, "orders")
    assert story.ask(B, asked).partitions[ORDERS].error is Error.TOPIC_AUTHORIZATION_FAILED
    story.grants.allow("tool", Operation.DESCRIBE, "orders")
    assert story.ask(B, asked).partitions[ORDERS] == (Error.NONE, story.state.leader_epoch, 1)
    assert story.ask(B, designated(B)).partitions == {ORDERS: Error.NONE}


def test_a_client_over_its_quota_is_told_for_how_long_it_shall_wait() -> None:
    story = left_by_its_leader()
    asked = GetReplicaLogInfo(((ORDERS, story.state.topic_id),), by="tool")
    story.grants.pauses["tool"] = 4.0

    assert story.ask(B, asked).throttled == 4.0
    assert story.ask(B, replace(asked, by="another")).throttled == 0.0


def test_a_designated_election_is_answered_in_its_time_and_takes_effect_later_all_the_same() -> None:
    """TimeoutMs. The controller is away, the broker goes on forwarding: unanswered does not mean undone."""
    story = left_by_its_leader()
    story.pause_controller()
    began = story.scheduler.now
    assert story.ask(B, designated(C, timeout=5.0)) == Decided(Error.REQUEST_TIMED_OUT, {})
    assert 5 <= story.scheduler.now - began < 7
    assert story.leader is None
    story.thaw_controller()

    assert story.until_led() == C
