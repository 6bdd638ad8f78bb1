"""KIP-903's and KIP-966's rules of who may be in the ISR and what counts as committed, each switched off alone."""

from __future__ import annotations

from random import Random

import pytest

from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.timeline import What
from simulation.incidents import acknowledged_below_the_minimum
from simulation.telling import CONTROLLER, ORDERS, A, B, C, Story, unless

switched = pytest.mark.parametrize("on", [True, False], ids=["on", "off"])


def a_former_incarnation_is_heard_late(*off: str) -> Story:
    """B had caught up, and the fetch that says so is under way; it arrives when B is back with an empty disk.

    B's new incarnation is unfenced, A knows it, and has no fetch of it yet.
    """
    story = Story(A, B, brokers=(A, B), off=off)
    story.kill(B)
    story.until_isr(A)
    story.write("r")
    first_answer = story.hold(A, B, "Fetch answer")
    story.start(B)
    assert not story.run_while(lambda: first_answer.held == 0)
    late = story.hold(B, A, "Fetch")
    first_answer.release()
    assert not story.run_while(lambda: late.held == 0)
    assert story.holds(B) == ["r"]
    story.replace_disk(B)
    story.until_fenced(B)
    story.cut(B, A)
    story.bring_back(B)
    story.run_for(0.1)
    story.mend(B, A)
    late.release()
    return story


def refusals(story: Story) -> list[Error]:
    """Why the controller refused ISR changes."""
    return [event.details["error"] for event in story.timeline.of(What.REJECTED)]


@switched
def test_kip_903_a_leader_does_not_propose_a_former_incarnation_even_to_a_controller_that_would_take_it(
    on: bool,
) -> None:
    """The leader's half of the rule, with a controller that does not compare broker epochs."""
    off = ("controller_rejects_stale_epochs", *unless(on, "leader_matches_broker_epochs"))
    story = a_former_incarnation_is_heard_late(*off)
    story.run_for(0.1)
    assert story.isr == ((A,) if on else (A, B))
    story.kill_and_fence(A)
    story.start(A)
    story.until_led()
    story.run_for(3)

    assert story.leader == (A if on else B)
    assert story.lost() == (set() if on else {"r"})


@switched
def test_kip_903_with_a_controller_that_compares_the_leaders_half_saves_time_and_no_records(on: bool) -> None:
    """Without it A asks in vain, once a fetch, and its writes wait for a B that is no more; nothing is lost either way.

    A's log grows while the late fetch is parked, which is a second reason to ask.
    """
    story = a_former_incarnation_is_heard_late(*unless(on, "leader_matches_broker_epochs"))
    story.run_for(0.01)
    written = story.begin_to_write("w")
    story.run_for(1)
    assert refusals(story) == ([] if on else [Error.INELIGIBLE_REPLICA, Error.INELIGIBLE_REPLICA])
    assert story.isr == (A,)
    assert (written.acknowledged_at is not None) is on
    story.until_isr(A, B)  # B's new incarnation fetches.
    story.kill(A)
    assert story.until_led() == B

    assert written.acknowledged_at is not None
    assert story.lost() == set()


@switched
def test_kip_903_without_the_leaders_half_a_replica_joins_later_for_its_former_self_was_proposed_first(
    on: bool,
) -> None:
    """One ISR change is under way at a time: B, caught up anew, has its turn when the vain one is refused."""
    story = a_former_incarnation_is_heard_late(*unless(on, "leader_matches_broker_epochs"))
    slow = story.hold(A, CONTROLLER, "AlterPartition")
    assert not story.run_while(lambda: story.holds(B) != ["r"])
    story.run_for(0.1)
    assert slow.held == 1
    slow.release()
    released_at = story.scheduler.now
    assert not story.run_while(lambda: B not in story.isr)

    waited = story.scheduler.now - released_at
    assert waited < 0.01 if on else waited > 0.1, f"{waited} s"
    assert refusals(story) == ([] if on else [Error.INELIGIBLE_REPLICA])


@switched
def test_kip_903_without_the_leaders_half_writes_wait_for_the_former_self_of_a_replica_that_does_not_fetch(
    on: bool,
) -> None:
    """B was in sync a moment ago, is back, unfenced, and can't reach A, which holds it to be about to join."""
    story = Story(A, B, brokers=(A, B), off=unless(on, "leader_matches_broker_epochs"))
    story.write("before")
    story.shut_down(B)
    story.until_isr(A)
    story.cut(B, A)
    story.bring_back(B)
    story.run_for(0.1)
    written = story.begin_to_write("w")
    asked_at = story.scheduler.now
    assert not story.run_while(lambda: written.acknowledged_at is None)

    waited = story.scheduler.now - asked_at
    assert waited < 0.1 if on else waited > story.settings.lag_max / 2, f"{waited} s"
    assert refusals(story) == []


def a_storm_of_lost_disks(seed: int, *off: str) -> int:
    """One replica at a time loses its disk as it is about to join, and is heard late; then the leader falls.

    Returns how many acknowledged records are lost. Never two copies are: without a stale word nothing can be.
    """
    chance = Random(seed)
    story = Story(A, B, C, min_isr=2, elr=seed % 2 == 1, off=off)
    story.producer("p", ORDERS, every=0.05)
    for _ in range(8):
        story.until_isr(A, B, C)
        story.run_for(0.5)
        leader = story.until_led()
        struck = chance.choice([broker for broker in (A, B, C) if broker != leader])
        story.kill_and_fence(struck)
        story.start(struck)
        story.run_for(chance.uniform(1, 1.1))
        fetches = story.hold(struck, leader, "Fetch")
        story.run_for(chance.uniform(0, 0.02))
        isr_changes = story.hold(leader, CONTROLLER, "AlterPartition")
        story.run_for(chance.uniform(0, 0.05))
        story.replace_disk(struck)
        story.until_fenced(struck)
        story.cut(struck, leader)
        story.bring_back(struck)
        story.run_for(0.1)
        story.mend(struck, leader)
        for held in chance.sample([fetches, isr_changes], 2):
            held.release()
            story.run_for(chance.uniform(0, 0.02))
        story.kill_and_fence(leader)
        story.start(leader)
    story.until_isr(A, B, C)
    return len(story.missing())


def test_kip_903_in_storms_of_lost_disks_the_controllers_half_alone_keeps_everything() -> None:
    """The epochs that the leader would compare go with its request; the controller knows what is registered now."""
    leaders_half, controllers_half = "leader_matches_broker_epochs", "controller_rejects_stale_epochs"
    for seed in range(12):
        assert a_storm_of_lost_disks(seed, leaders_half) == 0, f"seed {seed}"
    assert a_storm_of_lost_disks(1, leaders_half, controllers_half) > 0, "the storms are harsh enough to show it"


@switched
def test_kip_966_what_an_eligible_replica_lacks_is_not_acknowledged_while_an_isr_change_is_under_way(on: bool) -> None:
    """ELR's promise: who left the ISR as it fell below the minimum holds all that was acknowledged, so it may lead.

    If the high watermark moves while C is about to join, A counts C, whom the controller does not know to be in sync.
    """
    story = acknowledged_below_the_minimum(*unless(on, "high_watermark_needs_min_isr"), elr=True)
    assert story.state.elr == (B,)
    (isr_changes,) = story.network.holds
    story.kill_and_fence(A)
    isr_changes.release()
    story.mend(A, B)
    story.start(B)
    assert story.until_led() == B
    story.run_for(3)

    assert not [event for event in story.timeline.of(What.ELECTED) if event.details["unclean"]]
    assert story.lost() == (set() if on else {"r"})


def test_kip_966_what_was_not_acknowledged_below_the_minimum_is_once_the_isr_change_is_decided() -> None:
    """The rule costs nothing but this wait."""
    story = Story(A, B, C, min_isr=2, elr=True)
    story.shut_down(C)
    story.until_isr(A, B)
    isr_changes = story.hold(A, CONTROLLER, "AlterPartition")
    story.start(C)
    assert not story.run_while(lambda: isr_changes.held == 0)
    story.cut(A, B)
    r = story.begin_to_write("r")
    story.run_for(0.1)
    story.shut_down(B)
    story.until_isr(A)
    assert r.acknowledged_at is None
    isr_changes.release()
    story.until_isr(A, C)

    assert not story.run_while(lambda: r.acknowledged_at is None, at_most=1)
    assert story.truth.high_watermark(A, ORDERS) == 1
