"""The designs' own stories: each loses data with its rule switched off and keeps it with the rule on.

Nothing is set by hand: producers write, brokers replicate, the controller elects; faults come at the right moment.
KIP-1275's stories are in `test_stories_of_kip_1275`.
"""

from __future__ import annotations

import pytest

from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.requests import (
    AlterReassignments,
    DescribePartitions,
    ElectionType,
    ElectLeaders,
    PartitionsDescribed,
    Refused,
)
from kafka_recovery.simulator.model.settings import IsrRpc, Settings
from kafka_recovery.simulator.model.timeline import What
from simulation.telling import CONTROLLER, ORDERS, A, B, C, Story, unless

switched = pytest.mark.parametrize("on", [True, False], ids=["on", "off"])


@switched
def test_kafka_14139_a_late_isr_change_readmits_a_replica_that_has_lost_its_disk(on: bool) -> None:
    """KIP-903's timeline, steps 1 to 6; then the leader dies."""
    story = Story(A, B, brokers=(A, B), off=unless(on, "controller_rejects_stale_epochs"))
    story.kill(B)
    story.until_isr(A)
    story.write("r")
    in_flight = story.hold(A, CONTROLLER, "AlterPartition")
    story.start(B)  # 1. B catches up, and A asks for it to be in the ISR.
    assert not story.run_while(lambda: in_flight.held == 0)
    story.replace_disk(B)  # 2. Before the controller has the request, B fails for good.
    story.until_fenced(B)  # 3. The controller fences it; it is in no ISR.
    story.cut(B, A)
    story.start(B)  # 4. B is back with an empty disk, 5. and the controller knows that.
    story.until_unfenced(B)
    in_flight.release()  # 6. The request arrives.
    story.run_for(0.1)
    assert story.isr == ((A,) if on else (A, B))
    story.kill_and_fence(A)
    story.mend(B, A)
    story.start(A)
    leader = story.until_led()
    story.run_for(3)

    assert leader == (A if on else B)
    assert story.lost() == (set() if on else {"r"})
    refused = [event.details["error"] for event in story.timeline.of(What.REJECTED)]
    assert refused == ([Error.INELIGIBLE_REPLICA] if on else [])


@switched
def test_kip_841_a_fenced_replica_that_is_readmitted_leads_when_it_returns_with_less(on: bool) -> None:
    """The ISR change was under way when the replica's host lost power; the leader is the next to die."""
    story = Story(A, B, brokers=(A, B), off=unless(on, "controller_rejects_ineligible"))
    story.kill(B)
    story.until_isr(A)
    story.write("r")
    in_flight = story.hold(A, CONTROLLER, "AlterPartition")
    story.start(B)
    assert not story.run_while(lambda: in_flight.held == 0)
    story.host_crash(B)
    story.until_fenced(B)
    in_flight.release()
    story.run_for(0.1)
    assert story.isr == ((A,) if on else (A, B))
    story.kill_and_fence(A)
    story.bring_back(B)
    story.run_for(1)
    story.start(A)
    story.until_led()
    story.run_for(3)

    assert story.leader == (A if on else B)
    assert story.lost() == (set() if on else {"r"})


@switched
def test_kip_841_a_leader_does_not_propose_a_fenced_replica_even_to_a_controller_that_would_take_it(on: bool) -> None:
    """The leader's half of the rule: an older controller does not check, and the replica's heartbeats do not arrive."""
    off = ("controller_rejects_ineligible", *unless(on, "leader_proposes_eligible"))
    story = Story(A, B, brokers=(A, B), off=off)
    story.cut(B, CONTROLLER)
    story.until_fenced(B)
    story.write("r")
    story.run_for(1)
    assert story.isr == ((A,) if on else (A, B))
    story.kill_and_fence(A)
    story.host_crash(B)
    story.mend(B, CONTROLLER)
    story.bring_back(B)
    story.run_for(1)
    story.start(A)
    story.until_led()
    story.run_for(3)

    assert story.leader == (A if on else B)
    assert story.lost() == (set() if on else {"r"})


@pytest.mark.parametrize(
    ("rpc", "error"),
    [
        (IsrRpc.ALTER_PARTITION_V1, Error.OPERATION_NOT_ATTEMPTED),
        (IsrRpc.ALTER_PARTITION_V2, Error.INELIGIBLE_REPLICA),
        (IsrRpc.ALTER_PARTITION_V3, Error.INELIGIBLE_REPLICA),
    ],
)
def test_kip_841_the_refusal_has_another_name_in_older_versions_and_the_leader_reverts(
    rpc: IsrRpc, error: Error
) -> None:
    story = Story(A, B, brokers=(A, B), settings=Settings(elr=False, isr_rpc=rpc))
    story.kill(B)
    story.until_isr(A)
    in_flight = story.hold(A, CONTROLLER, "AlterPartition")
    story.start(B)
    assert not story.run_while(lambda: in_flight.held == 0)
    story.kill_and_fence(B)
    in_flight.release()
    story.run_for(0.1)

    (refused,) = story.timeline.of(What.REJECTED)
    assert refused.details["error"] is error
    story.write("r")  # The leader went back to its own ISR: it does not wait for the fenced replica.
    story.start(B)
    story.until_isr(A, B)


@switched
def test_kafka_1211_example_1_an_uncommitted_message_goes_and_a_committed_one_stays(on: bool) -> None:
    """m1 is on both, m2 on A only; A dies, B commits m3 and m4; A comes back, and B is gone before A could fetch.

    Going back to the high watermark, as of its last checkpoint, drops m1 from A, too.
    """
    story = Story(A, B, brokers=(A, B), off=unless(on, "truncate_by_epochs"))
    story.write("m1")
    story.cut(A, B)
    story.begin_to_write("m2", acks="1")
    story.run_for(0.1)
    assert story.holds(A) == ["m1", "m2"]
    story.kill(A)
    story.mend(A, B)
    assert story.until_led() == B
    story.write("m3")
    story.write("m4")
    story.cut(A, B)
    story.bring_back(A)
    story.run_for(1)
    assert story.holds(A) == (["m1", "m2"] if on else [])
    story.kill_and_fence(B)
    story.elect(ORDERS, ElectionType.UNCLEAN)
    assert story.until_led() == A

    assert story.lost() == ({"m3", "m4"} if on else {"m1", "m3", "m4"})


def test_kafka_1211_example_1_without_another_failure_both_logs_become_the_same() -> None:
    story = Story(A, B, brokers=(A, B))
    story.write("m1")
    story.cut(A, B)
    story.begin_to_write("m2", acks="1")
    story.run_for(0.1)
    story.kill(A)
    story.mend(A, B)
    story.until_led()
    story.write("m3")
    story.write("m4")
    assert story.truth.epochs(A, ORDERS) == ((0, 0),)
    assert story.truth.epochs(B, ORDERS) == ((0, 0), (1, 1))
    story.start(A)
    story.until_isr(A, B)

    assert story.holds(A) == story.holds(B) == ["m1", "m3", "m4"]
    assert story.truth.epochs(A, ORDERS) == ((0, 0), (1, 1))


@switched
def test_kafka_1211_example_2_what_was_committed_is_kept_by_a_follower_that_returns(on: bool) -> None:
    """m1 and m2 are committed; A dies, B commits m3 and m4; A comes back as B dies."""
    story = Story(A, B, brokers=(A, B), off=unless(on, "truncate_by_epochs"))
    story.write("m1")
    story.write("m2")
    story.kill(A)
    assert story.until_led() == B
    story.write("m3")
    story.write("m4")
    story.cut(A, B)
    story.bring_back(A)
    story.run_for(1)
    story.kill_and_fence(B)
    story.elect(ORDERS, ElectionType.UNCLEAN)
    assert story.until_led() == A

    assert story.lost() == ({"m3", "m4"} if on else {"m1", "m2", "m3", "m4"})


@switched
def test_kafka_1211_two_failures_lose_a_committed_message_although_three_had_it(on: bool) -> None:
    """The last comments: A dies, C goes back to its high watermark before fetching from B, B dies, C leads.

    All three had m; C is in sync all the time, so nothing about its election is unclean.
    """
    story = Story(A, B, C, off=unless(on, "truncate_by_epochs"))
    story.write("m")
    assert story.holds(A) == story.holds(B) == story.holds(C) == ["m"]
    story.kill(A)
    story.cut(C, B)
    assert story.until_led() == B
    story.kill(B)
    assert story.until_led() == C
    story.mend(C, B)
    story.start(A)
    story.start(B)
    story.until_isr(A, B, C)

    assert story.lost() == (set() if on else {"m"})
    assert story.holds(A) == story.holds(B) == (["m"] if on else [])
    assert not any(event.details["unclean"] for event in story.timeline.of(What.ELECTED))


@switched
def test_kip_343_a_broker_cut_off_from_the_controller_serves_old_metadata_and_takes_writes(on: bool) -> None:
    """A leader that cannot reach the controller goes on acknowledging acks=1; the elected one never has these."""
    story = Story(A, B, C, on=("brokers_fence_themselves",) if on else ())
    producer = story.producer("p", ORDERS, acks="1", every=0.5)
    story.run_for(2)
    story.isolate(A)
    story.run_for(20)
    assert story.leader == B
    described: list[PartitionsDescribed | Refused] = []
    story.request("client", A, DescribePartitions((ORDERS,)), described.append)
    story.run_for(1)
    leaders = [answer.partitions[ORDERS].leader for answer in described if isinstance(answer, PartitionsDescribed)]
    assert leaders == ([] if on else [A])
    producer.stop()
    story.run_for(5)
    story.heal(A)
    story.until_isr(A, B, C)

    cut_off_at = 2.4
    self_fenced_at = cut_off_at + story.settings.self_fencing + 2 * story.settings.heartbeat
    acknowledged = [sent for sent in story.truth.sent(ORDERS) if sent.acknowledged_at is not None]
    lost = [sent for sent in acknowledged if sent.ids[0] not in story.truth.records(B, ORDERS)]
    late = [sent for sent in lost if sent.sent_at > self_fenced_at]
    assert lost, "what A took before it fenced itself is lost either way"
    assert bool(late) is not on


def ranked_first_without_what_was_acknowledged() -> Story:
    """r reaches A and X. B, in sync without r, becomes preferred leader, writes s, and dies before anyone fetches.

    A leads again and commits r with X. X falls out of the ISR, A dies, B returns.
    """
    x = C
    story = Story(A, B, x, min_isr=2)
    story.write("before")
    story.run_for(1)
    story.cut(A, B)
    r = story.begin_to_write("r")
    story.run_for(0.1)
    assert story.holds(x) == ["before", "r"]
    story.cut(x, B)
    story.reassign(ORDERS, [B, A, x])
    assert story.elect(ORDERS, ElectionType.PREFERRED) is Error.NONE
    assert story.until_led() == B
    story.begin_to_write("s", acks="1")
    assert not story.run_while(lambda: story.holds(B) != ["before", "s"], at_most=2)
    story.kill(B)
    assert story.until_led() == A
    assert not story.run_while(lambda: r.acknowledged_at is None)
    story.pause(x)
    story.until_isr(A)
    story.kill_and_fence(A)
    story.thaw(x)
    story.heal(B)
    story.heal(x)
    story.start(B)
    story.until_unfenced(B, x)
    story.run_for(1)
    assert story.leader is None
    return story


@pytest.mark.parametrize("chosen", ["highest epoch", "the one that holds it"])
def test_the_highest_epoch_and_r_plus_w_above_n_prove_nothing(chosen: str) -> None:
    """Three replicas, W = 2, two of them observed, and the better-ranked one lacks what was acknowledged."""
    story, x = ranked_first_without_what_was_acknowledged(), C
    state = story.state
    last_epochs = {
        broker: max(epoch for epoch, start in story.truth.epochs(broker, ORDERS) if start < len(story.holds(broker)))
        for broker in (B, x)
    }
    assert last_epochs[B] > last_epochs[x]
    leader = B if chosen == "highest epoch" else x
    order = (leader, *(broker for broker in state.replicas if broker != leader))
    assert story.ask(B, AlterReassignments({ORDERS: order}, "tool")).partitions == {ORDERS: Error.NONE}
    assert story.ask(B, ElectLeaders(ElectionType.UNCLEAN, (ORDERS,), "tool")).partitions == {ORDERS: Error.NONE}
    assert story.until_led() == leader

    assert story.lost() == ({"r"} if chosen == "highest epoch" else set())
