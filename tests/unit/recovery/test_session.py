"""What a call of the engine remembers of each partition: since when it is waited for, and what it elected."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_recovery.domain.election import Leadership
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Decision
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.outcomes import lead_of
from kafka_recovery.recovery.partition_run import State
from kafka_recovery.recovery.ports import Silent
from kafka_recovery.recovery.session import Session, Waiting
from unit.recovery.brokers import EPOCH
from unit.recovery.world import ORDERS, PAYMENTS, World


def test_each_partition_is_waited_for_from_when_it_came() -> None:
    waiting = Waiting()
    assert waiting.waited(ORDERS, timedelta(seconds=100)) == timedelta(0)

    assert waiting.waited(PAYMENTS, timedelta(seconds=120)) == timedelta(0)
    assert waiting.waited(ORDERS, timedelta(seconds=125)) == timedelta(seconds=25)
    assert waiting.waited(PAYMENTS, timedelta(seconds=125)) == timedelta(seconds=5)


@pytest.mark.parametrize(("held", "told"), [(True, Outcome.RECOVERED), (False, Outcome.FAILED)])
async def test_a_replica_from_outside_the_isr_that_was_planned_and_leads_is_called_ours_only_if_we_elected(
    world: World, held: bool, told: Outcome
) -> None:
    """A later look shows it in the ISR, where an unclean election put it: that of this call, or somebody else's."""
    world.offline({3: 15, 2: 27})
    plan = await world.plan()
    session = Session(world)
    session.remember(plan.evidence)
    session.begin(plan, plan.decisions)[ORDERS].held = held

    outcome = session.online(plan.decisions[0], led(plan.decisions[0]))

    assert (outcome and outcome.outcome) is told


@pytest.mark.parametrize(
    ("held", "seen", "epoch", "told"),
    [
        (True, False, EPOCH + 1, "UnexpectedLeader"),
        (True, True, EPOCH + 1, "AlreadyOnline"),
        (True, False, 0, "AlreadyOnline"),
        (False, False, EPOCH + 1, "AlreadyOnline"),
    ],
    ids=["it may have elected", "held in the topic before", "led since it was made", "never held"],
)
async def test_an_election_that_was_asked_for_by_name_may_have_been_held_in_the_topic_that_was_made_anew(
    world: World, held: bool, seen: bool, epoch: int, told: str
) -> None:
    """Kafka's request has no topic id. Nobody says that this call elected nobody there unless it is known."""
    world.offline({3: 15, 2: 27})
    plan = await world.plan()
    session = Session(world)
    run = session.begin(plan, plan.decisions)[ORDERS]
    run.held, run.verified = held, lead_of(led(plan.decisions[0])) if seen else None
    made_anew = replace(plan.decisions[0], topic_id=TopicId("another"))

    outcome = session.online(made_anew, replace(led(made_anew), leader_epoch=LeaderEpoch(epoch)))

    assert outcome
    assert code_of(outcome) == told
    assert (outcome.outcome is Outcome.RECOVERED_CLEANLY) == (told == "AlreadyOnline")


def led(decision: Decision) -> Leadership:
    epoch, isr = LeaderEpoch(EPOCH + 1), (BrokerId(2),)
    return Leadership(ORDERS, decision.topic_id, BrokerId(2), epoch, decision.assignment, isr, Offset(27))


def code_of(outcome: PartitionOutcome) -> str | None:
    return outcome.reason.code if outcome.reason else None


async def test_a_partition_of_which_nothing_is_known_is_not_settled_unless_it_is_decided_again(world: World) -> None:
    session = Session(world)

    assert not session.settled([ORDERS])
    assert session.settled([ORDERS], again=[ORDERS])


@pytest.mark.parametrize("restored", [True, False, None])
@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.IN_DOUBT])
def test_a_partition_is_open_while_its_order_or_its_election_is(outcome: Outcome, restored: bool | None) -> None:
    session, why = Session(Silent()), Reason("Why", "why")
    assert not session.is_open(ORDERS), "nothing was concluded of it"

    session.conclude(PartitionOutcome(ORDERS, outcome, why, order_restored=restored))

    assert session.is_open(ORDERS) is (outcome is Outcome.IN_DOUBT or restored is not True)


@pytest.mark.parametrize(
    ("attempts", "restored"),
    [
        pytest.param([(State.ALTERED, True), (State.PLANNED, False)], False, id="the first one left its order"),
        pytest.param([(State.ALTERED, None), (State.RESTORED, False)], None, id="nobody read the first one's order"),
        pytest.param([(State.ALTERED, None), (State.ALTERED, True)], False, id="the last one left its order"),
        pytest.param([(State.IN_DOUBT, False), (State.PLANNED, False)], True, id="neither did"),
    ],
)
async def test_of_several_attempts_that_were_broken_off_the_order_is_told_that_any_of_them_left(
    world: World, attempts: list[tuple[State, bool | None]], restored: bool | None
) -> None:
    """Of each attempt: where it stood, and whether the order is its election's."""
    world.offline({3: 15, 2: 27})
    plan = await world.plan()
    session = Session(world)
    for state, ours in attempts:
        run = session.begin(plan, plan.decisions)[ORDERS]
        run.state, run.begun, run.ours = state, state is not State.PLANNED, ours

    session.give_up(plan, Reason("Broken", "the network is gone"))

    (outcome,) = session.report().outcomes
    assert (outcome.outcome, outcome.order_restored) == (Outcome.IN_DOUBT, restored)


@pytest.mark.parametrize("state", [State.UNTOUCHED, State.RESTORED])
async def test_an_attempt_that_was_named_and_left_nothing_to_undo_is_in_no_doubt(world: World, state: State) -> None:
    world.offline({3: 15, 2: 27})
    plan = await world.plan()
    session = Session(world)
    run = session.begin(plan, plan.decisions)[ORDERS]
    run.state, run.begun = state, True

    session.give_up(plan, Reason("Broken", "the network is gone"))

    (outcome,) = session.report().outcomes
    assert (outcome.outcome, code_of(outcome)) == (Outcome.REFUSED, "Broken")
