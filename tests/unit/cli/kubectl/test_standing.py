"""status: what a person sees at three in the morning."""

from __future__ import annotations

import json

import pytest

from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.recoveries.status import ApprovedBy, Known, Phase
from kafka_recovery.kube.resources.kinds import APPROVALS, RECOVERIES
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import NAMESPACE, Incidents, SmallKubernetes, row
from unit.cli.kubectl.test_plans import one_line
from unit.cli.small_cluster import SmallCluster

PLANNING = Known(Phase.PLANNING, Reason("Planning", "every replica is being asked"), total=3)


def test_a_namespace_at_a_glance(incidents: Incidents, plugin: Plugin) -> None:
    incidents.cluster()
    incidents.awaiting("prod-1")
    incidents.opened("prod-2", PLANNING)

    shown = plugin.says("status")

    assert row(shown, "prod") == "prod Approve yes sick 1 OfflinePartitions"
    assert row(shown, "prod-1").startswith("prod-1 AwaitingApproval 0/1 you, to approve or refuse ")
    assert row(shown, "prod-2").startswith("prod-2 Planning 0/3 operator ")
    assert shown.endswith("\nNext: kubectl kafka-recovery plan prod-1\n")
    assert max(map(len, shown.splitlines())) <= 80


def test_nothing_at_all_is_said_to_be_nothing(plugin: Plugin) -> None:
    assert plugin.says("status") == "No WatchedCluster in namespace kafka.\n\nNo recoveries.\n"


@pytest.mark.parametrize(
    ("spec", "phase", "reason", "waits"),
    [
        ({}, Phase.AWAITING_APPROVAL, "ObserveOnly", "nobody: authority is Observe"),
        ({"suspend": True}, Phase.HELD, "Suspended", "you, to unsuspend it"),
        ({}, Phase.HELD, "Suspended", "you, to unsuspend the operator"),
        ({}, Phase.HELD, "DuplicateCluster", "you, to delete one of two WatchedClusters"),
        ({"abort": True}, Phase.RESTORING, "Aborted", "operator, to end it"),
        ({}, Phase.STUCK, "NoCandidate", "Kafka: a change there"),
        ({}, Phase.ELECTING, "Electing", "operator"),
    ],
)
def test_who_has_to_do_something_next(
    incidents: Incidents, plugin: Plugin, spec: dict[str, bool], phase: Phase, reason: str, waits: str
) -> None:
    plan = incidents.plan()
    incidents.opened("prod-1", PLANNING, **spec)
    incidents.tell("prod-1", phase, Reason(reason, "so it is"), plan)

    assert f"Waits for: {waits}\n" in plugin("status", "prod-1").stdout


def test_under_observe_nobody_is_waited_for_though_the_status_asks_yet(incidents: Incidents, plugin: Plugin) -> None:
    """The authority was taken back a moment ago; or in the middle of a run, which then goes no further."""
    incidents.cluster(authority="Observe")
    incidents.awaiting()

    assert "nobody: authority is Observe" in row(plugin("status").stdout, "prod-1")

    incidents.tell("prod-1", Phase.HELD, Reason("ObserveOnly", "authority is Observe"), incidents.plan())
    assert "Waits for: nobody: authority is Observe\n" in plugin("status", "prod-1").stdout


def test_a_suspended_cluster_holds_its_recoveries(incidents: Incidents, plugin: Plugin) -> None:
    incidents.cluster(suspend=True)
    incidents.opened("prod-1", Known(Phase.HELD, Reason("Suspended", "")))

    shown = plugin("status").stdout

    assert "suspended" in row(shown, "prod")
    assert "you, to unsuspend cluster prod" in shown


def test_a_recovery_whose_orders_are_altered_waits_for_them(incidents: Incidents, plugin: Plugin) -> None:
    incidents.opened("prod-1", PLANNING, abort=True)
    meta = incidents.kubernetes.memory.objects[RECOVERIES.path(NAMESPACE, "prod-1")]["metadata"]
    meta["finalizers"] = ["kafka-recovery.dev/assignment-order"]

    assert "Waits for: operator, to restore assignment orders\n" in plugin("status", "prod-1").stdout


def test_a_recovery_in_full(incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    plan = incidents.awaiting("prod-1")
    spec = {
        "recoveryRef": {"name": "prod-1", "uid": "uid-of-prod-1"},
        "planDigest": digest(plan),
        "decision": "Approve",
        "approver": "bob",
    }
    refused = {"conditions": [{"type": "Accepted", "status": "False", "reason": "LossClassExceeded"}]}
    kubernetes.put(APPROVALS, "a", spec, refused)
    other = spec | {"recoveryRef": {"name": "prod-1", "uid": "earlier"}, "approver": "mallory"}
    kubernetes.put(APPROVALS, "b", other)

    shown = plugin.says("status", "prod-1")

    assert one_line(shown).startswith(
        "prod-1: AwaitingApproval (cluster prod); the approval of bob is NOT used: LossClassExceeded: the operator "
        "says no more the plan waits for a RecoveryApproval Partitions: "
    )
    assert (
        "\nPartitions: 0 of 1 recovered, 1 awaiting approval; 1 without a leader that was\nseen to answer\n"
        "Opened: 2026-11-21 12:00:00 UTC\n" in shown
    )
    assert f"Plan: {digest(plan)}\n  elections: 1, worst loss class Unknown\n" in shown
    assert "\nElecting as planned may lose an unknown part of what broker 1 holds on 1\n" in shown
    assert "\nCAN BROKER 1 BE STARTED WITH ITS OWN, INTACT DISK?\n" in shown
    assert row(shown, "Reconciling").startswith("Reconciling True AwaitingApproval")
    assert row(shown, "bob") == f"bob Approve {digest(plan)[:12]} no: LossClassExceeded -"
    assert "mallory" not in shown
    assert "is lost for good, not only detached: do BEFORE YOU APPROVE, then approve this plan." in one_line(shown)
    assert max(map(len, shown.splitlines())) <= 80


def first_line(plugin: Plugin) -> str:
    return one_line(plugin("status", "prod-1").stdout).split(" Partitions:")[0]


def says_yes(kubernetes: SmallKubernetes, plan: str, accepted: str | None = None, message: str = "") -> None:
    """Ann approves a plan; the operator answers with a reason why not, or not at all."""
    ref = {"name": "prod-1", "uid": "uid-of-prod-1"}
    spec = {"recoveryRef": ref, "planDigest": plan, "decision": "Approve", "approver": "ann"}
    against = {"type": "Accepted", "status": "False", "reason": accepted, "message": message}
    kubernetes.put(APPROVALS, "yes", spec, {"conditions": [against] if accepted else []})


def test_an_approval_of_a_plan_that_was_replaced_is_told_in_the_first_line(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes, cluster: SmallCluster
) -> None:
    first = incidents.awaiting()
    second = incidents.replanned("prod-1", first, lambda: cluster.offline("payments-0", {3: 5}))

    says_yes(kubernetes, digest(first))

    told = first_line(plugin)
    assert f"the approval of ann is NOT used: it names plan {digest(first)[:12]}, Replaced at " in told
    assert f"followed by plan {digest(second)[:12]} (1 added (payments-0))" in told


@pytest.mark.parametrize(
    ("accepted", "message"),
    [("ObserveOnly", "authority is Observe"), ("AdmissionPolicyMissing", "nobody checked who wrote it")],
)
def test_an_approval_that_is_not_admitted_or_not_honoured_is_told_in_the_first_line(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes, accepted: str, message: str
) -> None:
    plan = incidents.awaiting()

    says_yes(kubernetes, digest(plan), accepted, message)

    assert f"(cluster prod); the approval of ann is NOT used: {accepted}: {message}" in first_line(plugin)


def test_an_approval_that_came_too_late_is_told_and_one_that_may_count_yet_is_not(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    plan = incidents.awaiting()
    says_yes(kubernetes, digest(plan))

    assert "NOT used" not in first_line(plugin)

    incidents.tell("prod-1", Phase.ENDED, Reason("Aborted", "spec.abort is true"), plan, end=End.ABORTED)
    assert "the approval of ann is NOT used: the recovery has ended: spec.abort is true" in first_line(plugin)


def test_of_a_plan_that_was_carried_out_no_approval_is_called_unused(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    plan = incidents.awaiting()
    says_yes(kubernetes, digest(plan))
    incidents.carried_out("prod-1", plan)
    by = ApprovedBy("yes", "uid-of-yes", "ann")
    incidents.tell("prod-1", Phase.ENDED, Reason("Recovered", "1"), plan, end=End.RECOVERED, approval=by)

    assert "NOT used" not in first_line(plugin)


def test_finished_ones_come_last_and_not_all(incidents: Incidents, plugin: Plugin) -> None:
    done = Known(Phase.ENDED, Reason("Recovered", "all is well"), end=End.RECOVERED)
    for number in range(12):
        incidents.opened(f"old-{number:02}", done)
    incidents.opened("a-new", PLANNING)

    shown = plugin("status").stdout

    names = [line.split()[0] for line in shown.splitlines() if line.startswith(("old-", "a-new"))]
    assert names[0] == "a-new"
    assert len(names) == 11
    assert "… and 2 more that finished; -o json shows all of them" in shown


def test_whoever_starts_a_broker_after_an_election_is_sent_to_the_plan_first(
    incidents: Incidents, plugin: Plugin
) -> None:
    plan = incidents.awaiting()
    incidents.tell("prod-1", Phase.ENDED, Reason("Recovered", "all is well"), plan, end=End.RECOVERED)

    shown = plugin("status", "prod-1").stdout

    assert shown.endswith("\nBefore you start a broker that was away: kubectl kafka-recovery plan prod-1\n")


def test_a_program_gets_the_objects(incidents: Incidents, plugin: Plugin) -> None:
    incidents.cluster()
    incidents.awaiting("prod-1")

    found = json.loads(plugin("status", "-o", "json").stdout)

    assert found["clusters"][0]["metadata"]["name"] == "prod"
    assert found["recoveries"][0]["status"]["plan"]["needsApproval"] is True
    assert json.loads(plugin("status", "prod-1", "-o", "json").stdout)["approvals"] == []


def test_one_recovery_that_is_not_understood_does_not_hide_the_others(incidents: Incidents, plugin: Plugin) -> None:
    incidents.opened("prod-1", PLANNING)
    incidents.opened("prod-2", PLANNING, suspend="soon")

    shown = plugin("status")

    assert shown.exit_code == 0
    assert "Error: PartitionRecovery kafka/prod-2: spec.suspend: " in shown.stderr
    assert row(shown.stdout, "prod-1")


def test_what_others_wrote_draws_nothing_on_the_terminal(incidents: Incidents, plugin: Plugin) -> None:
    incidents.opened("prod-1", Known(Phase.HELD, Reason("Suspended", "\x1b[2Jgone")))

    shown = plugin("status", "prod-1").stdout

    assert "\x1b" not in shown
    assert "\\x1b[2Jgone" in shown


def test_next_commands_go_where_this_one_went(incidents: Incidents, plugin: Plugin) -> None:
    incidents.awaiting("prod-1")

    shown = plugin("status", "-n", "kafka", "--context", "the prod one").stdout

    assert "Next: kubectl kafka-recovery plan prod-1 --context 'the prod one' --namespace kafka\n" in shown
