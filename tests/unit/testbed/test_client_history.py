"""The check of what producers were promised says so of each history that broke a promise, and of no other."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from testbed.client_history import Anomaly, ClientHistory, Record, findings, gone


def log(*values: str, start: int = 0) -> list[Record]:
    """These values at one offset after the other."""
    return [Record(start + place, value) for place, value in enumerate(values)]


ACKNOWLEDGED = log("1.0", "1.1", "1.2")


def found(acknowledged: Iterable[Record], *reads: Iterable[Record]) -> dict[Anomaly, list[tuple[int, tuple[str, ...]]]]:
    told: dict[Anomaly, list[tuple[int, tuple[str, ...]]]] = {}
    for anomaly, offset, values in findings(ClientHistory(list(acknowledged), [list(read) for read in reads])):
        told.setdefault(anomaly, []).append((offset, values))
    return told


@pytest.mark.parametrize(
    ("acknowledged", "reads"),
    [
        pytest.param(ACKNOWLEDGED, [ACKNOWLEDGED], id="all is read"),
        pytest.param([], [[]], id="nothing was written"),
        pytest.param(ACKNOWLEDGED[::-1], [ACKNOWLEDGED], id="acknowledgements may come in any order"),
        pytest.param(ACKNOWLEDGED, [ACKNOWLEDGED[:1], ACKNOWLEDGED], id="an earlier consumer has less"),
        pytest.param([Record(2, "1.1")], [[*log("1.0"), Record(2, "1.1")]], id="a marker takes an offset"),
        pytest.param(ACKNOWLEDGED, [log("1.0", "1.1", "1.2", "1.3")], id="what was not acknowledged may be there"),
        pytest.param(log("1.0", "2.0"), [log("1.0", "2.0", "1.1", "2.1")], id="each producer counts by itself"),
        pytest.param(log("1.9", "1.10"), [log("1.9", "1.10")], id="numbers are no text"),
        pytest.param(log("1.1"), [log("1.1", "1.0")], id="what was not acknowledged may be late"),
    ],
)
def test_a_history_that_kept_its_promises_has_no_anomaly(acknowledged: list[Record], reads: list[list[Record]]) -> None:
    assert found(acknowledged, *reads) == {}


def test_an_acknowledged_record_is_lost_where_another_one_is_read_at_its_offset_or_later() -> None:
    assert found(ACKNOWLEDGED, log("1.0", "1.1", "1.3"))[Anomaly.LOST] == [(2, ("1.2",))]
    assert found(ACKNOWLEDGED, [ACKNOWLEDGED[0], ACKNOWLEDGED[2]])[Anomaly.LOST] == [(1, ("1.1",))]


def test_an_acknowledged_record_behind_the_end_of_the_last_read_is_unread_and_as_gone_as_a_lost_one() -> None:
    acknowledged = [*ACKNOWLEDGED, Record(3, "1.3")]
    read = [ACKNOWLEDGED[0], ACKNOWLEDGED[2]]

    assert found(acknowledged, read)[Anomaly.UNREAD] == [(3, ("1.3",))]
    assert gone(findings(ClientHistory(acknowledged, [read]))) == 2
    assert found(ACKNOWLEDGED, [])[Anomaly.UNREAD] == [(0, ("1.0",)), (1, ("1.1",)), (2, ("1.2",))]


def test_what_an_earlier_consumer_had_is_lost_all_the_same_if_the_last_one_has_it_not() -> None:
    assert found(ACKNOWLEDGED, ACKNOWLEDGED, log("1.0", "1.1", "1.3"))[Anomaly.LOST] == [(2, ("1.2",))]


def test_an_offset_has_one_value_for_producers_and_consumers() -> None:
    assert found(ACKNOWLEDGED, log("1.0", "1.1", "1.3"))[Anomaly.TWO_VALUES] == [(2, ("1.2", "1.3"))]
    assert found([*ACKNOWLEDGED, Record(2, "1.3")], ACKNOWLEDGED)[Anomaly.TWO_VALUES] == [(2, ("1.2", "1.3"))]
    assert found(log("1.0"), log("1.1"), log("1.0"))[Anomaly.TWO_VALUES] == [(0, ("1.0", "1.1"))]


def test_a_record_that_only_a_consumer_saw_may_vanish_and_another_one_take_its_offset() -> None:
    assert found(log("1.0"), log("1.0", "1.1"), log("1.0", "1.2")) == {Anomaly.VANISHED: [(1, ("1.1",))]}


def test_a_value_that_was_sent_once_is_at_one_offset() -> None:
    assert found(ACKNOWLEDGED, log("1.0", "1.1", "1.2", "1.2"))[Anomaly.REPEATED] == [(2, ("1.2",))]
    assert found([*ACKNOWLEDGED, Record(3, "1.2")], ACKNOWLEDGED)[Anomaly.REPEATED] == [(2, ("1.2",))]


def test_a_consumer_never_gets_an_earlier_offset_after_a_later_one() -> None:
    assert found(ACKNOWLEDGED, [ACKNOWLEDGED[0], ACKNOWLEDGED[2], ACKNOWLEDGED[1]], ACKNOWLEDGED) == {
        Anomaly.OUT_OF_ORDER: [(1, ("1.2", "1.1"))],
        Anomaly.SKIPPED: [(1, ("1.1",))],
    }


def test_a_log_has_the_values_of_a_producer_in_the_order_in_which_it_sent_them() -> None:
    swapped = log("1.0", "1.2", "1.1")

    assert found(swapped, swapped) == {Anomaly.OUT_OF_ORDER: [(2, ("1.2", "1.1"))]}


def test_a_consumer_passes_over_no_record_that_was_acknowledged() -> None:
    assert found(ACKNOWLEDGED, [ACKNOWLEDGED[0], ACKNOWLEDGED[2]], ACKNOWLEDGED) == {Anomaly.SKIPPED: [(1, ("1.1",))]}
