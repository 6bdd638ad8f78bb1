"""A partition's life: which events lead where, from every state, and what holds however they come."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.domain.election import Answer, ElectionAnswer, Gone, Lead, Leadership, Relay, Sighting, Unseen
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, MetadataOffset, Offset, TopicId
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.recovery.outcomes import outcome_of, verified
from kafka_recovery.recovery.partition_run import (
    LIFE,
    Abandoned,
    Answered,
    DoubtOver,
    Ending,
    Event,
    ImpossibleTransition,
    Led,
    LedMeanwhile,
    NotLed,
    OrderRead,
    PartitionRun,
    Started,
    State,
    is_older,
    leads_since,
    order_is_ours,
)
from unit.recovery.brokers import APPLIED, EPOCH
from unit.recovery.world import ORDERS, PAYMENTS, World

WHY = Reason("Because", "of a test")
NEWER, SAME, OLDER = (MetadataOffset(APPLIED + by) for by in (1, 0, -1))


@cache
def plan() -> Plan:
    """Broker 2 is to lead what broker 1 led in the epoch before; the order has to be altered."""
    with TemporaryDirectory() as folder:
        world = World(Path(folder))
        world.offline({3: 15, 2: 27})
        return asyncio.run(world.plan())


def run(state: State = State.PLANNED, *, held: bool = False) -> PartitionRun:
    planned = plan()
    return PartitionRun(planned.decisions[0], planned.evidence.partitions[0], SAME, state=state, held=held)


def lead(epoch: int = EPOCH + 1, broker: int = 2) -> Lead:
    return Lead(BrokerId(broker), LeaderEpoch(epoch), Offset(27))


def seen(
    order: tuple[int, ...] = (1, 3, 2), as_of: MetadataOffset | None = SAME, topic: str = "id-of-orders"
) -> Leadership:
    brokers = tuple(map(BrokerId, order))
    return Leadership(ORDERS, TopicId(topic), None, LeaderEpoch(EPOCH), brokers, (), as_of=as_of)


def answered(answer: Answer) -> Answered:
    return Answered(ElectionAnswer(answer))


def test_what_is_given_up_after_a_durable_fact_and_before_any_request_has_its_own_order() -> None:
    it = run()
    it.apply(Started(frozenset({ORDERS})))
    once_named = it.restored
    it.apply(Abandoned(WHY, Ending.AGAIN))

    assert (once_named, it.restored) == (None, True)
    assert it.state is State.UNTOUCHED


OURS = (2, 3, 1)
ACCEPTED = ElectionAnswer(Answer.ACCEPTED)
RELAY = Relay(BrokerId(3), "kafka-3", 9092)
UNSEEN, GONE = Unseen(ORDERS, WHY), Gone(ORDERS, WHY)

EVENTS: dict[str, Event] = {
    "named by a durable fact": Started(frozenset({ORDERS})),
    "not named by it": Started(frozenset({PAYMENTS})),
    "Accepted": answered(Answer.ACCEPTED),
    "NotNeeded": answered(Answer.NOT_NEEDED),
    "Changed": answered(Answer.CHANGED),
    "Refused": answered(Answer.REFUSED),
    "Unanswered": answered(Answer.UNANSWERED),
    "abandoned": Abandoned(WHY, Ending.REFUSED),
    "doubt over": DoubtOver(),
    "led in a newer epoch": Led(lead()),
    "led in the plan's epoch": Led(lead(EPOCH)),
    "led in an older epoch": Led(lead(EPOCH - 1)),
    "not led": NotLed(WHY, Ending.AGAIN),
    "led meanwhile": LedMeanwhile(WHY, Ending.AGAIN),
    "order read back": OrderRead(seen(), ACCEPTED),
    "order read, restoring never asked for": OrderRead(seen(), None),
    "order read, restoring refused": OrderRead(seen(), ElectionAnswer(Answer.CHANGED)),
    "order read, and ours": OrderRead(seen(OURS), ACCEPTED),
    "order read from older metadata": OrderRead(seen(as_of=OLDER), ACCEPTED),
    "order unseen": OrderRead(UNSEEN, ACCEPTED),
    "order not looked at": OrderRead(None, ACCEPTED),
    "topic gone": OrderRead(GONE, ACCEPTED),
}
READ_BACK = dict.fromkeys(("order read back", "order read, restoring never asked for", "topic gone"), State.RESTORED)
NOT_READ_BACK = dict.fromkeys(
    (
        "order read, restoring refused",
        "order read, and ours",
        "order read from older metadata",
        "order unseen",
        "order not looked at",
    ),
    State.ALTERED,
)
NO = dict.fromkeys(("Changed", "Refused"), State.LEADERLESS)
FROM: dict[State, dict[str, State]] = {
    State.PLANNED: {
        "named by a durable fact": State.STARTED,
        "abandoned": State.UNTOUCHED,
        "led in a newer epoch": State.LEADING,
    },
    State.UNTOUCHED: {"led in a newer epoch": State.LEADING},
    State.STARTED: {
        "Accepted": State.DESIGNATED,
        "Unanswered": State.IN_DOUBT,
        "NotNeeded": State.LEADERLESS,
        **NO,
        "abandoned": State.UNTOUCHED,
    },
    State.DESIGNATED: {
        "Accepted": State.ELECTED,
        "NotNeeded": State.ELECTED,
        "Unanswered": State.IN_DOUBT,
        **NO,
        "abandoned": State.LEADERLESS,
    },
    State.IN_DOUBT: {"doubt over": State.ELECTED, **dict.fromkeys(READ_BACK, State.ALTERED), **NOT_READ_BACK},
    State.ELECTED: {"led in a newer epoch": State.LEADING, "not led": State.LEADERLESS},
    State.LEADING: {
        "led in a newer epoch": State.LEADING,
        "not led": State.LEADERLESS,
        **READ_BACK,
        **NOT_READ_BACK,
    },
    State.LEADERLESS: {**READ_BACK, **NOT_READ_BACK},
    State.ALTERED: {**READ_BACK, **NOT_READ_BACK},
    State.RESTORED: {},
}
"""Every state's ways out, written down a second time; there are no others."""


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", EVENTS)
def test_every_event_leads_from_every_state_where_it_should_or_nowhere(state: State, event: str) -> None:
    begun = run(state)
    target = FROM[state].get(event)

    if target is None:
        with pytest.raises(ImpossibleTransition, match=str(state)):
            begun.apply(EVENTS[event])
        assert begun == run(state), "what is impossible changes nothing"
    else:
        begun.apply(EVENTS[event])
        assert begun.state is target


def test_every_state_can_be_reached_from_the_first() -> None:
    reached, before = {State.PLANNED}, set[State]()
    while reached != before:
        before = set(reached)
        reached |= {step.target for step in LIFE if reached.intersection(step.sources)}

    assert reached == set(State)


def test_only_a_restored_order_is_the_end() -> None:
    assert set(State) - {source for step in LIFE for source in step.sources} == {State.RESTORED}


@pytest.mark.parametrize("answer", [Answer.ACCEPTED, Answer.UNANSWERED])
def test_an_election_may_have_been_held_once_it_was_asked_for_and_not_by_its_designation(answer: Answer) -> None:
    designated, elected = run(State.STARTED), run(State.DESIGNATED)
    for each in (designated, elected):
        each.apply(answered(answer))

    assert (designated.held, elected.held) == (False, True)


@pytest.mark.parametrize("answer", [Answer.NOT_NEEDED, Answer.CHANGED, Answer.REFUSED])
def test_an_election_that_was_not_held_is_not_said_to_be(answer: Answer) -> None:
    elected = run(State.DESIGNATED)
    elected.apply(answered(answer))

    assert not elected.held


@pytest.mark.parametrize("ending", [Ending.AGAIN, Ending.UNKNOWN])
@pytest.mark.parametrize("answer", [Answer.CHANGED, Answer.REFUSED])
def test_what_reached_the_controller_may_have_been_held_before_it_was_refused(answer: Answer, ending: Ending) -> None:
    elected = run(State.DESIGNATED)
    elected.apply(Answered(ElectionAnswer(answer, relay=RELAY)))
    refused = replace(elected)
    elected.apply(LedMeanwhile(WHY, ending))

    assert not refused.held
    assert elected.held
    assert (elected.state, elected.ending, elected.why) == (State.LEADERLESS, ending, WHY)


@pytest.mark.parametrize(("answer", "ending"), [(Answer.REFUSED, Ending.REFUSED), (Answer.CHANGED, Ending.AGAIN)])
def test_only_what_asking_again_does_not_help_is_refused_for_good(answer: Answer, ending: Ending) -> None:
    elected = run(State.DESIGNATED)
    elected.apply(answered(answer))

    assert elected.ending is ending


# What counts


def test_only_a_leader_of_a_newer_epoch_counts() -> None:
    decision = plan().decisions[0]

    assert [leads_since(lead(EPOCH + by), decision) for by in (-1, 0, 1, 2)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("sighting", "ours"),
    [
        (seen(OURS), True),
        (seen((1, 3, 2)), False),
        (seen((3, 2, 1)), False),
        (seen(OURS, topic="another"), False),
        (seen((1, 3, 2), as_of=OLDER), None),
        (seen(OURS, as_of=OLDER), None),
        (seen((1, 3, 2), as_of=NEWER), False),
        (seen((1, 3, 2), as_of=None), False),
        (UNSEEN, None),
        (None, None),
        (GONE, False),
    ],
)
def test_an_order_is_ours_or_not_or_that_was_not_to_be_seen(sighting: Sighting | None, ours: bool | None) -> None:
    assert order_is_ours(sighting, run()) is ours


def test_where_an_election_leaves_the_order_alone_there_is_none_of_ours() -> None:
    left_alone = run()
    left_alone.decision = replace(left_alone.decision, order=left_alone.decision.assignment)

    assert order_is_ours(seen(), left_alone) is False


def test_metadata_are_older_only_where_both_are_known() -> None:
    assert is_older(OLDER, SAME)
    assert not any(is_older(a, b) for a, b in [(SAME, SAME), (NEWER, SAME), (None, SAME), (OLDER, None)])


# However events come

epochs = st.integers(0, 2 * EPOCH)
sightings = st.one_of(
    st.none(),
    st.sampled_from([UNSEEN, GONE]),
    st.builds(
        seen,
        st.sampled_from([OURS, (1, 3, 2), (3, 2, 1), (2, 4)]),
        st.sampled_from([None, OLDER, SAME, NEWER]),
        st.sampled_from(["id-of-orders", "another"]),
    ),
)
answers = st.builds(ElectionAnswer, st.sampled_from(Answer), st.none(), st.sampled_from([None, RELAY]))
endings = st.sampled_from(Ending)
events = st.one_of(
    st.builds(lambda id: Started(frozenset({id})), st.sampled_from([ORDERS, PAYMENTS])),
    st.builds(Answered, answers),
    st.builds(Abandoned, st.just(WHY), endings),
    st.just(DoubtOver()),
    st.builds(lambda epoch, broker: Led(lead(epoch, broker)), epochs, st.sampled_from([1, 2, 3])),
    st.builds(NotLed, st.just(WHY), endings),
    st.builds(LedMeanwhile, st.just(WHY), st.sampled_from([Ending.AGAIN, Ending.UNKNOWN])),
    st.builds(OrderRead, sightings, st.one_of(st.none(), answers)),
)


@pytest.mark.parametrize(
    ("read", "restored"),
    [
        ("order read back", True),
        ("order read, restoring refused", None),
        ("order read, and ours", False),
        ("order read from older metadata", None),
        ("order unseen", None),
    ],
)
def test_an_order_is_the_original_one_only_where_it_was_put_back_and_read(read: str, restored: bool | None) -> None:
    """Whose restoring the controller refused may be shown by metadata from before it was altered."""
    ended = run(State.LEADERLESS)
    ended.ours = True

    ended.apply(EVENTS[read])

    assert ended.restored is restored


@given(st.lists(events, max_size=30), st.booleans())
def test_whatever_comes_nothing_is_concluded_that_was_not_seen(story: list[Event], after_a_crash: bool) -> None:
    """Impossible events are skipped: they must change nothing."""
    begun = run()
    if after_a_crash:
        begun.take_over(held=True)
    asked = False
    for event in story:
        before = replace(begun)
        try:
            begun.apply(event)
        except ImpossibleTransition:
            assert begun == before
            continue
        asked |= before.state is State.DESIGNATED and isinstance(event, Answered)
        if begun.state is State.LEADING:
            assert begun.lead is not None
            assert begun.lead.leader_epoch > begun.decision.leader_epoch
        if begun.state is State.RESTORED:
            assert isinstance(event, OrderRead)
            assert event.answer in (None, ACCEPTED)
            was_read(event.sighting)
        if begun.held and not after_a_crash:
            assert asked, "nothing was held that was not asked for"
        if begun.state is State.DESIGNATED:
            assert not begun.held
    outcome = outcome_of(begun)
    assert outcome is None or not outcome.outcome.is_recovered or begun.lead is not None
    assert outcome is None or outcome.outcome is not Outcome.RECOVERED_CLEANLY or not begun.held


def was_read(sighting: Sighting | None) -> None:
    """Whether it shows that no order of ours is left."""
    if isinstance(sighting, Gone):
        return
    assert isinstance(sighting, Leadership)
    assert sighting.as_of is None or sighting.as_of >= SAME
    assert sighting.topic_id == "another" or sighting.assignment != OURS


# Runs after runs


def test_a_replica_that_an_earlier_run_elected_counts_as_planned_and_its_isr_as_unclean() -> None:
    """Broker 2 was elected, died, and leads again in the later plan's ISR, where broker 3 was to be elected."""
    first = run(held=True)
    second = run(held=False)
    second.earlier = (first,)
    second.decision = replace(first.decision, leader=BrokerId(3), leader_epoch=LeaderEpoch(EPOCH + 2))
    second.evidence = replace(first.evidence, leader_epoch=LeaderEpoch(EPOCH + 2), isr=(BrokerId(2),))

    outcome = verified(second, lead(EPOCH + 3))

    assert second.clean_members == {1}
    assert second.isr_before == (1,)
    assert (outcome.outcome, outcome.reason) == (Outcome.RECOVERED, None)


def test_who_left_the_isr_since_a_run_that_elected_nobody_is_no_member_of_it() -> None:
    """Broker 1 lost its disk after that run was killed, and the leader epoch tells that nobody was elected before."""
    first = run(held=True)
    second = run(held=True)
    second.earlier = (first,)
    second.evidence = replace(first.evidence, isr=())

    outcome = verified(second, lead(EPOCH + 1, broker=1))

    assert first.clean_members == {1}
    assert second.clean_members == set()
    assert second.isr_before == ()
    assert outcome.outcome is Outcome.FAILED


def test_an_earlier_run_that_held_no_election_makes_no_leader_a_planned_one() -> None:
    first = run(held=False)
    second = run(held=True)
    second.earlier = (first,)
    second.decision = replace(first.decision, leader=BrokerId(3), leader_epoch=LeaderEpoch(EPOCH + 2))

    outcome = verified(second, lead(EPOCH + 3))

    assert outcome.outcome is Outcome.FAILED
    assert (outcome.reason and outcome.reason.code) == "UnexpectedLeader"
