"""The engine in a story: what it is told to do, what it says, and what its choice has cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval
from kafka_recovery.simulator.histories.history import call_engine
from kafka_recovery.simulator.histories.oracle import judge
from kafka_recovery.simulator.histories.scenario import VERSION, EngineRun, Rules, Scenario, Topic
from simulation.telling import ORDERS, Story


@dataclass(frozen=True, slots=True)
class Said:
    """The engine's last words about `orders-0`. `chosen`: whom its plan wants to lead, and how it calls the loss."""

    outcome: Outcome
    chosen: BrokerId | None
    loss: LossClass | None


def the_engine_recovers(
    story: Story,
    *,
    approval: Approval = Approval.AUTO_LOSSLESS,
    driver: Driver = Driver.ASSIGNMENT_ORDER,
    run: EngineRun | None = None,
) -> Said:
    """One run. It knows the ISR history; what is not proven lossless it asks a person for, who says no.

    `run`: another one than that.
    """
    run = run or EngineRun(story.scheduler.now, approves=False)
    ran = call_engine(replace(_scenario(story, approval), driver=driver), story.chronicle, run)
    assert ran.report is not None, f"{ran.error or ran.sentence}\n{story.timeline}"
    outcome = next(outcome for outcome in ran.report.outcomes if outcome.id == ORDERS)
    plans = [plan for _, plan in story.chronicle.plans()]
    decision = plans[-1].elections.get(ORDERS) if plans else None
    if decision is None or decision.loss is None:
        return Said(outcome.outcome, None, None)
    return Said(outcome.outcome, decision.leader, decision.loss.loss_class)


def broken_promises(story: Story, *, approval: Approval = Approval.AUTO_LOSSLESS) -> set[str]:
    """The oracle's findings, by the names of its invariants."""
    return {finding.invariant for finding in judge(story.chronicle, _scenario(story, approval)).findings}


def only_is_left(story: Story, one: BrokerId, leader: BrokerId, others: Sequence[BrokerId]) -> None:
    """All die, `one` before the last leader, so that nobody in the ISR is left; `one` alone comes back."""
    for broker in others:
        story.kill_and_fence(broker)
    if not story.alive(one):
        story.cut(one, leader)
        story.start(one)  # Who registers anew leaves the ISR.
        story.until_unfenced(one)
    for broker in (one, leader):
        story.kill_and_fence(broker)
    story.heal(one)
    story.bring_back(one)
    story.run_for(1)
    assert story.leader is None


def everybody_returns(story: Story) -> None:
    """In the end."""
    for broker in story.broker_ids:
        story.heal(broker)
        story.start(broker)
    story.until_led()
    story.run_for(10)


def _scenario(story: Story, approval: Approval) -> Scenario:
    state = story.state
    topic = Topic("orders", (tuple(map(int, state.replicas)),), story.controllers.state.topics["orders"].min_isr)
    return Scenario(
        VERSION,
        story.seed,
        len(story.broker_ids),
        (topic,),
        elr=story.settings.elr,
        knows_history=True,
        switches=story.switches,
        rules=Rules(approval=approval, patience=10.0),
        quiet_at=story.scheduler.now,
    )
