"""KIP-903 and KIP-841: who is readmitted to the ISR by a request that comes late. Each rule switched off alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.timeline import What
from kafka_recovery.simulator.model.truth import Sent
from simulation.incidents import PATIENT, late_isr_change, lost_when_only_c_is_left
from simulation.telling import CONTROLLER, A, B, C, Story, unless

switched = pytest.mark.parametrize("on", [True, False], ids=["on", "off"])


@switched
def test_kip_903_the_new_controller_that_saw_the_registration_first_refuses_the_late_request(on: bool) -> None:
    """Step 5. The request reached the former controller, which is not active any more; it is sent to the new one."""
    story = late_isr_change(*unless(on, "controller_rejects_stale_epochs"), controllers=3, new_controller=True)
    assert story.controllers.active == "controller-2"
    assert set(story.isr) == ({A, B} if on else {A, B, C})
    refused = [(event.actor, event.details["error"]) for event in story.timeline.of(What.REJECTED)]

    assert refused == ([("controller-2", Error.INELIGIBLE_REPLICA)] if on else [])
    assert lost_when_only_c_is_left(story) == (set() if on else {"r"})


@pytest.mark.parametrize(("version", "lost"), [((3, 4), {"r"}), ((3, 5), set())], ids=["3.4", "3.5"])
def test_kip_903_protects_nothing_before_the_metadata_version_lets_followers_say_who_they_are(
    version: tuple[int, int], lost: set[str]
) -> None:
    """AlterPartition v3 is spoken as soon as the controller knows it; Fetch v15 waits for metadata.version 3.5."""
    story = late_isr_change(settings=replace(PATIENT, metadata_version=version))

    assert lost_when_only_c_is_left(story) == lost


def test_kip_903_a_request_after_an_unclean_shutdown_is_accepted_until_the_broker_is_fenced_and_does_no_harm() -> None:
    """The requests drawn in orange: the epochs still match. Fencing takes the replica out of every ISR again."""
    story = Story(A, B, brokers=(A, B))
    story.kill(B)
    story.until_isr(A)
    story.write("r")
    in_flight = story.hold(A, CONTROLLER, "AlterPartition")
    story.start(B)
    assert not story.run_while(lambda: in_flight.held == 0)
    story.host_crash(B)
    in_flight.release()
    story.run_for(0.1)
    assert set(story.isr) == {A, B}, "accepted: the controller does not know yet that B is down"
    story.until_fenced(B)
    assert story.isr == (A,)
    story.start(B)
    story.until_isr(A, B)

    assert story.lost() == set()


@pytest.mark.parametrize("elr", [True, False], ids=["ELR on", "ELR off"])
def test_kip_903_the_last_member_of_an_isr_is_kept_in_it_whatever_it_lost(elr: bool) -> None:
    """The exception. B is one of two, registers with an empty disk, and is out; A is the last, does the same, leads."""
    story = Story(A, B, brokers=(A, B), elr=elr)
    story.write("r")
    story.replace_disk(B)
    story.until_fenced(B)
    story.cut(B, A)
    story.bring_back(B)
    story.run_for(1)
    assert story.isr == (A,)
    story.replace_disk(A)
    story.until_fenced(A)
    assert story.leader is None
    story.start(A)

    assert story.until_led() == A
    assert story.lost() == {"r"}


@pytest.mark.parametrize("half", ["controller_rejects_ineligible", "leader_proposes_eligible"])
@switched
def test_kip_841_a_replica_that_is_shutting_down_is_not_readmitted(half: str, on: bool) -> None:
    """B has caught up and hands its leaderships over; its host loses power before it is done, after A died.

    The controller's half: A's request was under way before B began to stop. The leader's, under a controller that does
    not check: B catches up when it is stopping already.
    """
    older = () if half == "controller_rejects_ineligible" else ("controller_rejects_ineligible",)
    settings = replace(PATIENT, leaders_moved=1, fetch_timeout=0.6)
    story = Story(A, B, brokers=(A, B, C), off=(*older, *unless(on, half)), settings=settings)
    story.write("r")
    story.kill(B)
    story.until_isr(A)
    asked = story.hold(A, CONTROLLER, "AlterPartition")
    if older:
        story.cut(B, A)
    story.bring_back(B)
    story.create_topic("others", [[B, C]] * 8)
    story.run_for(0.5)
    story.shut_down(B)
    story.run_for(0.5)
    assert story.truth.stopping(B)
    story.mend(B, A)
    story.run_for(0.6)
    assert story.holds(B) == ["r"]
    asked.release()
    story.run_for(0.1)
    assert set(story.isr) == ({A} if on else {A, B})
    story.kill(A)
    story.run_for(1.2)
    assert story.alive(B), "it still has leaderships to hand over"
    story.replace_disk(B)
    story.until_fenced(A, B)
    story.bring_back(B)
    story.run_for(1)
    story.start(A)
    story.until_led()
    story.run_for(3)

    assert story.leader == (A if on else B)
    assert story.lost() == (set() if on else {"r"})


def test_kip_841_a_replica_that_is_shutting_down_still_leads_what_it_has_not_handed_over() -> None:
    """KIP-343's gradual way: some leaderships with each heartbeat, and those that are left go on acknowledging."""
    story = Story(A, B, settings=replace(PATIENT, leaders_moved=2))
    story.create_topic("others", [[B, A]] * 5)
    story.run_for(1)
    story.shut_down(B)
    led, written = dict[int, None](), list[Sent]()
    while story.alive(B):
        led.setdefault(sum(story.truth.leads(B, TopicPartition("others", index)) for index in range(5)))
        if story.truth.stopping(B) and story.truth.leads(B, TopicPartition("others", 4)):
            written.append(story.producer(f"p{len(written)}", TopicPartition("others", 4), bootstrap=B).send())
        story.run_for(0.1)

    assert list(led) == [5, 3, 1]
    assert len([sent for sent in written if sent.acknowledged_at is not None]) > 10
    assert story.truth.fenced(B)
