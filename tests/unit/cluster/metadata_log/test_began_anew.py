"""Brokers that are other processes and were left in the ISR (Kafka 3.9): what they lost is in no record of it."""

from __future__ import annotations

import pytest

from kafka_recovery.cluster.metadata_log import image as image_module
from kafka_recovery.decision.intactness import began_uncleanly, is_intact
from kafka_recovery.domain.ids import BrokerId
from unit.cluster.metadata_log.test_image import isrs, told
from unit.cluster.metadata_log.writing import (
    DISKS,
    NO_LEADER,
    A,
    B,
    C,
    changed,
    created,
    minimum_of,
    registered,
    whole,
)

ALL_STAY = {
    "on another disk": changed(directories=[DISKS[A], DISKS[C], DISKS[B]]),
    "another minimum": minimum_of("orders", "2"),
    "written anew": whole((A, B, C)),
    "another leader": changed(leader=C),
}
"""Changes in which all replicas are in sync, and were before."""


@pytest.mark.parametrize("change", ALL_STAY.values(), ids=ALL_STAY)
def test_behind_a_leader_that_went_on_as_another_process_no_history_begins_any_more(change: bytes) -> None:
    """It wrote beyond the ends of their logs before they asked it. By the leader epoch, the same one, their logs are
    its log, so they cut nothing off: not when they come back into the ISR, and not when another one leads.
    """
    log = created()
    log.add(changed(isr=[A, B]))
    log.add(registered(A, log.end))
    log.add(changed(isr=[A, B, C]))
    assert log.history() is None, "C was out of the ISR, and may have got further than what was left of A's log"

    log.add(change)
    log.add(changed(isr=[A, C]))
    log.add(changed(isr=[A, B, C]))
    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A, B, C], leader=B))
    assert log.history() is None, "all were out of the ISR, and whoever asks the leader has asked for a later epoch"


def test_a_leader_that_went_on_without_followers_begins_its_history_anew() -> None:
    log = created(replicas=(B,))
    log.add(registered(B, log.end))
    log.add(changed(leader=B))

    assert isrs(log) == [(B,)]


def test_steps_of_which_no_history_is_told_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_module, "MOST_STEPS_IN_ALL", 5)
    log = created()
    log.add(registered(A, log.end))
    for _ in range(5):
        log.add(changed(isr=[A, B]))
        log.add(changed(isr=[A, B, C]))

    assert log.image().doubt is None


@pytest.mark.parametrize("change", ALL_STAY.values(), ids=ALL_STAY)
def test_a_follower_that_began_anew_in_the_isr_may_have_lost_what_it_held_whatever_changes_meanwhile(
    change: bytes,
) -> None:
    log = created()
    log.add(registered(B, log.end))
    log.add(change)
    assert not is_intact(BrokerId(B), told(log))

    log.add(changed(isr=[B, C], leader=B))
    assert began_uncleanly(told(log))


def test_a_follower_that_began_anew_and_was_out_of_the_isr_since_is_one_like_the_others() -> None:
    log = created()
    log.add(registered(B, log.end))
    log.add(changed(isr=[A, C]))
    log.add(changed(isr=[A, B, C]))

    assert isrs(log) == [(A, B, C)]
    assert is_intact(BrokerId(B), told(log))


def test_once_such_a_follower_leads_whoever_stayed_in_the_isr_beside_it_is_in_doubt() -> None:
    log = created()
    log.add(registered(B, log.end))
    log.add(changed(isr=[B, C], leader=B))
    log.add(changed(isr=[A, B, C]))
    assert began_uncleanly(told(log)), "C may hold what B has lost"

    log.add(changed(isr=[A, B]))
    log.add(changed(isr=[A, B, C]))
    assert isrs(log) == [(A, B, C)]


def test_the_only_replica_begins_its_history_anew_when_it_leads_again() -> None:
    """There is no other that could hold more, and it never leaves the ISR."""
    log = created(replicas=(B,))
    log.add(changed(leader=NO_LEADER))
    log.add(registered(B, log.end))
    log.add(changed(leader=B))

    assert isrs(log) == [(B,)]


def test_what_one_in_doubt_may_lack_is_not_kept_for_the_next_process() -> None:
    log = created()
    log.add(registered(B, log.end))
    log.add(changed(isr=[A, B]))
    assert log.history() is not None
    kept = log.image().kept()
    assert (kept and kept.partitions) == ()
