"""After an election that nobody was asked about, a person is asked for a while."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest

from kafka_recovery.kube.clusters import cool_down
from kafka_recovery.kube.clusters.cool_down import CoolDown, UnaskedTry

LASTS = timedelta(minutes=10)


def ago(**spell: float) -> datetime:
    """So long before now; the clock goes on while tests run."""
    return datetime.now(UTC) - timedelta(**spell)


def told(at: str) -> CoolDown:
    """As a process knows it that has just started."""
    known = CoolDown()
    known.remember({"lastAutomaticElection": {"at": at, "recoveryUid": "first"}})
    return known


@pytest.fixture
def hot() -> CoolDown:
    known = CoolDown()
    known.elected("first")
    return known


def test_another_recovery_asks_a_person_for_a_while(hot: CoolDown) -> None:
    why = hot.why(LASTS, "second")

    assert (why and why.code) == "CoolingDown"


def test_until_when_it_lasts_is_told_in_the_same_words_all_the_time(
    hot: CoolDown, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the recoveries that wait for it has its status written when the words change."""
    began = time.monotonic()
    told: list[str] = []
    for second in range(1, 300):
        monkeypatch.setattr(time, "monotonic", lambda second=second: began + second)
        why = hot.why(LASTS, "second")
        told += [why.message] if why else []

    assert (len(told), len(set(told))) == (299, 1)


def test_the_recovery_that_elected_goes_on(hot: CoolDown) -> None:
    assert hot.why(LASTS, "first") is None


def test_a_policy_without_it_never_cools_down(hot: CoolDown) -> None:
    assert hot.why(None, "second") is None


def test_it_is_known_after_a_restart_and_over_after_a_while() -> None:
    assert told(f"{ago():%Y-%m-%dT%H:%M:%SZ}").why(LASTS, "second") is not None
    assert told(str(ago(hours=1))).why(LASTS, "second") is None


def test_what_a_journal_tells_is_taken_over_unless_a_later_election_is_known(hot: CoolDown) -> None:
    before = hot.last
    hot.elected_earlier(ago(hours=1), "second")
    assert hot.last == before

    cold = CoolDown()
    cold.elected_earlier(at := ago(minutes=4), "first")
    why = cold.why(LASTS, "second")
    assert f"until {at + LASTS:%Y-%m-%d %H:%M:%S} UTC" in str(why)


def test_a_clock_that_is_set_neither_ends_nor_prolongs_it(hot: CoolDown, monkeypatch: pytest.MonkeyPatch) -> None:
    before = hot.why(timedelta(hours=1), "second")
    for jump in (timedelta(hours=5), timedelta(hours=-5)):
        monkeypatch.setattr(cool_down, "datetime", Mock(now=lambda _, jump=jump: ago() + jump))
        assert hot.why(timedelta(hours=1), "second") == before is not None


def test_one_that_was_told_by_a_clock_that_was_ahead_was_at_the_latest_just_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = told(str(ago(hours=-5)))
    why = known.why(LASTS, "second")
    assert f"until {ago() + LASTS:%Y-%m-%d %H:%M}" in str(why)

    later = time.monotonic() + 600
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert known.why(LASTS, "second") is None


def test_while_one_that_waited_for_its_end_goes_on_the_others_wait(hot: CoolDown) -> None:
    over = timedelta(0)
    hot.goes_first("second")

    why = hot.why(over, "third")
    assert (hot.why(over, "second"), why and why.code) == (None, "CoolingDown")


def test_one_that_went_first_and_elects_nobody_keeps_the_others_waiting_for_a_minute_only(
    hot: CoolDown, monkeypatch: pytest.MonkeyPatch
) -> None:
    hot.goes_first("second")
    later = time.monotonic() + cool_down.TURN.total_seconds()
    monkeypatch.setattr(time, "monotonic", lambda: later + 1)

    assert hot.why(timedelta(0), "third") is None


def test_a_recovery_whose_elections_are_refused_each_time_has_nobody_else_wait(hot: CoolDown) -> None:
    """It tries for as long as it is there: the pause would be renewed for good."""
    first = hot.last
    refused = UnaskedTry(hot, "refused")
    for _ in range(3):
        for _wave in range(2):
            refused.begins_wave()
            assert hot.why(LASTS, "another") is not None, "a crash must not hide what may have been elected"
        assert refused.over(in_vain=True)

    assert hot.last == first, "what was elected before counts on"
    cold = CoolDown()
    refused = UnaskedTry(cold, "refused")
    refused.begins_wave()
    refused.over(in_vain=True)
    assert cold.why(LASTS, "another") is None


@pytest.mark.parametrize("in_vain", [False, True], ids=["elected", "another elected meanwhile"])
def test_an_election_that_may_have_been_held_is_not_taken_back(hot: CoolDown, in_vain: bool) -> None:
    one = UnaskedTry(hot, "second")
    one.begins_wave()
    if in_vain:
        hot.elected("third")
    assert not one.over(in_vain)

    assert (hot.last and hot.last.recovery_uid) == ("third" if in_vain else "second")


def test_a_try_in_vain_takes_back_nothing_of_one_before_it_of_which_nobody_knows_what_it_elected() -> None:
    known = CoolDown()
    one = UnaskedTry(known, "second")
    one.begins_wave()
    one.over(in_vain=False)
    before = known.last
    one.begins_wave()
    one.over(in_vain=True)

    assert known.last == before is not None
