"""After the end: who decided, who was elected how, and what a broker that is still down does when it is started."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.outcome import End, Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, Policy, Rule
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.recoveries.status import ApprovedBy, Phase
from kafka_recovery.kube.resources.kinds import CLUSTERS
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import NAMESPACE, Incidents, SmallKubernetes
from unit.cli.kubectl.test_plans import one_line

LED = PartitionOutcome(
    TopicPartition("orders", 17), Outcome.RECOVERED, leader=BrokerId(2), leader_epoch=LeaderEpoch(8), log_end=Offset(27)
)
COPY = (
    "DO NOT START BROKER 1 YET, NOR LET ANYTHING START IT: "
    "it may hold records that the new leaders lack. Before broker 1 is started, copy its "
    "directory of orders-17: on "
    "joining, it deletes every record that the leader lacks."
)
DONE = Reason("Recovered", "1 of 1 partitions have a leader that answered itself")


def ended(incidents: Incidents, outcome: PartitionOutcome = LED, **known: ApprovedBy) -> Plan:
    plan = incidents.awaiting(policy=None if known else Policy((Rule("all", approval=Approval.AUTO),)))
    incidents.carried_out("prod-1", plan, outcome)
    incidents.tell("prod-1", Phase.ENDED, DONE, plan, end=End.RECOVERED, **known)
    return plan


def broker_1(kubernetes: SmallKubernetes, state: str) -> None:
    status = kubernetes.memory.objects[CLUSTERS.path(NAMESPACE, "prod")]["status"]
    status["brokerStates"] = [{"id": 1, "state": state, "since": "2026-11-21T11:58:00Z"}]
    status["lastProbe"] = "2026-11-21T12:09:00Z"


def told(plugin: Plugin) -> str:
    return one_line(plugin("status", "prod-1").stdout)


def test_who_approved_what_was_elected_and_that_the_dead_broker_is_still_down(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    incidents.cluster()
    broker_1(kubernetes, "Fenced")
    plan = ended(incidents, approval=ApprovedBy("yes", "uid-of-yes", "ann"))

    assert (
        "DATA LOSS POSSIBLE: the loss class is Unknown. "
        f"Broker 1: Fenced since 2026-11-21T11:58:00Z, seen at 2026-11-21T12:09:00Z. {COPY} "
        f"Decided: ann approved plan {digest(plan)[:12]} by RecoveryApproval yes. "
        "Opened 2026-11-21T12:00:00Z, finished 2026-11-21T12:00:00Z. Elected uncleanly: 1 partition. "
        "Partitions Leader Elected at log end acks=all when verified orders-17 2 27 enough in sync "
        "1. Copy its directories of orders-17 on broker 1, to a place outside log.dirs. "
        "2. Start broker 1 with its own disk, and wait until it is in the ISR. "
        "3. Read the copies with kafka-dump-log.sh, and send again what the new leaders lack. " in told(plugin)
    )


def test_what_might_be_lost_is_told_as_it_was_planned(incidents: Incidents, plugin: Plugin) -> None:
    ended(incidents)

    assert "When it was planned: This plan would elect broker 2 on 1 partition" in told(plugin)


def test_who_is_not_to_lead_a_tiered_topic_is_told_once_it_has_ended(incidents: Incidents, plugin: Plugin) -> None:
    incidents.kafka.tiered = True
    ended(incidents)

    assert "TIERED TOPIC: do not let broker 1 lead orders-17 before you know that its log start is" in told(plugin)


def test_where_nobody_was_asked_the_rules_decided(incidents: Incidents, plugin: Plugin) -> None:
    plan = ended(incidents)

    assert f"Decided: nobody was asked about plan {digest(plan)[:12]}; the policy's rules decided." in told(plugin)


def test_of_a_broker_that_is_back_it_is_not_said_that_it_should_be_copied_before_its_start(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    incidents.cluster()
    broker_1(kubernetes, "Online")
    ended(incidents)

    for shown in (told(plugin), one_line(plugin("plan", "prod-1").stdout)):
        assert "Broker 1: Online since 2026-11-21T11:58:00Z" in shown
        assert "On joining it deletes, or has deleted, every record of its copy that the new leaders lack." in shown
        for advice in ("DO NOT START", "Before broker 1 is started", "1. Copy"):
            assert advice not in shown


def test_of_a_broker_of_which_nobody_knows_the_worse_is_said(incidents: Incidents, plugin: Plugin) -> None:
    ended(incidents)

    assert f"Broker 1: nobody knows how it is now. {COPY}" in told(plugin)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (Outcome.RECOVERED_CLEANLY, "Elected uncleanly: none. 1 had a leader without an unclean election."),
        (Outcome.FAILED, "Elected uncleanly: none. 1 failed or are unknown: look who leads them."),
        (
            Outcome.RECOVERED_UNDER_MIN_ISR,
            "Elected uncleanly: 1 partition. 1 had fewer than min.insync.replicas in sync when it was verified: "
            "producers with acks=all fail there until enough followers are in sync again.",
        ),
    ],
)
def test_how_leaders_came_about_is_told_as_it_was_verified(
    incidents: Incidents, plugin: Plugin, outcome: Outcome, words: str
) -> None:
    ended(incidents, replace(LED, outcome=outcome))

    assert words in told(plugin)
    assert ("DATA LOSS POSSIBLE" in told(plugin)) is (outcome is not Outcome.RECOVERED_CLEANLY)


@pytest.mark.parametrize("outcome", [Outcome.RECOVERED, Outcome.RECOVERED_UNDER_MIN_ISR])
def test_a_member_that_leads_is_told_of_with_the_election_that_may_have_been_held_before(
    incidents: Incidents, plugin: Plugin, outcome: Outcome
) -> None:
    """Neither is it counted as elected uncleanly, nor is it said that nobody was."""
    ended(incidents, replace(LED, outcome=outcome, reason=Reason("MemberLeads", "broker 1 leads in epoch 9")))

    assert "1 led by a member of the ISR or ELR, after an election that was, or may be, unclean." in told(plugin)
    assert "Elected uncleanly" not in told(plugin)


def test_who_elected_nobody_says_so(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()
    incidents.tell("prod-1", Phase.ENDED, Reason("Aborted", "spec.abort is true"), plan, end=End.ABORTED)

    assert "This recovery elected nobody: no unclean election was done for it." in told(plugin)


def test_a_journal_that_can_not_be_read_is_not_taken_for_an_empty_one(incidents: Incidents, plugin: Plugin) -> None:
    ended(incidents)
    incidents.kubernetes.refuses["recoveryrecords"] = ApiError(403, "Forbidden", "ann may not list recoveryrecords")

    assert "Who was elected can't be told: " in told(plugin)
    assert "elected nobody" not in told(plugin)


def test_while_it_is_open_nothing_is_said_of_an_end(incidents: Incidents, plugin: Plugin) -> None:
    incidents.awaiting()

    assert "Decided" not in told(plugin)
