"""KIP-1275's stories: measuring log ends and designating a leader, with and without the rules that make it safe."""

from __future__ import annotations

import pytest

from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    Decided,
    ElectionType,
    ElectLeaders,
    GetReplicaLogInfo,
    Unsupported,
)
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
    story.kill(A)
    story.until_fenced(A)
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
    story.start(C)
    story.until_unfenced(C)
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
    story.kill(A)
    story.until_fenced(A)
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
