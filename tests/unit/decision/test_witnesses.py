"""What an earlier look tells of a log that nobody alive has whole."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_recovery.decision.witnesses import Seen, ends_seen, with_witnesses
from kafka_recovery.domain.evidence import PartitionEvidence, WitnessedEnd
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicId
from unit.decision.incident import EPOCH, ORDERS, broker, decided, evidence, log, partition

HEALTHY = (broker(1), broker(2), broker(3))
SOURCE = "snapshot of 2026-11-21T12:00:00Z"
SEEN = Seen(TopicId("id-of-orders"), EPOCH, Offset(40), SOURCE)


def led(high_watermark: int | None = 40) -> PartitionEvidence:
    """Before the incident: broker 1 leads, the others lag."""
    watermark = None if high_watermark is None else Offset(high_watermark)
    return partition({1: log(42, high_watermark=watermark), 2: log(27), 3: log(15)}, leader=BrokerId(1))


def offline(**changes: Any) -> PartitionEvidence:
    return partition({1: None, 2: log(27), 3: log(15)}, **changes)


def witnesses(now: PartitionEvidence, seen: Seen = SEEN) -> list[int]:
    """The ends that are added to what is seen now."""
    (found,) = with_witnesses(evidence(now), {ORDERS: seen}).partitions
    return [witness.end for witness in found.witnessed_ends]


def test_a_leader_without_high_watermark_is_no_witness() -> None:
    assert ends_seen(evidence(led(None), brokers=HEALTHY)) == {}


def test_what_was_acknowledged_before_is_lost_for_certain_if_nobody_alive_has_it() -> None:
    before = ends_seen(evidence(led(), brokers=HEALTHY))

    assert before == {ORDERS: SEEN}
    loss = decided(with_witnesses(evidence(offline()), before)).loss
    assert (loss and loss.at_least) == 40 - 27


def test_a_look_during_the_outage_says_nothing_of_what_is_offline() -> None:
    """Under which epoch its witness was seen is not in it, so whether somebody led in between could not be told."""
    during = offline(witnessed_ends=(WitnessedEnd(SOURCE, Offset(40)),))

    assert ends_seen(evidence(during)) == {}


def test_a_witness_is_added_once() -> None:
    again = with_witnesses(with_witnesses(evidence(offline()), {ORDERS: SEEN}), {ORDERS: SEEN})

    assert again.partitions[0].witnessed_ends == (WitnessedEnd(SOURCE, Offset(40)),)


@pytest.mark.parametrize(
    ("now", "is_witness"),
    [
        (offline(), True),
        (offline(topic_id=TopicId("another")), False),
        (led(), False),
        (offline(leader_epoch=LeaderEpoch(6)), True),
    ],
    ids=["as it was", "another topic", "led by now", "the outage itself"],
)
def test_only_the_same_topic_without_a_leader_has_witnesses(now: PartitionEvidence, is_witness: bool) -> None:
    assert witnesses(now) == ([40] if is_witness else [])


@pytest.mark.parametrize(
    ("logs", "is_witness"),
    [
        ({1: log(27), 2: log(45, (0, 0), (6, 40))}, True),
        ({1: log(27), 2: log(45, (0, 0), (6, 39))}, False),
        ({1: None, 2: log(45, (0, 0), (6, 40))}, False),
        ({1: log(27, epochs=None), 2: log(45, (0, 0), (6, 40))}, False),
    ],
    ids=["from the end on", "from below it", "he may be silent", "his epochs can't be read"],
)
def test_who_led_in_between_must_be_known_to_have_begun_where_it_ended(logs: dict[int, Any], is_witness: bool) -> None:
    assert witnesses(partition(logs, leader_epoch=LeaderEpoch(7))) == ([40] if is_witness else [])
