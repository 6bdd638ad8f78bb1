"""Buckets and short memories."""

from __future__ import annotations

from kafka_recovery.kube.webhook.limits import Bucket, Recent


def test_a_burst_is_taken_and_then_a_steady_rate() -> None:
    bucket = Bucket(size=3, rate=2)

    assert [bucket.take(10.0) for _ in range(4)] == [0, 0, 0, 0.5]
    assert [bucket.take(10.5), bucket.take(10.5)] == [0, 0.5]


def test_a_long_silence_is_worth_no_more_than_a_burst() -> None:
    bucket = Bucket(size=3, rate=2)
    bucket.take(0)

    assert [bool(bucket.take(1e6)) for _ in range(5)] == [False, False, False, True, True]


def test_what_was_said_a_moment_ago_is_said_again() -> None:
    recent = Recent(lasts=30, most=10)

    assert [recent.again("a", at) for at in (0, 1, 29.9, 30, 31)] == [False, True, True, False, True]


def test_saying_it_all_the_time_does_not_put_off_the_next_wake() -> None:
    recent = Recent(lasts=30, most=10)

    assert sum(not recent.again("a", at) for at in range(300)) == 10


def test_memory_has_an_end_and_the_oldest_goes_first() -> None:
    recent = Recent(lasts=30, most=2)
    for each in "abc":
        recent.again(each, 0)

    assert recent.again("c", 1)
    assert not recent.again("a", 1)
