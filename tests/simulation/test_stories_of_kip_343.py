"""KIP-343's stories: who is alive by whose word, and what is lost where nobody compares incarnations."""

from __future__ import annotations

from functools import partial

import pytest

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Outcome
from kafka_recovery.domain.policy import Approval
from kafka_recovery.simulator.histories.scenario import Rules
from kafka_recovery.simulator.model.errors import Error
from kafka_recovery.simulator.model.kafka import SimulatedKafka
from kafka_recovery.simulator.model.messages import BrokerStatus, Heartbeat, Registration
from kafka_recovery.simulator.model.requests import DescribeCluster, DescribeQuorum, ElectionType
from kafka_recovery.simulator.model.settings import IsrRpc, Settings
from kafka_recovery.simulator.model.timeline import What
from kafka_recovery.simulator.model.twins import Twin
from simulation.incidents import PATIENT, fenced_and_readmitted, lost_when_only_c_is_left, unfenced_by_its_twin
from simulation.telling import ORDERS, A, B, C, Story, unless
from simulation.with_engine import the_engine_recovers

switched = pytest.mark.parametrize("on", [True, False], ids=["on", "off"])


@switched
def test_of_two_processes_with_one_id_the_former_ones_heartbeats_dont_count_for_the_new_one(on: bool) -> None:
    """C's new process has an empty disk and is inactive. The former one's heartbeats would make it a live replica."""
    story = unfenced_by_its_twin(*unless(on, "incarnations_checked"))
    assert set(story.isr) == ({A, B} if on else {A, B, C})

    assert lost_when_only_c_is_left(story) == (set() if on else {"r"})


def offline_with_a_behind(*, gone: bool) -> Story:
    """A alone was in the ISR, and has "r"; the controller has fenced it. B is dead, C alive and out of sync.

    `gone`: A's host is off. If not, its process stands still, or would still serve: the longer timeout is not over.
    """
    story = Story(A, B, C, settings=Settings(elr=False))
    story.kill(B)
    story.cut(C, A)
    story.until_isr(A)
    story.write("r")
    if gone:
        story.host_crash(A)
    else:
        story.pause(A)
    story.until_fenced(A)
    story.mend(C, A)
    story.run_for(1)
    assert (story.leader, story.isr) == (None, (A,))
    return story


def test_a_fenced_broker_whose_process_only_stands_still_is_waited_for_and_nothing_is_lost() -> None:
    """Only the shorter of the two timeouts is over for it: it goes on three seconds after the engine's look began."""
    story = offline_with_a_behind(gone=False)
    story.scheduler.after(3, partial(story.thaw, A))
    said = the_engine_recovers(story, approval=Approval.AUTO)
    story.run_for(3)

    assert said.outcome is not Outcome.RECOVERED
    assert (story.leader, story.lost()) == (A, set())


def test_a_fenced_broker_whose_host_is_gone_is_not_waited_for_to_the_deadline() -> None:
    story = offline_with_a_behind(gone=True)
    began = story.scheduler.now
    said = the_engine_recovers(story, approval=Approval.AUTO)

    assert (said.outcome, story.leader) == (Outcome.RECOVERED, C)
    assert story.scheduler.now - began < Rules().deadline
    assert said.loss is LossClass.UNKNOWN


def test_a_twin_is_told_that_its_incarnation_is_not_valid_any_more_and_the_new_process_serves() -> None:
    story = Story(A, B, C)
    twin = Twin.of(story.brokers[C])
    story.kill_and_fence(C)
    story.start(C)
    story.until_isr(A, B, C)
    twin.begin()
    story.run_for(5)

    assert set(twin.answers) == {Error.INVALID_INCARNATION_ID}
    assert set(story.isr) == {A, B, C}


def test_a_higher_incarnation_is_believed_and_makes_the_former_one_invalid() -> None:
    """The controller hears of it before it hears of the registration, as when that goes through ZooKeeper."""
    story = Story(A, B, C)
    former = story.truth.broker_epoch(C)
    story.kill(C)
    story.run_for(1)
    answer = story.controllers.membership.heartbeat(Heartbeat(C, former + 100, BrokerStatus.ACTIVE, 10**6))
    assert (answer.error, answer.broker, answer.incarnation_id) == (Error.NONE, C, former + 100)
    late = story.controllers.membership.heartbeat(Heartbeat(C, former, BrokerStatus.ACTIVE, 10**6))
    assert late.error is Error.INVALID_INCARNATION_ID
    assert (story.truth.broker_epoch(C), story.truth.fenced(C)) == (former + 100, False)
    story.until_fenced(C)  # It is watched like any other: nothing more is heard of it.


def test_when_a_cluster_begins_everybody_is_inactive_and_no_topic_can_be_made() -> None:
    kafka = SimulatedKafka(3, inactive_at_first=True)
    assert {broker.heartbeats.status for broker in kafka.brokers.values()} == {BrokerStatus.INITIAL}
    with pytest.raises(ValueError, match="no replica on a live broker"):
        kafka.create_topic("orders", [[1, 2, 3]])
    kafka.run_for(5)
    assert {broker.heartbeats.status for broker in kafka.brokers.values()} == {BrokerStatus.ACTIVE}
    kafka.create_topic("payments", [[1, 2, 3]])
    kafka.run_for(1)
    state = kafka.truth.state(ORDERS._replace(topic="payments"))
    assert (state and state.isr) == (1, 2, 3)


@pytest.mark.parametrize("fenced_listed", [True, False], ids=["4.0", "3.9"])
def test_inactive_brokers_are_left_out_of_what_clients_are_told(fenced_listed: bool) -> None:
    """Who asks for fenced brokers, and not before Kafka 4.0, is told of them as well."""
    story = Story(A, B, C, settings=Settings(elr=False, fenced_listed=fenced_listed))
    story.kill_and_fence(C)

    clients = story.ask(A, DescribeCluster(fenced_too=False))
    admins = story.ask(A, DescribeCluster())

    assert [broker.id for broker in clients.brokers] == [A, B]
    assert [broker.id for broker in admins.brokers] == ([A, B, C] if fenced_listed else [A, B])
    assert (clients.lists_fenced, admins.lists_fenced) == (False, fenced_listed)


@pytest.mark.parametrize(
    ("rpc", "lost"), [(IsrRpc.ISR_CHANGE, {"r"}), (IsrRpc.ALTER_PARTITION_V2, set())], ids=["KIP-343", "KIP-841"]
)
def test_an_isr_change_request_readmits_who_is_inactive_for_it_looks_at_nobody_in_the_isr(
    rpc: IsrRpc, lost: set[str]
) -> None:
    """What KIP-841 added to the request that KIP-343 had begun. All of the cluster's ISR changes travel that way."""
    story = fenced_and_readmitted(settings=Settings(elr=False, preferred_check=None, lag_max=30.0, isr_rpc=rpc))
    assert (C in story.isr) is bool(lost)

    assert lost_when_only_c_is_left(story) == lost


@pytest.mark.parametrize("rpc", [IsrRpc.ISR_CHANGE, IsrRpc.ALTER_PARTITION_V2])
@switched
def test_a_former_leader_changes_no_isr_even_where_incarnations_are_not_compared(rpc: IsrRpc, on: bool) -> None:
    """Its leader epoch gives it away: whoever registers anew leads again in a later one, if at all."""
    settings = Settings(elr=False, preferred_check=None, isr_rpc=rpc)
    story = Story(A, B, brokers=(A, B), off=unless(on, "incarnations_checked"), settings=settings)
    kind = "IsrChange" if rpc is IsrRpc.ISR_CHANGE else "AlterPartition"
    story.kill(B)
    story.until_isr(A)
    story.write("r")
    in_flight = story.hold(A, "controller-1", kind)
    story.start(B)
    assert not story.run_while(lambda: in_flight.held == 0)
    story.replace_disk(B)
    story.kill(A)
    story.until_fenced(A, B)
    story.start(A)
    assert story.until_led() == A
    in_flight.release()
    story.run_for(0.1)
    refused = [event.details["error"] for event in story.timeline.of(What.REJECTED)]

    assert story.isr == (A,)
    epochs = Error.NOT_LEADER_OR_FOLLOWER if rpc is IsrRpc.ISR_CHANGE else Error.FENCED_LEADER_EPOCH
    assert refused == ([] if on else [epochs])
    assert story.lost() == set()


@switched
def test_an_overthrown_sole_member_acknowledges_for_everybody_until_it_fences_itself(on: bool) -> None:
    """acks=all: A is alone in the ISR, reached by its clients and not by the controller; B is elected uncleanly."""
    story = Story(A, B, C, on=("brokers_fence_themselves",) if on else ())
    story.kill(B)
    story.kill(C)
    story.until_isr(A)
    story.write("both")
    story.start(B)
    story.cut(B, A)
    story.cut(A, B)
    story.isolate(A)
    story.until_fenced(A)
    story.until_unfenced(B)
    producer = story.producer("p", ORDERS, every=0.5, bootstrap=A)
    story.run_for(5)
    story.elect(ORDERS, ElectionType.UNCLEAN)
    assert story.until_led() == B
    elected_at = story.scheduler.now
    story.run_for(10)
    producer.stop()
    late = [sent for sent in story.truth.acknowledged(ORDERS) if sent.sent_at > elected_at and sent.producer == "p"]
    story.heal(A)
    story.until_isr(A, B)

    lost = {record for record in story.missing() if record.producer == "p"}
    assert {record for sent in late for record in sent.ids} <= lost
    assert bool(late) is not on


def test_a_broker_that_fenced_itself_completes_what_it_was_asked_before_and_takes_nothing_new() -> None:
    story = Story(A, B, C, on=("brokers_fence_themselves",))
    story.isolate(A)
    before: list[object] = []
    after: list[object] = []
    story.request("client", A, DescribeQuorum(), before.append)
    story.run_for(10)
    assert [event.actor for event in story.timeline.of(What.SELF_FENCED)] == ["broker 1"]
    story.request("client", A, DescribeQuorum(), after.append)
    story.run_for(1)
    story.heal(A)
    story.run_for(5)

    assert len(before) == 1
    assert after == []


@pytest.mark.parametrize("endpoint", ["", "localhost", "localhost:", "localhost:0", ":9092", "local host:9092"])
def test_a_broker_without_a_valid_endpoint_is_not_registered(endpoint: str) -> None:
    kafka = SimulatedKafka(3, brokers=(1, 2, 3), endpoints={2: endpoint}, inactive_at_first=True)
    register = kafka.controllers.membership.register
    assert register(Registration(BrokerId(2), "2/1", -1, None, endpoint)) == (Error.INVALID_REQUEST, -1)
    kafka.run_for(10)

    assert [broker for broker in (1, 2, 3) if kafka.brokers[BrokerId(broker)].is_open] == [1, 3]


def test_a_negative_id_is_an_invalid_request() -> None:
    membership = Story(A, B, C).controllers.membership
    nobody = BrokerId(-1)
    assert membership.register(Registration(nobody, "x", -1, None, "host:9092")) == (Error.INVALID_REQUEST, -1)
    assert membership.heartbeat(Heartbeat(nobody, 1, BrokerStatus.ACTIVE, 1)).error is Error.INVALID_REQUEST


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"self_fencing": 2.0}, r"self_fencing \(2 s\) must be longer than session \(3 s\)"),
        ({"session": 0.5}, r"session \(0.5 s\) must be longer than heartbeat \(1 s\)"),
        ({"fetch_timeout": 0.1}, r"fetch_timeout \(0.1 s\) must be longer than fetch_max_wait \(0.5 s\)"),
        ({"lag_max": 0.5}, r"lag_max \(0.5 s\) must be longer than fetch_max_wait \(0.5 s\)"),
        ({"vector_limit": 0}, "vector_limit is 0"),
        ({"leaders_moved": 0}, "leaders_moved is 0"),
    ],
)
def test_settings_that_contradict_each_other_name_both_and_say_why(changed: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Settings(**changed)  # type: ignore[arg-type]
    assert PATIENT.self_fencing > PATIENT.session
