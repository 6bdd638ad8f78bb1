"""Driver `designated` on brokers that have KIP-1275: it ends as `assignment-order` does, and alters no order for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval
from kafka_recovery.simulator.histories.history import History, happen
from kafka_recovery.simulator.histories.scenario import Command, EngineRun
from kafka_recovery.simulator.histories.schedules import draw
from kafka_recovery.simulator.model.grants import Operation
from simulation.telling import A, B, C, Story
from simulation.with_engine import Said, broken_promises, the_engine_recovers

DRIVERS = pytest.mark.parametrize("driver", [Driver.DESIGNATED, Driver.AUTO, Driver.ASSIGNMENT_ORDER])


def offline(*, off: tuple[str, ...] = ()) -> Story:
    """`orders` was led by A, who is gone; B, behind the others in the assignment, holds more than C."""
    story = Story(A, C, B, off=off)
    story.write("early")
    story.pause(C)
    story.until_fenced(C)
    story.write("late")
    story.pause(B)
    story.until_fenced(B)
    story.kill_and_fence(A)
    for broker in (B, C):
        story.thaw(broker)
    story.until_unfenced(B, C)
    story.run_for(1)
    assert story.leader is None
    return story


def recovered(story: Story, driver: Driver, thinking: float = 1.0, command: Command = Command.RECOVER) -> Said:
    """A person approves what is planned, after a while."""
    run = EngineRun(story.scheduler.now, command, approves=True, thinking=thinking)
    return the_engine_recovers(story, approval=Approval.MANUAL, run=run, driver=driver)


def orders_set(story: Story) -> list[tuple[int, ...]]:
    """The assignment orders that the engine asked for."""
    return [request.order for asked in story.chronicle.requests("designate") for request in asked.requests]


@DRIVERS
def test_the_same_replica_leads_whichever_driver_elects_it(driver: Driver) -> None:
    story = offline()
    assignment = story.state.replicas
    said = recovered(story, driver)

    assert (said.outcome, said.chosen, story.until_led()) == (Outcome.RECOVERED, B, B)
    assert story.state.replicas == assignment
    assert orders_set(story) == ([(B, C, A)] if driver is Driver.ASSIGNMENT_ORDER else [])


@DRIVERS
def test_where_brokers_are_released_ones_auto_elects_by_order(driver: Driver) -> None:
    """Released Kafka would elect anybody if it were asked to elect uncleanly: `designated` asks for nothing then."""
    story = offline(off=("designated_elections",))
    if driver is Driver.DESIGNATED:
        with pytest.raises(AssertionError, match="the broker offers v0 to v2, v3 to v3 is needed"):
            recovered(story, driver)
        assert not story.chronicle.asked
        return

    assert recovered(story, driver).chosen == B
    assert orders_set(story) == [(B, C, A)]


def test_a_broker_that_was_restarted_since_it_was_measured_is_measured_again() -> None:
    """KIP-903: its epoch is another one. While the person thinks, B goes and comes back with the same log."""
    story = offline()
    story.scheduler.after(3, lambda: story.shut_down(B))
    story.scheduler.after(8, lambda: story.start(B))
    said = recovered(story, Driver.DESIGNATED, thinking=40)

    assert (said.outcome, said.chosen) == (Outcome.RECOVERED, B)
    states = [broker for _, plan in story.chronicle.plans() for broker in plan.evidence.cluster.brokers]
    epochs = [broker.epoch for broker in states if broker.id == B]
    assert len(epochs) == len(set(epochs)) == 2


def test_a_plan_is_refused_if_its_leader_was_restarted_since_and_the_oracle_agrees() -> None:
    """What was approved is that plan and no other: `execute` makes none anew."""
    story = offline()
    story.scheduler.after(3, lambda: story.shut_down(B))
    story.scheduler.after(8, lambda: story.start(B))
    said = recovered(story, Driver.DESIGNATED, thinking=40, command=Command.EXECUTE)

    (last,) = [each.outcome for each in story.chronicle.concluded]
    assert said.outcome is Outcome.REFUSED
    assert (last.reason and last.reason.code) == "PlanOutdated"
    assert "what_is_refused_is_so" not in broken_promises(story, approval=Approval.MANUAL)


def test_who_may_not_act_on_the_cluster_measures_nothing_and_elects_nobody() -> None:
    story = offline()
    story.grants.deny("engine-1", Operation.CLUSTER_ACTION)
    said = recovered(story, Driver.DESIGNATED)

    assert said.outcome is Outcome.REFUSED
    assert "CLUSTER_ACTION on the cluster" in str(story.chronicle.looked[-1].evidence.partitions[0].replicas)
    assert story.leader is None


def leaders(history: History) -> set[str]:
    """Partitions that have a leader in the end."""
    state = history.story.kafka.controllers.state
    return {str(id) for id, partition in state.partitions.items() if partition.leader is not None}


SEEDS = [seed for seed in range(60) if draw(seed).driver is Driver.DESIGNATED][:10]


@pytest.mark.parametrize("seed", SEEDS)
def test_histories_end_as_by_order_and_no_order_is_ever_touched(seed: int) -> None:
    """Faults strike at other moments, so outcomes may differ; what is promised, and who is online, may not."""
    scenario = draw(seed)
    by_request, by_order = happen(scenario), happen(replace(scenario, driver=Driver.ASSIGNMENT_ORDER))

    assert by_request.findings == ()
    assert leaders(by_request) == leaders(by_order)
    told = [
        request
        for what in ("designate", "restore")
        for asked in by_request.story.requests(what)
        for request in asked.requests
    ]
    assert told == []
