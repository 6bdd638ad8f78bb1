"""Once leaders were elected: which brokers may hold more, and what is to be done for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.decision.afterwards import absent, led_alike, not_yet_all, tiered, to_do
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import EvidenceRules, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import evidence, log, partition

ANY = Policy((Rule("any", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))
IDS = tuple(TopicPartition("orders", number) for number in range(3))


def planned(end: int = 28) -> Plan:
    """Broker 2 is elected on all three, where its logs end by `end`, one before it, and so on; broker 1 is dead."""
    seen = [partition({1: None, 2: log(end - number), 3: log(15)}, id=id) for number, id in enumerate(IDS)]
    plan = decide(evidence(*seen), ANY, waited=timedelta(hours=1))
    assert {each.leader for each in plan.elections.values()} == {2}
    return plan


def led(
    id: TopicPartition, outcome: Outcome = Outcome.RECOVERED, leader: int | None = 2, **more: Any
) -> PartitionOutcome:
    return PartitionOutcome(id, outcome, leader=None if leader is None else BrokerId(leader), **more)


def by_id(*outcomes: PartitionOutcome) -> dict[TopicPartition, PartitionOutcome]:
    return {each.id: each for each in outcomes}


def test_brokers_that_may_hold_more_of_the_same_partitions_are_told_of_at_once() -> None:
    one, two, three = map(BrokerId, (1, 2, 3))

    both, other = not_yet_all({one: IDS[:1], two: IDS[:1], three: IDS})

    assert both.startswith(
        "DO NOT START BROKER 1 OR 2 YET, NOR LET ANYTHING START THEM: they may hold records that the ne"
    )
    assert "broker 1 or 2 is started, copy their directories of orders-0: " in both
    assert other.startswith("DO NOT START BROKER 3 YET, NOR LET ANYTHING START IT: it may hold ")


def test_of_a_leader_that_no_plan_elected_no_log_end_is_told() -> None:
    """A member came back meanwhile. Of several plans the last one counts."""
    by_plan, by_kafka = led_alike(
        [planned(20), planned()], by_id(led(IDS[0]), led(IDS[1]), led(IDS[2], Outcome.RECOVERED_CLEANLY, leader=1))
    )

    assert by_plan.elected_at == (27, 28)
    assert (by_kafka.leader, by_kafka.elected_at, by_kafka.writes) == (1, None, None)


@pytest.mark.parametrize(
    ("done", "writes"),
    [
        (led(IDS[0]), True),
        (led(IDS[0], Outcome.RECOVERED_UNDER_MIN_ISR), False),
        (led(IDS[0], warnings=("min.insync.replicas could not be read",)), None),
        (led(IDS[0], Outcome.FAILED, reason=Reason("LogShorter", "shorter than planned")), None),
    ],
)
def test_whether_acks_all_works_is_said_as_far_as_it_was_seen(done: PartitionOutcome, writes: bool | None) -> None:
    (found,) = led_alike([planned()], by_id(done))

    assert found.writes is writes


def test_who_was_away_may_hold_more_of_what_another_broker_leads_since() -> None:
    outcomes = by_id(led(IDS[0]), led(IDS[1], Outcome.RECOVERED_CLEANLY, leader=1), led(IDS[2], Outcome.REFUSED, None))

    assert absent([planned(), planned()], outcomes) == {1: [IDS[0]]}


def test_what_is_to_be_done_for_it_is_told_in_order() -> None:
    copy, start, read = to_do(
        {BrokerId(1): IDS[:2], BrokerId(4): IDS[1:]}, led_alike([planned()], by_id(*map(led, IDS)))
    )

    assert copy == "Copy their directories of orders-0 to orders-2 on broker 1 and 4, to a place outside log.dirs."
    assert start == "Start broker 1 and 4 with their own disks, and wait until they are in the ISR."
    assert read.startswith("Read the copies with kafka-dump-log.sh, and send again what the new leaders lack.")
    assert "Begin where they were elected (offsets 26 to 28); where leader epochs differ" in read


def test_of_a_leader_that_no_plan_elected_nobody_is_told_an_offset_to_begin_at() -> None:
    by_kafka = led_alike([planned()], by_id(led(IDS[0], Outcome.RECOVERED_CLEANLY, leader=3)))
    *_, read = to_do({BrokerId(1): IDS[:1]}, by_kafka)

    assert "Begin where they were elected; where" in read
    (one,) = led_alike([planned()], by_id(led(IDS[0])))
    assert "Begin where they were elected (offset 28); where" in to_do({BrokerId(1): IDS[:1]}, [one])[-1]


def test_where_nobody_was_away_nothing_is_to_be_done() -> None:
    assert not to_do(absent([planned()], {}), ())


# A remote tier, which Kafka cuts at its front where a leader's log start is later


def tiered_plan(**said: Any) -> Plan:
    seen = partition({1: None, 2: log(27), 3: log(15), 4: log(27)}, **said)
    return decide(evidence(seen), ANY, waited=timedelta(hours=1))


def test_who_may_come_back_with_a_later_log_start_is_not_to_lead_a_tiered_topic() -> None:
    """Broker 1 was away; what brokers 3 and 4 hold is in the leader's log, so they truncate nothing."""
    (told,) = tiered([tiered_plan(tiered=True)], by_id(led(IDS[0])))

    assert told.startswith("TIERED TOPIC: do not let broker 1 lead orders-0 before you know that its log start is no")


def test_who_held_more_than_the_leader_is_not_to_lead_a_tiered_topic_either() -> None:
    (told,) = tiered([tiered_plan(tiered=True)], by_id(led(IDS[0], leader=3)))

    assert "do not let broker 1, 2 or 4 lead orders-0 before you know that their log starts are no later" in told


def test_a_leader_that_nobody_had_measured_may_lead_on() -> None:
    (told,) = tiered([tiered_plan(tiered=True)], by_id(led(IDS[0], Outcome.RECOVERED_CLEANLY, leader=1)))

    assert "do not let broker 2, 3 or 4 lead orders-0 before" in told


def test_where_nobody_could_read_whether_a_topic_is_tiered_it_is_said_as_a_condition() -> None:
    unread = Reason("TopicAuthorizationFailed", "DESCRIBE_CONFIGS is missing")
    (told,) = tiered([tiered_plan(configs_problem=unread)], by_id(led(IDS[0])))

    assert told.startswith("IF THE TOPIC IS TIERED (its configs could not be read): do not let broker 1 lead")


@pytest.mark.parametrize(
    ("said", "done"),
    [
        ({"tiered": False}, led(IDS[0])),
        ({}, led(IDS[0])),
        ({"tiered": True}, led(IDS[0], Outcome.REFUSED, None)),
        ({"tiered": True, "leader": BrokerId(2)}, led(IDS[0])),
    ],
    ids=["no tier", "a release without tiers", "nobody leads", "it had a leader"],
)
def test_nothing_is_said_of_a_tier_that_no_new_leader_can_cut(said: dict[str, Any], done: PartitionOutcome) -> None:
    assert not list(tiered([tiered_plan(**said)], by_id(done)))
