"""Partitions that are told in one line: only those of which the same is true."""

from __future__ import annotations

from typing import Any

from kafka_recovery.decision.alike import alike, named
from kafka_recovery.domain.evidence import PartitionEvidence
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from unit.decision.incident import Held, history, log, partition, step

READ: dict[int, Held] = {1: None, 2: log(27), 3: log(15)}


def orders(number: int, held: dict[int, Held] = READ, **facts: Any) -> PartitionEvidence:
    return partition(held, id=TopicPartition("orders", number), **facts)


def lines(*partitions: PartitionEvidence) -> list[str]:
    """The partitions of each line."""
    return [named(found.ids) for found in alike(partitions)]


def test_what_is_alike_stands_in_one_line_with_the_least_and_the_greatest_log_end() -> None:
    (found,) = alike([orders(0), orders(1, {1: None, 2: log(40, (0, 0), (3, 30)), 3: log(15)})])

    assert named(found.ids) == "orders-0, orders-1"
    assert (found.isr, found.elr, found.last_leader) == ((1,), None, 1)
    assert [(copy.broker, copy.ends, copy.epochs) for copy in found.copies] == [
        (1, None, None),
        (2, (27, 40), (0, 3)),
        (3, (15, 15), (0, 0)),
    ]


def test_the_order_of_the_assignment_makes_no_difference() -> None:
    assert lines(orders(0), orders(1, {3: log(15), 2: log(27), 1: None})) == ["orders-0, orders-1"]


def test_another_isr_elr_or_last_leader_is_another_line_the_most_partitions_first() -> None:
    elr = (BrokerId(1),)
    shown = lines(
        orders(0),
        orders(1, isr=(2,)),
        orders(2, isr=(), elr=elr, last_known_elr=(BrokerId(1),)),
        orders(3, isr=(), elr=elr, last_known_elr=(BrokerId(3),)),
        orders(4),
    )

    assert shown == ["orders-0, orders-4", "orders-1", "orders-2", "orders-3"]


def test_a_copy_that_was_not_read_or_is_empty_is_no_copy_like_another() -> None:
    assert len(lines(orders(0), orders(1, {1: None, 2: log(27), 3: None}), orders(2, {**READ, 3: log(0)}))) == 3


def test_the_last_leader_is_what_the_metadata_say_and_else_unknown() -> None:
    """An ISR of one holds its leader; of several any may have led."""
    told = history(step(1, 2, 3), step(1, 2, leader=BrokerId(2)), step(1, 2, leader=None))
    known = [alike([orders(0, **facts)])[0].last_leader for facts in ({"isr": (2,)}, {"isr": (1, 2)})]
    assert known == [2, None]
    assert alike([orders(0, isr=(1, 2), history=told)])[0].last_leader == 2


def test_neighbours_are_named_by_the_first_and_the_last_and_of_many_the_number() -> None:
    assert named([TopicPartition("a", number) for number in (0, 1, 2, 4, 5)]) == "a-0 to a-2, a-4, a-5"
    assert named([TopicPartition("a", 2 * number) for number in range(6)]) == "a-0, a-2, a-4, a-6 and 2 more"
