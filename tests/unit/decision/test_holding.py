"""Whose Pod is held back while another leader is elected."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from kafka_recovery.decision.card import card
from kafka_recovery.decision.holding import MOST, HeldPod, Holding, choose, keep_off, may_return, runs
from kafka_recovery.decision.kubectl import NOBODY_KNOWS, Kubectl
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.pods import SILENT_BROKER
from kafka_recovery.domain.evidence import ClusterState, PartitionEvidence, Replica
from kafka_recovery.domain.ids import BrokerId, TopicPartition
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.pods import CLAIM_GOES, BrokerPod, VolumeClaim
from kafka_recovery.domain.policy import EvidenceRules, HoldBack, Policy, RequiredAnswers
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import broker, dead, evidence, log, partition, policy

DEAD = BrokerId(1)
POD = BrokerPod(DEAD, "prod-brokers-1", "uid-1", phase="Pending")


def planned(*partitions: PartitionEvidence) -> Plan:
    return decide(evidence(*partitions or (partition({1: None, 2: log(27), 3: log(15)}),)), Policy())


def chosen(*pods: BrokerPod, cluster: ClusterState | None = None, before: dict[BrokerId, str] | None = None) -> Holding:
    plan = planned()
    return choose(may_return(plan), cluster or plan.evidence.cluster, pods, before or {})


def seen_now(**changes: Any) -> ClusterState:
    """The cluster, where the controllers see the dead broker otherwise."""
    cluster = planned().evidence.cluster
    return replace(cluster, brokers=tuple(replace(b, **changes) if b.id == DEAD else b for b in cluster.brokers))


def only_why(holding: Holding) -> str:
    assert holding.pods == ()
    (left,) = holding.not_held
    assert left.broker == DEAD
    return left.why


def test_the_pod_of_a_dead_isr_member_is_held_back() -> None:
    assert chosen(POD) == Holding((HeldPod(DEAD, "prod-brokers-1", "uid-1"),))


def test_a_plan_says_whose_pod_is_held_back_where_the_policy_wants_it() -> None:
    said = "While leaders are elected, the operator keeps broker 1 away, if down: its Pod is deleted (holdBack: pods)."
    others = "If Strimzi runs these brokers, it makes meanwhile no missing Pod that comes later in the same node pool."
    plan = planned()

    assert not {said, others}.intersection(card(plan).situation)
    shown = card(replace(plan, policy=replace(plan.policy, hold_back=HoldBack.PODS))).situation
    assert shown[shown.index(said) + 1] == others


def test_a_broker_that_is_to_lead_another_partition_is_not_kept_away() -> None:
    other = TopicPartition("payments", 0)
    seen = evidence(
        partition({1: None, 2: log(27), 3: log(15)}),
        partition({1: log(30), 4: None}, id=other, isr=(4,)),
        brokers=(broker(1), broker(2), broker(3), dead(4)),
    )
    rules = policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    plan = decide(seen, rules, waited={TopicPartition("orders", 0): timedelta(hours=1)})
    elections = {id: decision.leader for id, decision in plan.elections.items()}

    assert DEAD not in may_return(plan)
    assert elections == {other: DEAD, TopicPartition("orders", 0): 2}


def test_a_broker_that_lives_and_lost_one_log_directory_is_not_kept_away() -> None:
    """It may lead other partitions, and what it holds of this one is not to come back by a start."""
    failed = Replica(DEAD, None, Reason("LogDirOffline", "the log directory of orders-0 is offline"))
    seen = evidence(partition({1: failed, 2: log(27), 3: log(15)}), brokers=(broker(1), broker(2), broker(3)))
    rules = policy(evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    plan = decide(seen, rules, waited=timedelta(hours=1))

    assert plan.elections
    assert may_return(plan) == ()


def test_whether_a_broker_is_registered_may_be_unknown_and_one_that_is_not_fenced_runs() -> None:
    assert runs(seen_now(registered=None, fenced=False), DEAD)
    assert not runs(seen_now(registered=False, fenced=False), DEAD)


def test_so_is_the_last_known_leader_s_where_isr_and_elr_are_empty() -> None:
    """KIP-966: with ELR on the controller elects it once it is back."""
    plan = planned(partition({1: None, 2: log(27), 3: log(15)}, isr=(), elr=(), last_known_elr=(DEAD,)))

    assert may_return(plan) == (DEAD,)


def test_a_dead_replica_that_kafka_does_not_elect_is_left_alone() -> None:
    plan = planned(partition({4: None, 1: None, 2: log(27)}, isr=(1,)))

    assert may_return(plan) == (DEAD,)


def test_only_for_partitions_that_are_elected_now() -> None:
    other = TopicPartition("payments", 0)
    plan = planned(
        partition({1: None, 2: log(27), 3: log(15)}), partition({4: None, 2: log(27), 3: log(15)}, id=other, isr=(4,))
    )

    assert may_return(plan) == (1, 4)
    assert may_return(plan, [other]) == (4,)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ready": True}, "is Ready, so its broker runs"),
        ({"ephemeral": True}, "emptyDir, which would be deleted with it"),
        ({"controller": True}, "a controller of the quorum as well"),
        (
            {"claims": (VolumeClaim("data-0", "Bound"), VolumeClaim("data-1", "Terminating"))},
            "keeps claim data-1, which",
        ),
        ({"claims": None}, "those can't be read"),
    ],
)
def test_a_pod_that_must_not_go_stays_and_it_is_said_why(changes: dict[str, Any], says: str) -> None:
    assert says in only_why(chosen(replace(POD, **changes)))


@pytest.mark.parametrize(
    "changes", [{"reachable": True}, {"fenced": False, "registered": True}], ids=["it answers", "it is unfenced"]
)
def test_a_broker_that_runs_by_now_is_not_stopped(changes: dict[str, Any]) -> None:
    assert "broker 1 runs" in only_why(chosen(POD, cluster=seen_now(**changes)))


def test_of_two_pods_of_one_broker_nobody_knows_which_is_right() -> None:
    why = only_why(chosen(POD, replace(POD, name="prod-evil-1")))

    assert "several Pods say that they are broker 1: prod-brokers-1, prod-evil-1" in why


def test_a_broker_without_a_pod_is_told_unless_its_pod_is_held_back_already() -> None:
    assert "has no Pod at the moment" in only_why(chosen(BrokerPod(DEAD)))
    assert chosen(before={DEAD: "prod-brokers-1"}).pods == (HeldPod(DEAD, "prod-brokers-1"),)


def test_a_pod_that_is_going_already_is_not_deleted_again() -> None:
    assert chosen(replace(POD, reason="Terminating")).pods == (HeldPod(DEAD, "prod-brokers-1"),)


def test_no_more_pods_than_a_status_has_room_for() -> None:
    many = [BrokerId(number) for number in range(100, 100 + MOST + 10)]
    pods = [BrokerPod(broker, f"prod-brokers-{broker}", "uid") for broker in many]

    held = choose(many, planned().evidence.cluster, pods, {})

    assert [each.broker for each in held.pods] == many[:MOST]
    assert [each.broker for each in held.not_held] == many[MOST:]


def seen_with(*pods: BrokerPod) -> ClusterState:
    return replace(planned().evidence.cluster, pods=pods)


class TestKeepOff:
    """What the card has a person type."""

    def test_a_pod_that_may_go_is_named_after_what_would_make_it_anew_and_both_where_they_are(self) -> None:
        assert keep_off(seen_with(POD), DEAD, Kubectl("kafka", " --context production")) == (
            "first kubectl scale deployment strimzi-cluster-operator --replicas 0 --namespace STRIMZI --context "
            "production (STRIMZI: docs/how-to/silent-broker.md); once Strimzi's Pod is gone, kubectl delete pod "
            "prod-brokers-1 --namespace kafka --context production; once another leads, scale it to 1: until then "
            "Strimzi mends no Kafka"
        )

    def test_where_nobody_knows_which_kubernetes_the_reader_reaches_no_pod_is_deleted_by_its_name(self) -> None:
        assert keep_off(seen_with(POD), DEAD, NOBODY_KNOWS) == SILENT_BROKER

    @pytest.mark.parametrize(
        "pods",
        [
            (),
            (replace(POD, ephemeral=True),),
            (replace(POD, controller=True),),
            (replace(POD, claims=None),),
            (replace(POD, claims=(VolumeClaim("data-0-prod-brokers-1", CLAIM_GOES),)),),
            (POD, replace(POD, name="prod-spare-1")),
        ],
    )
    def test_nobody_is_told_to_delete_one_that_a_disk_or_a_quorum_needs(self, pods: tuple[BrokerPod, ...]) -> None:
        assert keep_off(seen_with(*pods), DEAD, Kubectl("kafka")) == "docs/how-to/silent-broker.md"

    def test_the_page_that_it_names_has_the_same_commands(self) -> None:
        page = (Path(__file__).parents[3] / SILENT_BROKER).read_text()
        scale = "kubectl scale deployment strimzi-cluster-operator --replicas 0"
        assert page.index(f"\n{scale} ") < page.index("\nkubectl delete pod prod-brokers-1\n")
        assert f"first {scale} --namespace STRIMZI " in keep_off(seen_with(POD), DEAD, Kubectl("kafka"))
