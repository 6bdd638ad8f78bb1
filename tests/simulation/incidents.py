"""Incidents that more than one story tells: Kafka alone in one, an engine inside in the other.

Each ends with everybody in sync by the controller's word, and with its rule switched off one of them is not.
"""

from __future__ import annotations

from kafka_recovery.simulator.model.network import Hold
from kafka_recovery.simulator.model.requests import ElectionType
from kafka_recovery.simulator.model.settings import IsrRpc, Settings
from kafka_recovery.simulator.model.twins import Twin
from simulation.telling import CONTROLLER, ORDERS, A, B, C, Story

PATIENT = Settings(elr=False, preferred_check=None, lag_max=30.0)
"""Replicas leave the ISR when they are fenced, long before they lag out."""


def led_by_turns(*off: str, records: int = 1, settings: Settings | None = None, turns: int = 1) -> Story:
    """KIP-279: A leads, then B, then A, then B again, faster than either hears of the other; r is of B's first turn.

    A wrote s in its second turn, where B has r, and u in further ones. In B's last turn r is written again, which B
    knows, and acknowledged.
    """
    story = Story(A, B, brokers=(A, B), min_isr=2, off=off, settings=settings)
    story.write("m")
    story.run_for(0.6)
    prefer(story, B)
    story.cut("r", A)
    r = story.begin_to_write("r")
    story.run_for(0.1)
    assert (story.holds(A), story.holds(B)) == (["m"], ["m", "r"])
    prefer(story, A)
    story.begin_to_write("s", acks="1", records=records)
    story.run_for(0.1)
    for turn in range(1, turns):
        prefer(story, B)
        prefer(story, A)
        story.begin_to_write(f"u{turn}", acks="1")
        story.run_for(0.1)
    assert (story.holds(A)[:2], story.holds(B)) == (["m", "s"], ["m", "r"])
    prefer(story, B)
    story.begin_to_write("t", acks="1")
    story.run_for(0.1)
    story.heal(A)
    story.heal(B)
    if settings is None:
        assert not story.run_while(lambda: r.acknowledged_at is None)
        assert set(story.isr) == {A, B}, "nobody has left the ISR all the time"
    story.run_for(6)
    return story


def prefer(story: Story, leader: int) -> None:
    """The leadership goes to this replica; the others can't follow it."""
    for one in story.state.replicas:
        for other in story.state.replicas:
            if one != other:
                story.cut(one, other)
    story.reassign(ORDERS, [leader, *(broker for broker in story.state.replicas if broker != leader)])
    story.elect(ORDERS, ElectionType.PREFERRED)
    assert story.until_led() == leader


def heard_from_a_former_term(*off: str) -> Story:
    """KIP-320: C fetches r from A, and says so in a fetch that stalls. B leads for a while, without r; C cuts r.

    A leads again, and the fetch arrives. B has r by then, C is cut off from A and has not.
    """
    story = Story(A, C, B, min_isr=2, off=off, settings=PATIENT)
    story.write("m")
    story.run_for(0.6)
    to_b = story.hold(A, B, "Fetch answer")
    late = story.hold(C, A, "Fetch")
    story.cut("r", B)
    story.cut("r", C)
    r = story.begin_to_write("r", at=A)
    assert not story.run_while(lambda: story.holds(C) != ["m", "r"])
    story.cut(A, B)
    story.cut(B, A)
    story.reassign(ORDERS, [B, A, C])
    story.elect(ORDERS, ElectionType.PREFERRED)
    assert story.until_led() == B
    assert not story.run_while(lambda: story.holds(C) != ["m"]), "C follows B, which never had r"
    story.cut(A, C)
    story.reassign(ORDERS, [A, C, B])
    story.elect(ORDERS, ElectionType.PREFERRED)
    assert story.until_led() == A
    late.release()
    to_b.release()
    story.mend(A, B)
    story.mend(B, A)
    story.run_for(8)
    assert story.holds(B) == ["m", "r"]
    assert set(story.isr) == {A, B, C}
    assert (r.acknowledged_at is not None) is bool(off)
    return story


def cut_at_the_high_watermark(off: tuple[str, ...], on: tuple[str, ...] = ()) -> Story:
    """KAFKA-1211's last comments: all three have m, A dies, and C goes back to its high watermark before it fetches."""
    story = Story(A, B, C, min_isr=2, off=off, on=on, settings=PATIENT)
    story.write("m")
    assert story.holds(A) == story.holds(B) == story.holds(C) == ["m"]
    story.kill(A)
    story.cut(C, B)
    assert story.until_led() == B
    story.run_for(0.1)
    assert set(story.isr) == {B, C}
    return story


def one_generation_is_kept(*off: str) -> Story:
    """KAFKA-1211's second detail: A returns with m2 of a generation that B and C, who have x in its place, forgot."""
    one = Settings(elr=False, preferred_check=None, vector_limit=1)
    story = Story(A, B, C, min_isr=2, off=off, settings=one)
    story.write("m1")
    story.cut(A, B)
    story.cut(A, C)
    story.begin_to_write("m2", acks="1")
    story.run_for(0.1)
    assert story.holds(A) == ["m1", "m2"]
    story.kill(A)
    story.heal(A)
    assert story.until_led() == B
    story.write("x")
    story.write("y")
    story.run_for(0.6)
    story.cut("z", B)
    story.kill(B)
    assert story.until_led() == C
    story.start(B)
    story.until_isr(B, C)
    story.write("z")
    story.bring_back(A)
    story.run_for(6)
    return story


def late_isr_change(
    *off: str, settings: Settings = PATIENT, controllers: int = 1, new_controller: bool = False
) -> Story:
    """KAFKA-14139: C has caught up, A's request to have it in the ISR is under way, C comes back with an empty disk.

    The request arrives then. B has r too. `new_controller`: another is active by then, and knows of C's return first.
    """
    story = Story(A, B, C, min_isr=2, off=off, settings=settings, controllers=controllers)
    in_flight = caught_up_and_asked_for(story)
    story.replace_disk(C)
    story.until_fenced(C)
    story.cut(C, A)
    if new_controller:
        story.fail_over_controller()
        story.run_for(story.settings.controller_election + 0.1)
    story.bring_back(C)
    in_flight.release()
    story.run_for(1.5)
    return story


def caught_up_and_asked_for(story: Story) -> Hold:
    """C was away while r was written, and has caught up; the request to have it in the ISR is held."""
    story.kill(C)
    story.until_isr(A, B)
    story.write("r")
    kind = "IsrChange" if story.settings.isr_rpc is IsrRpc.ISR_CHANGE else "AlterPartition"
    in_flight = story.hold(A, CONTROLLER, kind)
    story.start(C)
    assert not story.run_while(lambda: in_flight.held == 0)
    story.run_for(0.05)
    assert story.holds(C) == ["r"]
    return in_flight


def fenced_and_readmitted(*off: str, settings: Settings = PATIENT) -> Story:
    """KIP-841: the same, but C's host lost power, and C is still away when the request arrives."""
    story = Story(A, B, C, min_isr=2, off=off, settings=settings)
    in_flight = caught_up_and_asked_for(story)
    story.host_crash(C)
    story.until_fenced(C)
    in_flight.release()
    story.run_for(0.1)
    return story


def unfenced_by_its_twin(*off: str) -> Story:
    """KIP-343: two processes say that they are broker C, and the former one's heartbeats count for the new one.

    The new one has an empty disk, and its own heartbeats stall. Leaders don't name broker epochs: a late request
    readmits it.
    """
    settings = Settings(elr=False, preferred_check=None, lag_max=30.0, isr_rpc=IsrRpc.ALTER_PARTITION_V2)
    story = Story(A, B, C, min_isr=2, off=off, settings=settings)
    in_flight = caught_up_and_asked_for(story)
    twin = Twin.of(story.brokers[C])
    story.replace_disk(C)
    story.until_fenced(C)
    own = story.hold(C, CONTROLLER, "Heartbeat")
    story.cut(C, A)
    story.start(C)
    assert not story.run_while(lambda: own.held == 0)
    twin.begin()
    story.run_for(3)
    in_flight.release()
    story.run_for(0.1)
    twin.stop()
    own.release()
    story.run_for(0.1)
    return story


def lost_when_only_c_is_left(story: Story) -> set[str]:
    """Everybody else dies, C is back; A, which holds everything, comes back later."""
    story.kill_and_fence(B)
    story.kill_and_fence(A)
    story.heal(C)
    if not story.alive(C):
        story.bring_back(C)
    story.run_for(3)
    story.start(A)
    story.until_led()
    story.run_for(3)
    return story.lost()


def left_by_its_leader(*records: str, elr: bool = False) -> Story:
    """Led by A alone, with records that only A has, and then not any more; B and C live, and hold `early`."""
    story = Story(A, B, C, elr=elr)
    story.write("early")
    story.pause(B)
    story.pause(C)
    story.until_fenced(B, C)
    for record in records:
        story.write(record)
    story.kill_and_fence(A)
    story.thaw(B)
    story.thaw(C)
    story.until_unfenced(B, C)
    story.run_for(1)
    assert story.leader is None
    return story


def heard_for_its_former_self(*off: str) -> Story:
    """KIP-903's other half: a fetch of C stalls that says it has r, and arrives when C is back with an empty disk."""
    story = Story(A, B, C, min_isr=2, off=off, settings=PATIENT)
    story.kill(C)
    story.until_isr(A, B)
    story.write("r")
    first_answer = story.hold(A, C, "Fetch answer")
    story.start(C)
    assert not story.run_while(lambda: first_answer.held == 0)
    late = story.hold(C, A, "Fetch")
    first_answer.release()
    assert not story.run_while(lambda: late.held == 0)
    assert story.holds(C) == ["r"]
    story.replace_disk(C)
    story.until_fenced(C)
    story.cut(C, A)
    story.bring_back(C)
    story.run_for(0.1)
    story.mend(C, A)
    late.release()
    story.run_for(0.05)
    story.cut(C, A)
    return story


def acknowledged_below_the_minimum(*off: str, elr: bool = False) -> Story:
    """KIP-966: A, B in sync, two needed; C is about to join. r reaches A only; B shuts down; then r reaches C.

    If the high watermark moves now, A counts C, whom the controller does not know to be in sync: two, so it
    acknowledges.
    """
    story = Story(A, B, C, min_isr=2, elr=elr, off=off)
    story.shut_down(C)
    story.until_isr(A, B)
    joining = story.hold(A, CONTROLLER, "AlterPartition")
    story.start(C)
    assert not story.run_while(lambda: joining.held == 0)
    story.run_for(0.1)
    to_c = story.hold(A, C, "Fetch answer")
    story.cut(A, B)
    r = story.begin_to_write("r")
    story.run_for(0.1)
    assert (story.holds(A), story.holds(B), story.holds(C)) == (["r"], [], [])
    story.shut_down(B)
    story.until_isr(A)
    to_c.release()
    story.run_for(0.5)
    assert story.holds(C) == ["r"]
    assert (r.acknowledged_at is not None) is bool(off)
    return story
