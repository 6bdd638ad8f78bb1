"""Once leaders were elected: which brokers may hold more, and what is to be done for them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.decision.afterwards import LedAlike, absent, led_alike, to_do
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.ids import BrokerId, Offset, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import EvidenceRules, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import evidence, log, partition

ANY = Policy((Rule("any", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))
IDS = tuple(TopicPartition("orders", number) for number in range(3))


def planned() -> Plan:
    """Broker 2 is elected on all three; broker 1 is dead."""
    seen = [partition({1: None, 2: log(27 + number), 3: log(15)}, id=id) for number, id in enumerate(IDS)]
    plan = decide(evidence(*seen), ANY, waited=timedelta(hours=1))
    assert {each.leader for each in plan.elections.values()} == {2}
    return plan


def led(
    id: TopicPartition, outcome: Outcome = Outcome.RECOVERED, leader: int | None = 2, **more: Any
) -> PartitionOutcome:
    return PartitionOutcome(id, outcome, leader=None if leader is None else BrokerId(leader), **more)


def by_id(*outcomes: PartitionOutcome) -> dict[TopicPartition, PartitionOutcome]:
    return {each.id: each for each in outcomes}


def test_leaders_are_told_once_with_where_their_logs_ended_when_they_were_elected() -> None:
    (found,) = led_alike([planned()], by_id(*map(led, IDS)))

    assert found == LedAlike(IDS, BrokerId(2), (Offset(27), Offset(29)), True)


def test_of_a_leader_that_no_plan_elected_no_log_end_is_told() -> None:
    """A member came back meanwhile."""
    by_plan, by_kafka = led_alike(
        [planned()], by_id(led(IDS[0]), led(IDS[1]), led(IDS[2], Outcome.RECOVERED_CLEANLY, leader=1))
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
    copy, start, read = to_do({BrokerId(1): IDS[:2], BrokerId(4): IDS[1:]})

    assert copy == "Copy their directories of orders-0 to orders-2 on broker 1 and 4, to a place outside log.dirs."
    assert start == "Start broker 1 and 4 with their own disks, and wait until they are in the ISR."
    assert read.startswith("Read the copies with kafka-dump-log.sh, and send again what the new leaders lack.")


def test_where_nobody_was_away_nothing_is_to_be_done() -> None:
    assert not to_do(absent([planned()], {}))
