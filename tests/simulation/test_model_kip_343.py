"""KIP-343's states, incarnations, timeouts and its ISR request; KIP-903's other half."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.messages import BrokerStatus, Heartbeat, IsrChangeRequest, IsrProposal
from kafka_recovery.simulator.model.settings import IsrRpc, Settings
from kafka_recovery.simulator.model.switches import AS_RELEASED
from kafka_recovery.simulator.model.timeline import What
from simulation.telling import CONTROLLER, ORDERS, A, B, C, Story


def test_a_broker_goes_from_initial_over_inactive_to_active_and_stopping() -> None:
    story = Story(A, B, C)
    story.kill(B)
    story.start(B)
    seen = [story.brokers[B].heartbeats.status]

    def watch() -> bool:
        status = story.brokers[B].heartbeats.status
        if status is not seen[-1]:
            seen.append(status)
        return story.alive(B)

    story.scheduler.after(20, lambda: story.shut_down(B))
    assert not story.run_while(watch, at_most=40)
    former, *own = seen
    assert former is BrokerStatus.ACTIVE, "the last word to the process that was killed"
    assert own == [BrokerStatus.INITIAL, BrokerStatus.INACTIVE, BrokerStatus.ACTIVE, BrokerStatus.STOPPING]


def test_incarnations_rise_and_an_older_one_is_refused() -> None:
    story = Story(A, B, C)
    former = story.truth.broker_epoch(B)
    story.kill(B)
    story.start(B)
    story.run_for(10)
    assert story.truth.broker_epoch(B) > former
    late = Heartbeat(B, former, BrokerStatus.ACTIVE, 10**6)
    assert story.controllers.membership.heartbeat(late).error is Error.INVALID_INCARNATION_ID


@pytest.mark.parametrize("checked", [True, False])
def test_a_late_heartbeat_of_a_former_incarnation_counts_only_with_the_check_off(checked: bool) -> None:
    story = Story(A, B, C, off=() if checked else ("incarnations_checked",))
    former = story.truth.broker_epoch(B)
    story.kill_and_fence(B)
    heartbeats = story.hold(B, CONTROLLER, "Heartbeat")
    story.start(B)
    assert not story.run_while(lambda: heartbeats.held == 0)
    assert story.truth.broker_epoch(B) > former
    story.controllers.membership.heartbeat(Heartbeat(B, former, BrokerStatus.ACTIVE, 10**6))
    assert story.truth.fenced(B) is checked


def test_the_controller_gives_a_broker_up_before_the_broker_fences_itself() -> None:
    story = Story(A, B, C, on=("brokers_fence_themselves",))
    story.isolate(A)
    story.run_for(20)
    times = {event.what: event.at for event in story.timeline.of(What.FENCED, What.SELF_FENCED)}
    assert times[What.FENCED] < times[What.SELF_FENCED]
    story.heal(A)
    story.until_isr(A, B, C)


def test_a_legacy_broker_counts_as_active_without_reaching_the_controller() -> None:
    kafka = SimulatedKafka(
        1, legacy=[1], settings=Settings(elr=False), switches=replace(AS_RELEASED, brokers_fence_themselves=True)
    )
    kafka.isolate(1)
    kafka.run_for(30)
    assert not kafka.truth.fenced(1)
    kafka.kill(1)
    kafka.run_for(10)
    assert kafka.truth.fenced(1)
    kafka.heal(1)
    kafka.start(1)
    kafka.run_for(10)
    assert not kafka.truth.fenced(1)


def test_a_registration_whose_answer_was_lost_is_answered_again_with_the_same_incarnation() -> None:
    story = Story(A, B, C, settings=Settings(elr=False, forward_timeout=2.0))
    story.kill_and_fence(B)
    lost = story.hold(CONTROLLER, B, "Registration answer")
    story.start(B)
    assert not story.run_while(lambda: lost.held == 0)
    story.network.holds.clear()
    story.until_isr(A, B, C)

    assert len(list(story.timeline.of(What.REGISTERED))) == 1


def test_a_heartbeat_of_a_broker_that_never_registered_is_refused() -> None:
    stranger = Heartbeat(BrokerId(9), 1, BrokerStatus.ACTIVE, 1)
    answer = Story(A, B, C).controllers.membership.heartbeat(stranger)
    assert (answer.error, answer.current) == (Error.BROKER_ID_NOT_REGISTERED, BrokerStatus.INITIAL)


def proposal(story: Story, **changed: object) -> IsrProposal:
    state = story.state
    whole = IsrProposal(
        A, story.truth.broker_epoch(A), ORDERS, state.topic_id, state.leader_epoch, state.partition_epoch, {A: -1}
    )
    return replace(whole, **changed)  # type: ignore[arg-type]


def isr_change(*proposals: IsrProposal) -> IsrChangeRequest:
    return IsrChangeRequest(A, proposals[0].broker_epoch, (("orders", proposals),))


def test_isr_change_requests_are_answered_with_kip_343s_errors_in_the_order_of_their_partitions() -> None:
    story = Story(A, B, C, settings=Settings(elr=False, isr_rpc=IsrRpc.ISR_CHANGE))
    change = story.controllers.isr_changes.change
    assert change(isr_change(proposal(story, broker_epoch=-7))).top is Error.INVALID_INCARNATION_ID
    batch = isr_change(
        proposal(story, leader_epoch=9),
        proposal(story),
        proposal(story, isr={}),
        proposal(story, broker=B, broker_epoch=story.truth.broker_epoch(B)),
    )
    assert [result.error for result in change(batch).results] == [
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.NONE,
        Error.INVALID_REQUEST,
        Error.NOT_LEADER_OR_FOLLOWER,
    ]
    assert story.isr == (A,)


def test_alter_partition_is_answered_with_krafts_errors() -> None:
    story = Story(A, B, C)
    propose = story.controllers.isr_changes.propose
    epoch, version = story.state.leader_epoch, story.state.partition_epoch
    assert propose(proposal(story, broker_epoch=-7)).top is Error.STALE_BROKER_EPOCH
    assert propose(proposal(story, topic_id="another")).error is Error.UNKNOWN_TOPIC_ID
    assert propose(proposal(story, leader_epoch=epoch + 1)).error is Error.NEW_LEADER_ELECTED
    assert propose(proposal(story, leader_epoch=epoch - 1)).error is Error.FENCED_LEADER_EPOCH
    assert propose(proposal(story, partition_epoch=version - 1)).error is Error.INVALID_UPDATE_VERSION
    assert propose(proposal(story, isr={B: -1})).error is Error.INVALID_REQUEST
    by_b = {"broker": B, "broker_epoch": story.truth.broker_epoch(B)}
    assert propose(proposal(story, **by_b)).error is Error.INVALID_REQUEST
    assert propose(proposal(story, isr={A: -1, BrokerId(9): -1})).error is Error.INVALID_REQUEST
    assert propose(proposal(story, isr={A: -1, B: 10**6})).error is Error.INELIGIBLE_REPLICA
    assert propose(proposal(story, isr={A: -1, B: -1})).error is Error.NONE


def test_a_request_about_an_isr_at_a_controller_that_is_not_active_is_tried_at_the_next() -> None:
    kafka = SimulatedKafka(3, controllers=3, settings=Settings(elr=False))
    kafka.create_topic("orders", [[1, 2, 3]])
    kafka.run_for(1)
    kafka.kill(3)
    kafka.kill_controller()
    kafka.run_for(10)
    kafka.start(3)
    kafka.run_for(20)
    state = kafka.truth.state(ORDERS)
    assert kafka.controllers.active != "controller-1"
    assert (state and state.isr) == (1, 2, 3)
