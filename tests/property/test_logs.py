"""What leader-epoch vectors prove, against the truth in a model that remembers every record."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafka_recovery.decision.logs import common_point, contains, equal, lacks
from kafka_recovery.domain.ids import BrokerId
from property.replication import EVENTS, Copy, replicate, same_up_to

COPIES = 3
happenings = st.tuples(st.sampled_from(EVENTS), st.integers(0, COPIES - 1), st.integers(0, 4))
histories = st.lists(happenings, min_size=4, max_size=40).map(lambda events: replicate(COPIES, events))
OTHER = BrokerId(2)


def truly_lacking(chosen: Copy, other: Copy) -> set[int]:
    """Offsets the other one still holds and the chosen one does not hold, or holds with another record."""
    held = range(chosen.start, same_up_to(chosen, other))
    return set(range(other.start, other.end)) - set(held)


def both_hold_the_last_shared_record(one: Copy, other: Copy) -> bool:
    return same_up_to(one, other) > max(one.start, other.start)


@given(histories)
def test_the_common_point_is_never_beyond_the_truth_and_the_truth_where_both_hold_it(copies: list[Copy]) -> None:
    one, other, _ = copies
    proven = common_point(one.measured(), other.measured())

    assert proven is not None
    assert proven == common_point(other.measured(), one.measured())
    assert proven <= same_up_to(one, other) <= min(one.end, other.end)
    if both_hold_the_last_shared_record(one, other):
        assert proven == same_up_to(one, other)


@given(histories)
def test_lacks_counts_every_lacking_record(copies: list[Copy]) -> None:
    chosen, other, _ = copies
    lack, truth = lacks(chosen.measured(), other.measured(), OTHER), truly_lacking(chosen, other)

    assert (lack.records if lack else 0) >= len(truth)
    if both_hold_the_last_shared_record(chosen, other):
        assert (lack.records if lack else 0) == len(truth)
        assert not lack or lack.from_offset == min(truth)


@given(histories)
def test_contains_says_yes_only_if_nothing_is_lacking(copies: list[Copy]) -> None:
    chosen, other, _ = copies
    whole = contains(chosen.measured(), other.measured())

    if whole:
        assert not truly_lacking(chosen, other)
        assert lacks(chosen.measured(), other.measured(), OTHER) is None
    elif other.start < other.end:
        assert truly_lacking(chosen, other)


@given(histories)
def test_contains_is_reflexive_and_transitive(copies: list[Copy]) -> None:
    a, b, c = (copy.measured() for copy in copies)

    assert contains(a, a)
    if contains(a, b) and contains(b, c):
        assert contains(a, c)


@given(histories)
def test_equal_logs_hold_the_same_records(copies: list[Copy]) -> None:
    one, other, _ = copies
    same = equal(one.measured(), other.measured())

    assert same == equal(other.measured(), one.measured())
    kept = [(copy.start, copy.records[copy.start :]) for copy in (one, other)]
    if same or one.start < one.end:
        assert same == (kept[0] == kept[1])
