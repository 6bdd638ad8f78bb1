"""Which conditions an event tells, however often somebody looks."""

from __future__ import annotations

import pytest

from kafka_recovery.kube.machinery.conditions import Condition, condition
from kafka_recovery.kube.machinery.news import AT_ONCE, EVERY, REMEMBERED, News


class Teller:
    """One process, on a clock of its own, that tells what is Ready of objects."""

    def __init__(self) -> None:
        self.now = 0.0
        self._news = News(lambda: self.now)
        self._status: dict[str, Condition] = {}

    def tells(self, message: str, reason: str = "OfflinePartitions", uid: str = "u-1") -> bool:
        """The status says so from now on."""
        before, after = self._status.get(uid, {}), condition("Ready", False, reason, message, 1)
        self._status[uid] = after
        return self._news.is_told(uid, before, after)

    def restarts(self) -> None:
        self._news = News(lambda: self.now)


SILENT = "broker 4 did not answer within 5s, of orders-17 and 3 more"


@pytest.fixture
def teller() -> Teller:
    return Teller()


def test_another_reason_is_told_at_once_and_a_look_that_sees_the_same_is_not(teller: Teller) -> None:
    assert teller.tells(SILENT)
    assert not teller.tells(SILENT)
    assert teller.tells("no broker answered", "OperatorCutOff")
    assert teller.tells(SILENT)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("broker 4 did not answer within 8s, of orders-18 and 31 more", False),
        ("broker 5 did not answer within 5s, of orders-17 and 3 more", True),
        ("broker 4 refused us: the password is wrong", True),
    ],
    ids=["other numbers", "another broker", "another cause"],
)
def test_other_words_under_the_same_reason_are_told_and_other_numbers_are_not(
    teller: Teller, other: str, told: bool
) -> None:
    teller.tells(SILENT)
    teller.now += EVERY

    assert teller.tells(other) is told


def test_another_reference_that_leads_nowhere_is_told_though_its_name_has_a_digit(teller: Teller) -> None:
    teller.tells("Secret kafka-tls-2026 is not there", "InvalidReference")

    assert teller.tells("Secret kafka-tls-2027 is not there", "InvalidReference")


def test_words_that_come_and_go_at_each_look_are_told_now_and_then(teller: Teller) -> None:
    """A thousand looks, a second apart."""
    said = 0
    for look in range(1000):
        teller.now += 1
        said += teller.tells("it is away" if look % 2 else "it is there")

    assert said == AT_ONCE + 1000 // EVERY


def test_words_that_came_too_soon_are_told_later_if_they_stay(teller: Teller) -> None:
    assert [teller.tells(f"no {what}") for what in ("Secret", "policy", "Pod", "Node")] == [True] * AT_ONCE + [False]
    teller.now += EVERY

    assert teller.tells("no Node")
    assert not teller.tells("no Node")


def test_reasons_that_take_turns_are_told_each_time_and_hold_up_no_words_for_long(teller: Teller) -> None:
    assert all(teller.tells(SILENT, reason) for _ in range(100) for reason in ("OperatorCutOff", "OfflinePartitions"))
    teller.now += EVERY

    assert teller.tells("no Secret")


def test_a_new_process_goes_by_what_the_status_says(teller: Teller) -> None:
    teller.tells(SILENT)
    teller.restarts()
    assert not teller.tells(SILENT)
    teller.restarts()

    assert teller.tells("no Secret")


def test_objects_do_not_hinder_one_another_while_not_more_than_so_many_are_remembered(teller: Teller) -> None:
    assert all(teller.tells(SILENT, uid=f"u-{n}") for n in range(REMEMBERED + 1))
    again = [teller.tells(f"no {what}", uid=uid) for uid in ("u-1", "u-2") for what in ("Secret", "policy", "Pod")]

    assert again == [True, True, False] * 2


def test_however_many_objects_there_are_no_more_events_tell_of_other_words_than_are_remembered(teller: Teller) -> None:
    told = 0
    for look in range(10):
        told += sum(
            teller.tells("it is away" if look % 2 else "it is there", uid=f"u-{n}") for n in range(2 * REMEMBERED)
        )

    assert told <= 2 * REMEMBERED + AT_ONCE * REMEMBERED, "each is told once, and what is remembered now and then"
    teller.now += AT_ONCE * EVERY
    assert teller.tells("no Secret", uid="u-0"), "it is forgotten, and what is remembered is settled"


def test_what_was_told_again_is_remembered_longer_than_what_was_not(teller: Teller) -> None:
    for n in range(REMEMBERED):
        teller.tells(SILENT, uid=f"u-{n}")
    teller.tells("no Secret", uid="u-0")
    teller.tells(SILENT, uid="another one")

    assert [teller.tells(f"no {what}", uid="u-0") for what in ("policy", "Pod")] == [True, False]
