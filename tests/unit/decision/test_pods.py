"""What Kubernetes says of the Pod of a broker that is away, in the words of whoever has to decide: elect, or wait."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.decision.card import card
from kafka_recovery.decision.explanation import explain
from kafka_recovery.decision.kubectl import Kubectl
from kafka_recovery.decision.planner import decide
from kafka_recovery.decision.pods import dangers, in_a_sentence, is_down, remedy
from kafka_recovery.decision.waiting import elect_or_wait
from kafka_recovery.domain.attestation import Attestation, Witness
from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.plan import Loss, Plan
from kafka_recovery.domain.pods import BrokerPod, ContainerEnd, NodeState, VolumeClaim
from kafka_recovery.domain.policy import EvidenceRules, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason
from unit.decision.incident import NOON, ORDERS, evidence, log, partition

OLD = NOON - timedelta(days=90)
BOUND = VolumeClaim("data-0-prod-brokers-1", "Bound", OLD)
KILLED = ContainerEnd("OOMKilled", 137, NOON - timedelta(minutes=2))
POLICY = Policy((Rule("everything", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)),))


def pod(id: int = 1, **facts: Any) -> BrokerPod:
    """A Pod that crashes, on a node that is well, with its own claim."""
    crashing = BrokerPod(
        broker=BrokerId(id),
        name=f"prod-brokers-{id}",
        node="n2",
        node_state=NodeState.READY,
        phase="Running",
        reason="CrashLoopBackOff",
        ended=KILLED,
        restarts=7,
        claims=(BOUND,),
    )
    return replace(crashing, **facts)


def planned(*pods: BrokerPod, problem: Reason | None = None, days: int = 0) -> Plan:
    """Broker 1, the last of the ISR, does not answer. `days`: since so many it is known to be away; 0: nobody knows."""
    since = NOON - timedelta(days=days) if days else None
    seen = evidence(partition({1: None, 2: log(27), 3: log(15)}, offline_since=since))
    return decide(
        replace(seen, cluster=replace(seen.cluster, pods=pods, pods_problem=problem)), POLICY, waited=timedelta(hours=1)
    )


def known(plan: Plan) -> str:
    """What stands below the question about the broker."""
    choice = card(plan).choice
    assert choice
    [asked] = [each for each in choice.questions if each.asked.startswith("Can broker 1 be started")]
    return " ".join(asked.known)


def answers(plan: Plan) -> list[str]:
    choice = card(plan).choice
    assert choice
    return [answer for each in choice.questions if each.asked.startswith("Can broker 1") for answer, _ in each.answers]


class TestElectOrWait:
    def test_a_broker_that_is_killed_for_want_of_memory_is_told_with_its_claim_and_what_to_do(self) -> None:
        assert known(planned(pod())) == (
            "Pod prod-brokers-1 on node n2 (Ready): CrashLoopBackOff, last end OOMKilled (exit code 137) at "
            "2026-11-21 11:58:00 UTC, 7 restarts; claim data-0-prod-brokers-1 is Bound, made 2026-08-23 (what is on it "
            "is not known). Its disk is LIKELY WHOLE, if n2 did not boot anew (kubectl describe node n2): a process "
            "that was killed has lost nothing. To have it run, once you know that its disk is its own: give its "
            "container more memory (Strimzi: kubectl edit kafkanodepool; it may roll others, too)."
        )

    def test_of_one_that_is_likely_whole_the_way_to_have_it_run_is_told_and_no_command_that_takes_it_away(self) -> None:
        choice = card(planned(pod())).choice
        assert choice
        said = " ".join(choice.sentences())

        assert "Nobody knows yet: change nothing, approve nothing: look at that disk" in said
        assert "(a killed process is no crash): have it run as said above, wait." in said
        assert "kubectl delete pod" not in said
        assert "until another leads (silent is not off): docs/how-to/silent-broker.md." in said

    @pytest.mark.parametrize(
        "other",
        [
            {"node": None},
            {"node_state": NodeState.NOT_READY},
            {"ended": ContainerEnd("Error", 1)},
            {"claims": ()},
            {"claims": None},
            {"claims": (BOUND, VolumeClaim("data-1", "Pending", OLD))},
            {"claims": (BOUND, VolumeClaim("data-1", "Bound"))},
            {"claims": (VolumeClaim("data-0-prod-brokers-1", "Bound", NOON - timedelta(minutes=2)),)},
            {"ephemeral": True},
        ],
        ids=", ".join,
    )
    def test_of_any_other_it_is_not_said_that_its_disk_is_likely_whole(self, other: dict[str, Any]) -> None:
        assert "LIKELY" in known(planned(pod()))
        assert "LIKELY" not in known(planned(pod(**other)))

    def test_of_two_pods_of_one_broker_neither_is_likely_whole(self) -> None:
        assert "LIKELY" not in known(planned(pod(), pod(name="prod-spare-1")))

    def test_a_pod_that_waits_for_a_node_with_a_lost_claim_is_not_said_to_need_room(self) -> None:
        lost = VolumeClaim("data-0-prod-brokers-1", "Lost", OLD)
        waits = pod(node=None, phase="Pending", reason="Unschedulable", message="0/3 nodes", ended=None, claims=(lost,))

        told = known(planned(replace(waits, restarts=0, since=NOON)))

        assert told == (
            "Pod prod-brokers-1: Unschedulable (0/3 nodes) since 2026-11-21 12:00:00 UTC; claim data-0-prod-brokers-1 "
            "is LOST: its own disk does not come back by it."
        )

    def test_a_broker_without_a_pod_is_said_to_have_none(self) -> None:
        assert known(planned(BrokerPod(BrokerId(1), claims=(BOUND,)))) == (
            "There is no Pod of broker 1; claim data-0-prod-brokers-1 is Bound, made 2026-08-23 (what is on it is not "
            "known)."
        )

    def test_two_pods_of_one_broker_are_a_contradiction(self) -> None:
        told = known(planned(pod(), pod(name="prod-spare-1")))

        assert told.startswith("Kubernetes has 2 Pods that say they are broker 1: only one can be.")

    def test_pods_that_can_t_be_seen_are_unknown_and_no_error(self) -> None:
        plan = planned(problem=Reason("ObjectsUnreadable", "the Pods of Kafka prod can't be seen: Forbidden"))

        assert known(plan) == "Of its Pod nothing is known: the Pods of Kafka prod can't be seen: Forbidden."
        assert plan.elections

    def test_a_process_that_its_kubelet_says_is_down_is_not_asked_about_as_one_that_runs(self) -> None:
        unreached = "It runs, but can't be reached"

        assert unreached not in answers(planned(pod()))
        on_no_node = pod(node=None, node_state=NodeState.UNKNOWN, reason="Unschedulable")
        assert unreached in answers(planned(on_no_node)), "the Pod before it may run on, at a node that is cut off"
        assert unreached in answers(planned(BrokerPod(BrokerId(1), claims=(BOUND,)))), "it may run outside of any Pod"
        for facts in ({"node_state": NodeState.UNKNOWN}, {"node_state": NodeState.NOT_READY}, {"reason": ""}):
            assert unreached in answers(planned(pod(**facts)))
        assert unreached in answers(planned(pod(), pod(name="prod-spare-1")))

    def test_the_table_of_brokers_says_where_it_ran(self) -> None:
        brokers = {each.broker: each.pod for each in card(planned(pod())).brokers}

        assert brokers == {1: "prod-brokers-1 on n2 (Ready)", 2: "", 3: ""}

    def test_the_explanation_of_a_partition_tells_of_the_brokers_that_were_away(self) -> None:
        told = explain(planned(pod()), ORDERS).pods

        assert told[0].startswith("Broker 1: Pod prod-brokers-1 on node n2 (Ready): CrashLoopBackOff")


class TestDisks:
    def test_a_claim_that_is_young_may_be_empty(self) -> None:
        young = VolumeClaim("data-0-prod-brokers-1", "Bound", NOON - timedelta(minutes=2))
        plan = planned(pod(claims=(young,)))

        choice = card(plan).choice

        assert choice
        [danger] = choice.dangers
        assert "claim data-0-prod-brokers-1 of broker 1 was made only at 2026-11-21 11:58:00 UTC: its disk" in danger
        assert "To have it run" not in known(plan)

    @pytest.mark.parametrize(("days", "is_young"), [(2, True), (4.5, False)])
    def test_a_claim_that_was_made_in_an_outage_of_days_is_young(self, days: float, is_young: bool) -> None:
        """The outage began three days before; what was made less than a day before that is young as well."""
        plan = planned(pod(claims=(VolumeClaim("data-0", "Bound", NOON - timedelta(days=days)),)), days=3)

        choice = card(plan).choice

        assert choice
        assert any("DANGER: claim data-0 of broker 1 was made only" in each for each in choice.dangers) == is_young
        assert ("To have it run" in known(plan)) != is_young
        assert ("LIKELY WHOLE" in known(plan)) != is_young
        assert any("its OLD volume is found" in each for each in answers(plan)) == is_young
        assert ("To have it run" in " ".join(explain(plan, ORDERS).pods)) != is_young

    def test_a_young_claim_of_a_pod_that_the_operator_holds_back_needs_nobodys_hand(self) -> None:
        young = pod(claims=(VolumeClaim("data-0", "Bound", NOON),))
        held = Kubectl("kafka", held=frozenset({young.broker}))

        [danger] = dangers([young], NOON, held)

        assert "its disk may be EMPTY. The operator keeps it off meanwhile (holdBack: pods). The old" in danger

    def test_it_may_be_so_whatever_is_proven_and_also_where_the_old_disk_was_attested_lost(self) -> None:
        """Kafka elects the broker on the new disk, and the others delete all that they hold."""
        plan = planned(pod(claims=(), ephemeral=True))
        lossless = Loss(LossClass.LOSSLESS, at_most=0, proof="it was read so")
        proven = replace(plan, decisions=tuple(replace(each, loss=lossless) for each in plan.decisions))
        lost = Attestation(BrokerId(1), Witness.DISK_LOST, "ann", "INC-7", NOON, NOON + timedelta(hours=1))
        cluster = replace(plan.evidence.cluster, attestations=(lost,))
        attested = replace(plan, evidence=replace(plan.evidence, cluster=cluster))

        for each in (proven, attested):
            assert any(told.startswith("DANGER: broker 1 keeps its logs in") for told in elect_or_wait(each).dangers)

    def test_logs_in_an_empty_dir_end_with_the_pod(self) -> None:
        [danger] = dangers([pod(claims=(), ephemeral=True)], NOON)

        assert "a new Pod starts with an EMPTY disk" in danger
        assert list(remedy(pod(claims=(), ephemeral=True), NOON)) == []

    def test_claims_that_can_t_be_read_are_not_said_to_be_missing(self) -> None:
        assert in_a_sentence(pod(claims=None)).endswith("; its volume claims can't be read.")

    def test_a_claim_that_is_being_deleted_is_said_to_go_with_its_pod(self) -> None:
        going = pod(claims=(BOUND, VolumeClaim("data-1", "Terminating")))

        assert "claim data-1 is BEING DELETED: its disk goes with it once no Pod uses it" in in_a_sentence(going)

    def test_a_claim_that_is_not_there_is_said_to_be_missing(self) -> None:
        assert "claim data-1 is MISSING" in in_a_sentence(pod(claims=(BOUND, VolumeClaim("data-1", None))))


def test_a_container_that_ends_for_a_reason_of_its_own_is_read_in_its_log() -> None:
    failed = pod(ended=ContainerEnd("Error", 1))

    assert list(remedy(failed, NOON)) == ["Why it ends: kubectl logs prod-brokers-1 -c kafka --previous."]


def test_a_process_that_runs_and_is_not_ready_may_be_recovering_its_logs_and_only_it_knows_how_far_it_is() -> None:
    told = known(planned(pod(reason="", ended=ContainerEnd("Error", 1))))

    assert "a broker first recovers its logs, with its port closed. How far it is no client can ask" in told
    assert "kubectl logs prod-brokers-1 -c kafka, or by JMX kafka.log:type=LogManager" in told


@pytest.mark.parametrize(
    "other",
    [{}, {"reason": "", "ready": True}, {"reason": "", "phase": "Pending"}, {"reason": "", "name": None}],
    ids=["it crashes", "it is Ready", "it has not begun", "it has no Pod"],
)
def test_of_any_other_that_is_not_said(other: dict[str, Any]) -> None:
    assert "recovers its logs" not in known(planned(pod(**other)))


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "Error"])
def test_a_process_that_crashes_does_not_run_whichever_way_the_kubelet_says_so(reason: str) -> None:
    crashes = pod(reason=reason, ended=ContainerEnd("Error", 1))

    assert is_down([crashes])
    assert not is_down([crashes, crashes])
    assert not is_down([replace(crashes, node_state=NodeState.UNKNOWN)])
    assert not is_down([replace(crashes, reason="ImagePullBackOff")])


@pytest.mark.parametrize(
    "seen",
    [
        pod(),
        pod(ended=ContainerEnd("Error", 1)),
        pod(reason="", ended=None, restarts=0),
    ],
)
def test_each_command_in_an_explanation_is_for_the_kubernetes_and_namespace_that_were_asked(seen: BrokerPod) -> None:
    told = " ".join(explain(planned(seen), ORDERS, None, Kubectl("kafka", " --context production")).pods)
    commands = re.findall(r"kubectl [^(),;.]*", told)
    assert commands
    for command in commands:
        assert "--context production" in command
        assert "--namespace kafka" in command or command.startswith("kubectl describe node ")
