"""Incidents as a person on call meets them: the plan of each, and a file with what is shown of it.

Others come about on real brokers, in brokers/test_incidents_shown.py; what these say of the same is to be theirs.

PYTHONPATH=operator:spark:tests python -m unit.cli.terminal.incidents    # writes the files anew; read their diff
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from rich.console import Console

from kafka_recovery.cli.terminal.tables import plan_table
from kafka_recovery.decision.bad_leaders import Against, against
from kafka_recovery.decision.card import AtHand
from kafka_recovery.decision.kubectl import Kubectl
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.evidence import Evidence, MinInsyncReplicas, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.log_directories import BrokerDirectories, LogDirectory
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.pods import BrokerPod, ContainerEnd, NodeState, VolumeClaim
from kafka_recovery.domain.policy import Approval, CandidateOrder, EvidenceRules, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from unit.decision.incident import EPOCH, NOON, ORDERS, Held, broker, dead, evidence, history, log, partition, step

SHOWN = Path(__file__).parent / "plans_shown"
WIDTH = 110
ENOUGH = EvidenceRules(required_answers=RequiredAnswers.ANY)
BY_HAND = Policy((Rule("everything", evidence=ENOUGH),))
BY_ITSELF = Policy((Rule("everything", evidence=ENOUGH, approval=Approval.AUTO_LOSSLESS),))
LONG_AGO = timedelta(hours=1)
GIB = 1 << 30
TWO = MinInsyncReplicas(2, "TOPIC_CONFIG")
ALONE = (step(1, 2, 3), step(1, 2), step(1))
"""Broker 3 left the ISR, then broker 2: with min.insync.replicas 2 nothing was acknowledged after that."""


def silent(id: int) -> Replica:
    """A copy that nobody could read: the broker's process is gone, and its host refuses connections."""
    return Replica(BrokerId(id), None, Reason("BrokerUnreachable", f"broker-{id}:9092: connection refused"))


def orders(count: int, held: Mapping[int, Held], **facts: Any) -> list[PartitionEvidence]:
    """Partitions that are all alike."""
    facts = {"min_isr": TWO, "offline_since": NOON - timedelta(minutes=13), **facts}
    return [partition(held, id=TopicPartition("orders", number), **facts) for number in range(count)]


def planned(seen: Evidence, by: Policy = BY_HAND, **how: Any) -> Plan:
    """The plan of an incident that began long ago."""
    return decide(seen, by, waited=how.pop("waited", LONG_AGO), **how)


def the_last_member_is_dead() -> Plan:
    """Two that fell out of the ISR answer."""
    return planned(evidence(*orders(3, {1: silent(1), 2: log(27), 3: log(15)})))


def the_longest_log_is_the_wrong_one() -> Plan:
    """Broker 1 went on alone in an epoch that the others had left."""
    held: dict[int, Held] = {1: log(159), 2: silent(2), 3: log(119, (0, 0), (1, 79))}
    brokers = (broker(1), dead(2), broker(3))
    return planned(evidence(*orders(2, held, isr=(2,)), brokers=brokers))


def nothing_is_lost_and_nobody_is_asked() -> Plan:
    """The same under a policy that lets what is proven be elected; one topic more is not proven."""
    held: dict[int, Held] = {1: silent(1), 2: log(30), 3: log(10)}
    proven = orders(2, held, history=history(*ALONE, intact=(2, 3)))
    other = partition(held, id=TopicPartition("payments", 0), min_isr=TWO)
    return planned(evidence(*proven, other), BY_ITSELF)


def a_few_records_are_lost_at_most() -> Plan:
    """A person named the replica that holds less."""
    told = history(step(1, 2, 3), step(1, 2), step(1), intact=(2, 3))
    seen = evidence(*orders(1, {1: silent(1), 2: log(30), 3: log(10)}, history=told))
    return planned(seen, designated={ORDERS: BrokerId(3)})


def the_longest_log_is_not_the_proven_one() -> Plan:
    """Broker 3 left the ISR last; broker 2 kept records that were never acknowledged with acks=all."""
    told = history(step(1, 2, 3), step(1, 3), step(1), intact=(2, 3))
    held: dict[int, Held] = {1: silent(1), 2: log(30), 3: log(28, (0, 0), (1, 10))}
    by_length = Policy((replace(BY_HAND.rules[0], candidate_order=CandidateOrder.LONGEST_LOG),))
    return planned(evidence(*orders(2, held, history=told)), by_length)


def the_only_copy_is_empty() -> Plan:
    """It came back with a new disk."""
    return planned(evidence(*orders(2, {1: silent(1), 2: silent(2), 3: log(0)}), brokers=(dead(1), dead(2), broker(3))))


def several_brokers_are_dead() -> Plan:
    """Which one is to be repaired first depends on all partitions."""
    held: dict[int, Held] = {1: silent(1), 2: silent(2), 3: log(40)}
    names = [TopicPartition("orders", number) for number in range(5)]
    isrs = [(1,), (2,), (2,), (1, 2), (2,)]
    seen = [partition(held, id=id, isr=isr, min_isr=TWO) for id, isr in zip(names, isrs, strict=True)]
    return planned(evidence(*seen, brokers=(dead(1), dead(2), broker(3))))


def a_member_answers_and_is_fenced() -> Plan:
    """Its heartbeats do not arrive: Kafka elects it as soon as they do."""
    brokers = (broker(1, fenced=True), broker(2), broker(3))
    return planned(evidence(*orders(1, {1: log(30), 2: log(27), 3: log(15)}), brokers=brokers))


def a_member_is_back_a_moment_ago() -> Plan:
    """The rule's patience is not over: the controllers are given time to elect it."""
    brokers = (broker(1, fenced=True), broker(2), broker(3))
    seen = evidence(*orders(2, {1: log(30), 2: log(27), 3: log(15)}), brokers=brokers)
    return planned(seen, waited=timedelta(seconds=3))


def a_member_is_back_with_less() -> Plan:
    """Its disk was replaced: nobody is told to help it."""
    brokers = (broker(1, fenced=True), broker(2), broker(3))
    seen = evidence(*orders(1, {1: log(0), 2: log(27), 3: log(15)}), brokers=brokers)
    claim = VolumeClaim("data-0-prod-brokers-1", "Bound", NOON - timedelta(minutes=9))
    pod = BrokerPod(BrokerId(1), "prod-brokers-1", "6f1c", "node-b", NodeState.READY, ready=True, claims=(claim,))
    return planned(replace(seen, cluster=replace(seen.cluster, pods=(pod,))))


def many_partitions() -> Plan:
    """Six brokers, two dead; the new leaders are spread over the others."""
    seen = []
    for number in range(60):
        held: dict[int, Held] = {
            id: silent(id) if id < 3 else log(1000 + number)
            for id in (1 + number % 2, 3 + number % 4, 3 + (number + 1) % 4)
        }
        seen.append(partition(held, id=TopicPartition("orders", number), isr=(1 + number % 2,), min_isr=TWO))
    return planned(evidence(*seen, brokers=(dead(1), dead(2), *map(broker, range(3, 7)))))


def some_are_led_again() -> Plan:
    """Between the alarm and the look a broker came back."""
    back, offline = orders(2, {1: silent(1), 2: log(27), 3: log(15)})
    return planned(evidence(replace(back, leader=BrokerId(2), isr=(BrokerId(2),)), offline))


def leader_epochs_are_unknown() -> Plan:
    """Nothing can be compared but lengths."""
    held: dict[int, Held] = {1: silent(1), 2: log(27, epochs=None), 3: log(15, epochs=None)}
    by_length = Policy((replace(BY_HAND.rules[0], candidate_order=CandidateOrder.LONGEST_LOG),))
    return planned(evidence(*orders(1, held)), by_length)


def retention_emptied_the_only_copy() -> Plan:
    """Its log ends where it starts, and not at 0."""
    held: dict[int, Held] = {1: silent(1), 2: silent(2), 3: log(500, (int(EPOCH), 500), start=500)}
    return planned(evidence(*orders(1, held), brokers=(dead(1), dead(2), broker(3))))


def the_pod_of_the_last_member_is_killed() -> Plan:
    """Kubernetes tells why it is away: its container gets too little memory."""
    seen = evidence(*orders(3, {1: silent(1), 2: log(27), 3: log(15)}))
    pod = BrokerPod(
        broker=BrokerId(1),
        name="prod-brokers-1",
        uid="6f1c",
        node="node-b",
        node_state=NodeState.READY,
        phase="Running",
        reason="CrashLoopBackOff",
        ended=ContainerEnd("OOMKilled", 137, NOON - timedelta(minutes=2)),
        restarts=7,
        claims=(VolumeClaim("data-0-prod-brokers-1", "Bound", NOON - timedelta(days=90)),),
    )
    return planned(replace(seen, cluster=replace(seen.cluster, pods=(pod,))))


def the_claim_of_the_last_member_is_new() -> Plan:
    """Somebody deleted it to have the Pod start: Kafka would elect the empty disk."""
    seen = evidence(*orders(3, {1: silent(1), 2: log(27), 3: log(15)}))
    claim = VolumeClaim("data-0-prod-brokers-1", "Pending", NOON - timedelta(minutes=2))
    pod = BrokerPod(BrokerId(1), "prod-brokers-1", "6f1c", phase="Pending", reason="Unschedulable", claims=(claim,))
    return planned(replace(seen, cluster=replace(seen.cluster, pods=(pod,))))


def a_log_directory_of_the_last_member_failed() -> Plan:
    """Its broker lives, and serves what is in the other one."""
    gone = Replica(BrokerId(1), None, Reason("LogDirOffline", "ListOffsets: Kafka answered KAFKA_STORAGE_ERROR (56)"))
    seen = evidence(*orders(3, {1: gone, 2: log(27), 3: log(15)}), brokers=map(broker, range(1, 4)))
    failed = LogDirectory("/data1", "KAFKA_STORAGE_ERROR", copies=(), incoming=())
    other = LogDirectory("/data2", None, 500 * GIB, 310 * GIB, copies=(), incoming=())
    its = BrokerDirectories(BrokerId(1), (failed, other))
    return planned(replace(seen, cluster=replace(seen.cluster, log_directories=(its,))))


def the_volume_of_the_next_leader_is_almost_full() -> Plan:
    """It may fail as soon as it leads."""
    seen = evidence(*orders(3, {1: silent(1), 2: log(27), 3: log(15)}))
    its = BrokerDirectories(BrokerId(2), (LogDirectory("/data", None, 500 * GIB, 12 << 20),))
    return planned(replace(seen, cluster=replace(seen.cluster, log_directories=(its,))))


INCIDENTS: Mapping[str, Callable[[], Plan]] = {
    each.__name__: each
    for each in (
        the_last_member_is_dead, the_longest_log_is_the_wrong_one, nothing_is_lost_and_nobody_is_asked,
        a_few_records_are_lost_at_most, the_longest_log_is_not_the_proven_one, the_only_copy_is_empty,
        several_brokers_are_dead, a_member_answers_and_is_fenced, a_member_is_back_a_moment_ago,
        a_member_is_back_with_less, many_partitions, some_are_led_again,
        leader_epochs_are_unknown, retention_emptied_the_only_copy,
        the_pod_of_the_last_member_is_killed, the_claim_of_the_last_member_is_new,
        a_log_directory_of_the_last_member_failed, the_volume_of_the_next_leader_is_almost_full,
    )
}  # fmt: skip


def at_hand(plan: Plan) -> AtHand:
    """What a person types to the operator."""
    better: dict[Against | None, str] = {
        Against.NAMED: "kubectl kafka-recovery refuse prod-1 --reason TEXT",
        Against.BETTER_PROOF: "kubectl edit recoverypolicy prod --namespace kafka",
    }
    return AtHand(
        f"kubectl kafka-recovery approve prod-1 --plan {digest(plan)[:12]}",
        "at once",
        "kubectl kafka-recovery suspend prod-1; to go on later: kubectl kafka-recovery unsuspend prod-1",
        better=better.get(against(plan), ""),
        kubectl=Kubectl("kafka"),
    )


def as_shown(plan: Plan, hand: AtHand | None = None, *, over: bool = False) -> str:
    """On a terminal, without what differs from machine to machine."""
    console = Console(width=WIDTH, markup=False, highlight=False, emoji=False, color_system=None)
    with console.capture() as captured:
        console.print(plan_table(plan, 8, hand or at_hand(plan), over=over), crop=False)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def file_of(incident: str) -> Path:
    """What is shown of it."""
    return SHOWN / f"{incident}.txt"


if __name__ == "__main__":
    for name, incident in INCIDENTS.items():
        file_of(name).write_text(as_shown(incident()))
