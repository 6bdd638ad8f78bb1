"""plan and explain: from the journal's records, and only if they hold what the status names."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_recovery.cli.cluster.plan_files import read_plan
from kafka_recovery.decision.planner import decide
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.pods import BrokerPod, VolumeClaim
from kafka_recovery.domain.policy import Approval, CandidateOrder, EvidenceRules, Policy, RequiredAnswers, Rule
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.recoveries.status import Known, Phase
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import CLUSTER_ID, NAMESPACE, Incidents, SmallKubernetes, row
from unit.cli.small_cluster import SmallCluster
from unit.decision.incident import NOON, ORDERS, evidence, history, log, partition, step
from unit.documents import document


def one_line(shown: str) -> str:
    """Sentences as they are, wherever the terminal broke them."""
    return " ".join(shown.split())


def test_the_plan_of_the_moment_and_what_to_type_next(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()

    shown = plugin.says("plan", "prod-1")

    assert "orders-17  Elect" in shown
    assert f"Digest: {digest(plan)}\n" in shown
    assert "An approval counts while nothing has changed. Once the evidence is older" in one_line(shown)
    assert "explain prod-1 TOPIC-PARTITION" in shown
    command = f"kubectl kafka-recovery approve prod-1 --plan {digest(plan)[:12]}"
    assert f"\nTHEN, IF YOU APPROVE: {command}\n" in shown
    assert shown.endswith(
        f"\nApprove: kubectl kafka-recovery approve prod-1 --plan {digest(plan)[:12]}"
        "\nRefuse:  kubectl kafka-recovery refuse prod-1 --reason TEXT\n"
    )
    assert max(map(len, shown.splitlines())) <= 80


COST = (
    "Electing as planned may lose an unknown part of what broker 1 holds on 1 partition (could not be read: "
    "BrokerTimeout)."
)


def test_what_may_be_lost_is_said_before_the_table_and_by_broker(
    incidents: Incidents, plugin: Plugin, cluster: SmallCluster
) -> None:
    cluster.offline("orders-18", {2: 40, 3: 15})
    incidents.awaiting()

    shown = plugin("plan", "prod-1").stdout

    head, _, table = shown.partition("Partition  Verdict")
    assert COST.replace("1 partition", "2 partitions") in one_line(head)
    assert row(head, "1") == "1 fenced, silent by Kafka 2 of 2 0 of 2 unknown (2 of 2)"
    assert "  Deletes if you approve\n" in head
    assert "    Deletes if broker 1 leads: unknown (2 of 2)\n" in head
    assert "orders-17" in table


def test_a_plan_that_is_carried_out_asks_for_nothing(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()
    incidents.tell("prod-1", Phase.ELECTING, Reason("Electing", "wave 1 of 1 is being elected"), plan)

    shown = plugin("plan", "prod-1").stdout

    assert "Nobody is asked about it now: Electing: wave 1 of 1 is being elected" in shown.replace("\n", " ")
    assert "Approve:" not in shown


def test_below_a_plan_that_is_not_to_be_approved_the_last_line_does_not_say_approve(
    incidents: Incidents, plugin: Plugin, cluster: SmallCluster
) -> None:
    cluster.offline("orders-17", {2: 0})
    plan = incidents.awaiting()

    shown = plugin("plan", "prod-1").stdout

    assert "\nDO NOT APPROVE. Broker 2 is EMPTY: it holds no record of orders-17." in shown
    assert "DO NOT APPROVE: read why at the top of the plan. What may be done is told there:" in one_line(shown)
    command = f"kubectl kafka-recovery approve prod-1 --plan {digest(plan)[:12]}"
    assert f"\nONLY IF NO OTHER COPY IS LEFT: {command}\n" in shown
    assert f"\nOnly if no other copy is left: {command}\nRefuse:  " in shown
    assert "Approve: " not in shown


def test_elections_that_nobody_is_asked_about_come_with_the_command_that_stops_them(
    incidents: Incidents, plugin: Plugin
) -> None:
    incidents.cluster(authority="Automatic")
    incidents.awaiting(policy=Policy((Rule("all", approval=Approval.AUTO),)))

    shown = one_line(plugin("plan", "prod-1").stdout)

    assert "UNASKED: leaders of orders-17 are elected WITHOUT anybody's yes, at once. To stop that: kubectl " in shown
    assert "suspend prod-1; to go on later: kubectl kafka-recovery unsuspend prod-1" in shown
    assert "Let it go on:" not in shown, "nothing is proven of it"


def test_elections_that_an_observing_cluster_holds_back_are_not_said_to_begin_at_once(
    incidents: Incidents, plugin: Plugin
) -> None:
    incidents.awaiting(policy=Policy((Rule("all", approval=Approval.AUTO),)))
    incidents.cluster(authority="Observe")
    assert "yes, once authority is no more Observe. 1 partition" in one_line(plugin("plan", "prod-1").stdout)


def bettered() -> Plan:
    """By length it elects broker 2; of broker 3 more is proven."""
    told = history(step(1, 2, 3), step(1, 3), step(1), intact=(2, 3))
    seen = evidence(partition({1: None, 2: log(30), 3: log(28, (0, 0), (1, 10))}, history=told))
    seen = replace(seen, cluster=replace(seen.cluster, cluster_id=CLUSTER_ID))
    rule = Rule(
        "all", candidate_order=CandidateOrder.LONGEST_LOG, evidence=EvidenceRules(required_answers=RequiredAnswers.ANY)
    )
    return decide(seen, Policy((rule,)), waited=timedelta(hours=1))


def test_in_place_of_a_plan_beside_which_another_leader_is_proven_better_the_policy_is_edited(
    incidents: Incidents, plugin: Plugin
) -> None:
    plan = incidents.awaiting(made=bettered())
    incidents.cluster(policyRef={"name": "by-length"})

    shown = plugin("plan", "prod-1").stdout

    edit = f"kubectl edit recoverypolicy by-length --namespace {NAMESPACE}"
    assert f"\nIN PLACE OF APPROVING: {edit}\n" in shown
    assert f"\nIn place of approving: {edit}\nRefuse:  " in shown
    assert digest(plan)[:12] not in shown.split("Digest: ")[0], "no command approves it"


def test_what_stops_a_broker_is_written_for_the_kubernetes_and_the_namespace_that_were_asked_for(
    incidents: Incidents, plugin: Plugin
) -> None:
    claim = VolumeClaim("data-0-prod-brokers-1", "Pending", NOON)
    pod = BrokerPod(BrokerId(1), "prod-brokers-1", "6f1c", phase="Pending", reason="Unschedulable", claims=(claim,))
    seen = evidence(partition({1: None, 2: log(30), 3: log(10)}))
    seen = replace(seen, cluster=replace(seen.cluster, cluster_id=CLUSTER_ID, pods=(pod,)))
    rule = Rule("all", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    incidents.awaiting(made=decide(seen, Policy((rule,)), waited=timedelta(hours=1)))

    for command in ("plan", "status"):
        shown = one_line(plugin(command, "prod-1", "--namespace", NAMESPACE, "--context", "production").stdout)

        assert "--replicas 0 --namespace STRIMZI --context production (STRIMZI: " in shown
        assert f"kubectl delete pod prod-brokers-1 --namespace {NAMESPACE} --context production;" in shown


@pytest.mark.parametrize("known", [True, False])
def test_where_the_policy_to_edit_can_t_be_told_no_line_promises_a_way_to_a_better_plan(
    incidents: Incidents, plugin: Plugin, known: bool
) -> None:
    incidents.awaiting(made=bettered())
    if known:
        incidents.cluster()

    shown = plugin("plan", "prod-1").stdout

    assert "in place of approving" not in shown.lower()
    assert shown.endswith("\n\nRefuse:  kubectl kafka-recovery refuse prod-1 --reason TEXT\n")


def test_in_place_of_a_plan_whose_leader_is_named_badly_the_recovery_that_names_it_is_ended(
    incidents: Incidents, plugin: Plugin
) -> None:
    seen = evidence(partition({1: None, 2: log(30), 3: log(10)}))
    seen = replace(seen, cluster=replace(seen.cluster, cluster_id=CLUSTER_ID))
    rule = Rule("all", evidence=EvidenceRules(required_answers=RequiredAnswers.ANY))
    named = {ORDERS: BrokerId(3)}
    incidents.awaiting(made=decide(seen, Policy((rule,)), waited=timedelta(hours=1), designated=named))

    shown = plugin("plan", "prod-1").stdout

    refuse = "kubectl kafka-recovery refuse prod-1 --reason TEXT"
    assert f"\nIN PLACE OF APPROVING: {refuse}\n" in shown
    assert f"\nIn place of approving: {refuse}\n" in shown


def test_a_cool_down_is_told_with_what_follows_where_the_policy_would_ask_nobody(
    incidents: Incidents, plugin: Plugin
) -> None:
    cools = Reason("CoolingDown", "another recovery held an automatic election; until 12:10 a person says yes")
    by_itself = Policy((Rule("all", approval=Approval.AUTO),))
    plan = incidents.awaiting(reason=cools, policy=by_itself, because=cools.message)
    incidents.cluster(authority="Automatic")
    approve = f"kubectl kafka-recovery approve prod-1 --plan {digest(plan)[:12]}"

    for told in (plugin("plan", "prod-1").stdout, plugin("status", "prod-1").stdout):
        shown = one_line(told)
        assert (
            "ASKED ALL THE SAME: the policy asks nobody about the election of orders-17. A person is asked now: "
            f"{cools.message}. They begin without a yes once that holds no more. To stop that: kubectl kafka-recovery "
            "suspend prod-1"
        ) in shown
        assert f"THEN, IF YOU APPROVE: {approve}" in shown
    shown = one_line(plugin("plan", "prod-1").stdout)
    assert "Wait: the operator elects nobody until somebody approves, or no person is needed any more. Kafka" in shown


FAILED = Reason("AfterFailure", "an election of this recovery did not verify: a person decides how to go on")
NAMED = Reason("AwaitingApproval", "somebody named leaders: that wants an approver")
NAMING = {"partitions": [{"topic": "orders", "partition": 17, "designatedLeader": 2}]}


@pytest.mark.parametrize(
    ("asked", "spec"),
    [(FAILED, {}), (NAMED, {"rankingRef": {"name": "nightly"}}), (NAMED, {"scope": NAMING})],
    ids=["after a failure", "leaders of a ranking", "leaders that a person named"],
)
def test_what_a_person_is_asked_to_its_end_is_not_said_to_begin_without_a_yes(
    incidents: Incidents, plugin: Plugin, asked: Reason, spec: dict[str, Any]
) -> None:
    by_itself = Policy((Rule("all", approval=Approval.AUTO),))
    incidents.awaiting(reason=asked, policy=by_itself, because=asked.message, **spec)
    incidents.cluster(authority="Automatic")

    shown = one_line(plugin("plan", "prod-1").stdout)

    assert f"A person is asked now: {asked.message}. 1 partition has no leader" in shown
    assert "Wait: what needs approval the operator elects only once somebody approves. Kafka can still elect a" in shown


@pytest.mark.parametrize("whose", ["cluster", "operator"])
def test_under_observe_nobody_is_told_to_approve(incidents: Incidents, plugin: Plugin, whose: str) -> None:
    incidents.cluster(authority="Observe" if whose == "cluster" else "Approve")
    incidents.awaiting(reason=Reason("ObserveOnly", "authority is Observe: this shows what would be done, no more"))

    told = plugin("plan", "prod-1").stdout
    shown = one_line(told)

    assert (
        f"Approving does nothing now: authority of {'cluster prod' if whose == 'cluster' else 'the operator'} is"
        in shown
    )
    assert "Wait: what needs approval the operator elects only once somebody approves. Kafka can still elect a" in shown
    assert "An approval written before counts from then on, if the plan is still the same." in shown
    assert "Automatic lets the rules decide. A rule that says AutoApprove would then elect without asking" in shown
    assert "Approve:" not in told
    assert "approve prod-1" not in told
    raised = (
        '\nRaise:   kubectl patch wkc prod --namespace kafka --type=merge -p \'{"spec":{"authority":"Approve"}}\'\n'
    )
    assert (raised in told) == (whose == "cluster")
    assert told.endswith("\nRefuse:  kubectl kafka-recovery refuse prod-1 --reason TEXT\n")


def test_under_observe_the_rules_that_would_elect_at_once_are_named(incidents: Incidents, plugin: Plugin) -> None:
    incidents.cluster(authority="Observe")
    incidents.awaiting(policy=Policy((Rule("clicks", approval=Approval.AUTO),)))

    shown = one_line(plugin("plan", "prod-1").stdout)

    assert "Rule clicks says AutoApprove and then elects without asking anybody, at once and in every later" in shown


def test_a_program_gets_a_plan_file(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()

    shown = plugin("plan", "prod-1", "-o", "json").stdout

    told = document("plan", shown)
    assert (told["digest"], told["recovery"]) == (digest(plan), "prod-1")
    assert read_plan(shown, "shown") == plan


def test_a_recovery_without_a_plan_says_what_it_is_at(incidents: Incidents, plugin: Plugin) -> None:
    incidents.opened("prod-1", Known(Phase.PLANNING, Reason("Planning", "every replica is being asked")))

    assert plugin.refuses("plan", "prod-1") == "Error: prod-1 has no plan yet: Planning: every replica is being asked\n"


def test_a_plan_that_was_replaced_in_its_record_is_not_shown(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes, cluster: SmallCluster
) -> None:
    plan = incidents.awaiting()
    cluster.offline("payments-0", {3: 5})
    other = incidents.record("prod-2", "uid-of-prod-2", incidents.plan())
    maps = kubernetes.memory.records()
    mine, theirs = maps[f"prod-1-{digest(plan)[:16]}-plan"], maps[f"prod-2-{other[:16]}-plan"]
    mine["spec"] |= {name: theirs["spec"][name] for name in ("content", "sha256")}

    refused = plugin("plan", "prod-1")

    assert refused.exit_code == 2
    assert f"it was replaced: it holds plan {other}" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("words", [["orders-17"], ["prod-1", "orders-17"]])
def test_a_partition_is_explained_with_or_without_its_recovery_s_name(
    incidents: Incidents, plugin: Plugin, words: list[str]
) -> None:
    incidents.opened("prod-0", scope={"partitions": [{"topic": "payments", "partition": 0}]})
    incidents.awaiting()

    shown = plugin.says("explain", *words)

    assert shown.startswith("orders-17: Elect broker 2 (rule ")
    assert "What would change it:" in shown
    assert "Before you start a broker:" in shown


LED = PartitionOutcome(
    TopicPartition("orders", 17), Outcome.RECOVERED, leader=BrokerId(2), leader_epoch=LeaderEpoch(8), log_end=Offset(27)
)
COPY = (
    "Before broker 1 is started, copy its directory of orders-17: on joining, it deletes every record that the leader "
    "lacks."
)


@pytest.mark.parametrize("command", [("plan", "prod-1"), ("explain", "prod-1", "orders-17")])
def test_of_a_recovery_that_has_ended_it_is_said_what_a_returning_broker_deletes(
    incidents: Incidents, plugin: Plugin, command: tuple[str, ...]
) -> None:
    plan = incidents.awaiting()
    incidents.carried_out("prod-1", plan, LED)
    incidents.tell("prod-1", Phase.ENDED, Reason("Recovered", "1 of 1"), plan, end=End.RECOVERED)

    shown = plugin.says(*command)

    assert COPY in one_line(shown)
    for words in ("elect it by itself", "Before you start a broker", "What would change it", "unfenced", "Approve:"):
        assert words not in one_line(shown)
    if "explain" in command:
        assert "Broker 2 was seen leading orders-17 after this plan was made (leader epoch 8, log end 27)." in one_line(
            shown
        )


def test_a_partition_that_leads_while_its_recovery_goes_on_is_explained_so(
    incidents: Incidents, plugin: Plugin
) -> None:
    plan = incidents.awaiting()
    incidents.carried_out("prod-1", plan, LED)
    incidents.tell("prod-1", Phase.ELECTING, Reason("Electing", "wave 2 of 2 is being elected"), plan)

    assert COPY in one_line(plugin("explain", "orders-17").stdout)


def test_a_recovery_whose_journal_tells_no_leader_has_recovered_all_the_same(
    incidents: Incidents, plugin: Plugin
) -> None:
    plan = incidents.awaiting()
    incidents.tell("prod-1", Phase.ENDED, Reason("Recovered", "1 of 1"), plan, end=End.RECOVERED)

    shown = one_line(plugin("explain", "prod-1", "orders-17").stdout)

    assert f"orders-17 has had a leader since this plan was made. {COPY}" in shown


@pytest.mark.parametrize("end", [End.ABORTED, End.REFUSED_BY_APPROVER, End.FAILED])
def test_where_nobody_knows_of_a_leader_both_are_said(incidents: Incidents, plugin: Plugin, end: End) -> None:
    plan = incidents.awaiting()
    incidents.tell("prod-1", Phase.ENDED, Reason(str(end), ""), plan, end=end)

    shown = one_line(plugin("explain", "prod-1", "orders-17").stdout)

    assert "broker 1 with its own, intact disk, while orders-17 has no leader: Kafka can elect it by itself" in shown
    assert "broker 1, once another broker leads orders-17: first copy the directory of orders-17 there." in shown


def test_a_journal_that_can_not_be_read_hides_no_warning(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()
    incidents.carried_out("prod-1", plan, LED)
    ended = incidents.kubernetes.memory.records()[f"prod-1-{digest(plan)[:16]}-wave-0001-ended"]
    ended["spec"]["sha256"] = "0" * 64

    assert "once another broker leads orders-17" in one_line(plugin("explain", "prod-1", "orders-17").stdout)


def test_a_partition_in_no_plan(incidents: Incidents, plugin: Plugin) -> None:
    incidents.awaiting()

    assert "no plan of prod-1 holds payments-0" in plugin("explain", "prod-1", "payments-0").stderr
    refused = plugin.refuses("explain", "payments-0")
    assert refused.startswith("Error: no open recovery has a plan with payments-0; kubectl kafka-recovery stat")


def test_a_partition_that_a_recovery_may_come_to(incidents: Incidents, plugin: Plugin) -> None:
    incidents.opened("prod-1", Known(Phase.PLANNING, Reason("Planning", "every replica is being asked")))

    assert "no plan holds orders-17 yet; prod-1 may come to it: Planning:" in plugin.refuses("explain", "orders-17")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["orders"], "'orders' is not a partition; write it as topic-index"),
        (["a", "b", "orders-1"], "explain takes [NAME] TOPIC-PARTITION, not 3 words"),
        (["../configmaps/x", "orders-1"], "'../configmaps/x' can't be the name of a PartitionRecovery"),
    ],
)
def test_words_that_explain_nothing(plugin: Plugin, words: list[str], problem: str) -> None:
    assert plugin.refuses("explain", *words).startswith(f"Error: {problem}")
