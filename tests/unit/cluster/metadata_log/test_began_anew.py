"""Brokers that are other processes and were left in the ISR (Kafka 3.9): what they lost is in no record of it."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("change", [*ALL_STAY.values()][:3], ids=[*ALL_STAY][:3])
def test_behind_a_leader_that_goes_on_no_history_begins_before_each_follower_was_out_of_the_isr(change: bytes) -> None:
    """A broker on an empty disk says so in a change of the partition: then the others may hold all of it yet."""
    log = created()
    log.add(registered(A, log.end))
    log.add(change)
    log.add(changed(isr=[A, B]))
    assert log.history() is None

    log.add(changed(isr=[A, B, C]))
    assert log.history() is None, "B may be as it was"

    log.add(changed(isr=[A, C]))
    log.add(changed(isr=[A, B, C]))
    assert isrs(log) == [(A, B, C)]


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
