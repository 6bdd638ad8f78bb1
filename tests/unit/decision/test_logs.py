"""Comparing copies by their leader-epoch vectors, on the examples of KAFKA-1211 and what real brokers do besides."""

from __future__ import annotations

import pytest

from kafka_recovery.decision.logs import common_point, contains, equal, lacks
from kafka_recovery.domain.evidence import ReplicaLog
from kafka_recovery.domain.ids import BrokerId
from unit.decision.incident import log

OTHER = BrokerId(3)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(log(2, (1, 0)), log(3, (1, 0), (2, 1)), 1, id="KAFKA-1211 example 1: m2 was never committed"),
        pytest.param(log(2, (1, 0)), log(4, (1, 0), (2, 2)), 2, id="KAFKA-1211 example 2: m2 was committed"),
        pytest.param(log(9, (1, 0)), log(5, (1, 0)), 5, id="one is behind"),
        pytest.param(log(9, (1, 0), (2, 5)), log(9, (1, 0), (3, 5)), 5, id="both wrote on after the same point"),
        pytest.param(
            log(9, (1, 0), (2, 5), (4, 7)), log(9, (1, 0), (2, 5), (3, 6)), 6, id="truncation in a shared epoch"
        ),
        pytest.param(
            log(9, (1, 0), (2, 5)), log(9, (1, 0), (2, 5), (3, 9)), 9, id="an epoch without records at the end"
        ),
        pytest.param(log(9, (1, 0), (2, 5), (3, 5)), log(9, (1, 0), (3, 5)), 9, id="an epoch without records within"),
        pytest.param(log(9, (4, 0)), log(9, (5, 0)), 0, id="nothing shared"),
        pytest.param(log(0), log(9), 0, id="an empty log shares nothing"),
        pytest.param(log(0, (1, 0)), log(9, (1, 0)), 0, id="nor does one that was elected and wrote nothing"),
        pytest.param(log(9, (1, 0), (2, 9)), log(12, (1, 0), (2, 9)), 9, id="its follower wrote nothing on"),
        pytest.param(log(9, (1, 9), start=9), log(12, (1, 9), start=9), 9, id="retention removed all on one side"),
        pytest.param(log(9, start=9, epochs=()), log(12, start=9, epochs=()), 0, id="empty vectors prove nothing"),
        pytest.param(log(9, (1, 4), (2, 6), start=4), log(8, (1, 0), (2, 6)), 8, id="old entries dropped on one side"),
        pytest.param(log(9, (2, 7), start=7), log(8, (1, 0), (2, 6)), 8, id="only the last epoch is left on one side"),
        pytest.param(log(20, (2, 9), start=9), log(8, (1, 0), (2, 6)), 8, id="retention removed all that was shared"),
        pytest.param(log(20, (3, 9), start=9), log(8, (1, 0), (2, 6)), 0, id="and the entries that would prove it"),
    ],
)
def test_the_common_point_is_what_the_vectors_prove(one: ReplicaLog, other: ReplicaLog, expected: int) -> None:
    assert common_point(one, other) == expected
    assert common_point(other, one) == expected


def test_an_unknown_vector_proves_nothing_either_way() -> None:
    unread = log(9, epochs=None)

    assert common_point(unread, log(9)) is None
    assert contains(log(9), unread) is None
    assert not equal(unread, unread)


def test_a_log_that_starts_later_lacks_the_beginning() -> None:
    chosen, other = log(9, (0, 3), start=3), log(11)

    lack = lacks(chosen, other, OTHER)
    assert lack is not None
    assert (lack.from_offset, lack.records) == (0, 5)
    assert contains(chosen, other) is False
    assert contains(log(11), chosen) is True
    assert contains(log(11, (0, 3), start=3), log(11)) is False


def test_equal_logs_may_differ_in_epochs_without_records_only() -> None:
    assert equal(log(9, (1, 0)), log(9, (1, 0), (2, 9)))
    assert not equal(log(9, (1, 0)), log(9, (1, 0), (2, 8)))
    assert not equal(log(9, (1, 0)), log(9, (1, 2), start=2))
    assert not equal(log(9), log(8))
    assert not equal(log(9, epochs=()), log(9, epochs=()))
