"""approve and refuse: who says what about exactly which plan."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.policy import Approval, Policy, Rule
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.recoveries.status import Known, Phase
from kafka_recovery.kube.resources.kinds import APPROVALS, RECORDS, RECOVERIES
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import NAMESPACE, Incidents, SmallKubernetes
from unit.cli.small_cluster import SmallCluster


def test_its_digest_typed_at_the_terminal_approves_exactly_what_was_shown(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()

    done = plugin("approve", "prod-1", "--reason", "INC-7", typed=f"{digest(plan)[:8]}\n")

    assert done.exit_code == 0
    assert f"Digest: {digest(plan)}\n" in done.stderr
    told = (
        "\nElecting as planned may lose an unknown part of what broker 1 holds on 1 partition (could not be "
        "read: BrokerTimeout).\nIt elects 1 leader, worst loss class Unknown.\n"
        "To approve, type the first 8 characters of the digest; anything else approves nothing: "
    )
    assert told in done.stderr
    assert done.stdout.startswith(f"ann approves plan {digest(plan)[:12]} of prod-1 (worst loss class Unknown).\n")
    assert incidents.kubernetes.said() == [
        {
            "recoveryRef": {"name": "prod-1", "uid": "uid-of-prod-1"},
            "planDigest": digest(plan),
            "decision": "Approve",
            "approver": "ann",
            "maxLossClass": "Unknown",
            "reason": "INC-7",
        }
    ]


def test_its_digest_may_be_typed_in_capitals_and_between_blanks(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()

    assert plugin("approve", "prod-1", typed=f" {digest(plan).upper()} \n").exit_code == 0


@pytest.mark.parametrize("typed", ["n", "y", "yes", "", "{digest:.7}", "{digest:.8}g"])
def test_anything_but_its_digest_approves_nothing(incidents: Incidents, plugin: Plugin, typed: str) -> None:
    plan = incidents.awaiting()

    refused = plugin.refuses("approve", "prod-1", typed=typed.format(digest=digest(plan)) + "\n", code=4)

    assert refused.endswith("Error: not approved; nothing was written\n")
    assert incidents.kubernetes.said() == []


def test_without_a_terminal_the_digest_that_was_read_is_wanted(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()

    refused = plugin.refuses("approve", "prod-1", code=4)

    assert refused == (
        "Error: there is no terminal to ask at. Read the plan: kubectl kafka-recovery plan prod-1; then "
        f"kubectl kafka-recovery approve prod-1 --plan {digest(plan)[:12]} --yes\n"
    )
    assert incidents.kubernetes.said() == []

    done = plugin.says("approve", "prod-1", "--yes", "--plan", digest(plan), "-o", "json")

    assert json.loads(done)["spec"]["planDigest"] == digest(plan)


def test_a_digest_of_another_plan_approves_nothing(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()

    refused = plugin.refuses("approve", "prod-1", "--yes", "--plan", "0" * 64, code=4)

    assert refused == (
        f"Error: plan 000000000000 of prod-1 does not hold any more: the plan is {digest(plan)[:12]} now, so nothing "
        "was written. Read it again: kubectl kafka-recovery plan prod-1\n"
    )
    assert incidents.kubernetes.said() == []


class ReplacedMeanwhile(SmallKubernetes):
    """The operator writes another status once the journal was read."""

    def __init__(self) -> None:
        super().__init__()
        self.then: Callable[[], object] = lambda: None

    def get(self, path: str) -> dict[str, object]:
        found = super().get(path)
        if f"/{RECORDS.plural}/" in path:
            self.then()
        return found


@pytest.fixture
def kubernetes() -> ReplacedMeanwhile:
    return ReplacedMeanwhile()


def test_a_plan_that_is_replaced_while_it_is_read_is_not_approved(
    incidents: Incidents, plugin: Plugin, kubernetes: ReplacedMeanwhile, cluster: SmallCluster
) -> None:
    shown = incidents.awaiting()
    cluster.offline("payments-0", {3: 5})
    now = incidents.plan()
    kubernetes.then = lambda: incidents.tell("prod-1", Phase.AWAITING_APPROVAL, Reason("AwaitingApproval", ""), now)

    refused = plugin.refuses("approve", "prod-1", typed=digest(shown), code=4)

    assert f"plan {digest(shown)[:12]} of prod-1 does not hold any more: the plan is {digest(now)[:12]}" in refused
    assert kubernetes.said() == []


@pytest.mark.parametrize(
    ("phase", "end", "problem"),
    [
        (Phase.PLANNING, None, "prod-1 does not hold any more: there is no plan at the moment"),
        (Phase.ENDED, End.ABORTED, "prod-1 has finished meanwhile: Aborted; nothing was written"),
    ],
)
def test_a_recovery_that_went_on_while_its_plan_was_read(
    incidents: Incidents,
    plugin: Plugin,
    kubernetes: ReplacedMeanwhile,
    phase: Phase,
    end: End | None,
    problem: str,
) -> None:
    plan = incidents.awaiting()
    kubernetes.then = lambda: incidents.tell("prod-1", phase, Reason(str(end or phase), ""), end=end)

    assert problem in plugin.refuses("approve", "prod-1", typed=digest(plan), code=4)
    assert kubernetes.said() == []


def test_a_recovery_made_anew_under_the_same_name_inherits_no_word(
    incidents: Incidents, plugin: Plugin, kubernetes: ReplacedMeanwhile
) -> None:
    plan = incidents.awaiting()
    meta = kubernetes.memory.objects[RECOVERIES.path(NAMESPACE, "prod-1")]["metadata"]
    kubernetes.then = lambda: meta.update(uid="a-later-one")

    refused = plugin.refuses("approve", "prod-1", typed=digest(plan), code=4)

    assert "prod-1 was replaced by another recovery of that name" in refused


def test_saying_it_twice_is_saying_it_once(incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    plan = incidents.awaiting()
    plugin("approve", "prod-1", "--yes", "--plan", digest(plan))

    again = plugin("approve", "prod-1", "--yes", "--plan", digest(plan))

    assert again.exit_code == 0
    assert re.match(r"RecoveryApproval prod-1-approve-[0-9a-f]{10} said so before; it stands\n", again.stderr)
    assert len(kubernetes.said()) == 1
    kubernetes.who = "bob"
    assert plugin("approve", "prod-1", "--yes", "--plan", digest(plan)).exit_code == 0
    assert [said["approver"] for said in kubernetes.said()] == ["ann", "bob"]


WHY = Policy(require_reason=True)


def test_where_the_policy_wants_a_reason_it_is_asked_for(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting(policy=WHY)

    done = plugin("approve", "prod-1", typed=f"{digest(plan)}\nINC-7: broker 1 burnt\n")

    assert done.exit_code == 0
    assert "approves nothing: Why? The policy wants each approval to say why (requireReason): " in done.stderr
    assert [said["reason"] for said in incidents.kubernetes.said()] == ["INC-7: broker 1 burnt"]


@pytest.mark.parametrize("typed", ["", " \n"])
def test_without_the_reason_that_the_policy_wants_nothing_is_written(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes, typed: str
) -> None:
    plan = incidents.awaiting(policy=WHY)

    refused = plugin.refuses("approve", "prod-1", typed=f"{digest(plan)}\n{typed}", code=4)

    assert "no reason was given, and the policy wants each approval to say why" in refused
    assert kubernetes.said() == []


def test_nobody_who_is_not_asked_approves_without_the_reason_that_the_policy_wants(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    plan = incidents.awaiting(policy=WHY)
    read = ("approve", "prod-1", "--yes", "--plan", digest(plan))

    assert "--reason: the policy wants each approval to say why (requireReason)" in plugin.refuses(*read)
    assert " --yes --reason TEXT" in plugin("approve", "prod-1").stderr
    assert kubernetes.said() == []
    assert plugin(*read, "--reason", "INC-7").exit_code == 0


def test_an_approval_that_says_why_stands_beside_one_that_does_not(incidents: Incidents, plugin: Plugin) -> None:
    """Written by another program, that one counts for nothing."""
    plan = incidents.awaiting()
    read = ("approve", "prod-1", "--yes", "--plan", digest(plan))
    plugin(*read)

    assert plugin(*read, "--reason", "INC-7").exit_code == 0
    assert [said.get("reason") for said in incidents.kubernetes.said()] == [None, "INC-7"]


def test_a_word_of_that_name_that_says_something_else_is_not_taken_for_ours(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    plan = incidents.awaiting()
    plugin("approve", "prod-1", "--yes", "--plan", digest(plan))
    (path,) = [path for path in kubernetes.memory.objects if path.startswith(APPROVALS.path(NAMESPACE))]
    kubernetes.memory.objects[path]["spec"]["planDigest"] = "0" * 64

    refused = plugin.refuses("approve", "prod-1", "--yes", "--plan", digest(plan))

    assert "is there already and says something else" in refused


@pytest.mark.parametrize(
    ("phase", "end", "problem"),
    [
        (Phase.ENDED, End.RECOVERED, "prod-1 has finished: Recovered; there is nothing to approve"),
        (Phase.PLANNING, None, "prod-1 has no plan yet: "),
    ],
)
def test_where_there_is_nothing_to_approve(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes, phase: Phase, end: End | None, problem: str
) -> None:
    incidents.opened("prod-1", Known(phase, Reason(str(end or phase), "so it is"), end=end))

    assert problem in plugin.refuses("approve", "prod-1", typed="y\n")
    assert kubernetes.said() == []


def test_a_plan_that_its_policy_approves_needs_nobody(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting(policy=Policy((Rule("all", approval=Approval.AUTO),)))
    incidents.tell("prod-1", Phase.ELECTING, Reason("Electing", "wave 1 of 1 is being elected"), plan)

    refused = plugin.refuses("approve", "prod-1", typed="y\n")

    assert "nobody has to approve the plan of prod-1 now: Electing: wave 1 of 1" in refused
    assert incidents.kubernetes.said() == []


def test_a_refusal_names_its_reason(incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    plan = incidents.awaiting()

    incidents.cluster()

    done = plugin("refuse", "prod-1", "--reason", "broker 1 will be back at noon", typed="y\n")

    assert done.exit_code == 0
    assert done.stderr == f"Refuse plan {digest(plan)[:12]}? That ends prod-1, and can't be taken back. [y/N] "
    assert done.stdout.startswith(f"ann refuses plan {digest(plan)[:12]} of prod-1: it ends.\n")
    (said,) = kubernetes.said()
    assert (said["decision"], said["reason"]) == ("Refuse", "broker 1 will be back at noon")
    assert "maxLossClass" not in said


def test_a_refusal_without_a_reason_is_none(incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    incidents.awaiting()

    assert plugin("refuse", "prod-1").exit_code == 2
    assert "--reason: must have 1 to 1024 characters" in plugin("refuse", "prod-1", "--reason", "").stderr
    assert kubernetes.said() == []


@pytest.mark.parametrize("typed", ["n\n", "", None], ids=["no", "nothing", "nobody there"])
def test_a_refusal_ends_a_recovery_only_if_that_is_meant(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes, typed: str | None
) -> None:
    incidents.awaiting()

    assert plugin("refuse", "prod-1", "--reason", "no", typed=typed).exit_code == 4
    assert kubernetes.said() == []

    assert plugin("refuse", "prod-1", "--reason", "no", "--yes", typed=typed).exit_code == 0
    assert [said["decision"] for said in kubernetes.said()] == ["Refuse"]


def test_what_has_no_plan_can_t_be_refused_but_aborted(incidents: Incidents, plugin: Plugin) -> None:
    incidents.opened("prod-1", Known(Phase.PLANNING, Reason("Planning", "so it is")))

    assert "to end it: kubectl kafka-recovery abort prod-1" in plugin.refuses("refuse", "prod-1", "--reason", "no")


def test_a_plan_that_one_may_not_read_is_not_approved(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    plan = incidents.awaiting()
    kubernetes.refuses["/recoveryrecords"] = ApiError(403, "Forbidden", 'User "ann" cannot get "recoveryrecords"')

    refused = plugin("approve", "prod-1", "--yes", "--plan", digest(plan))

    assert refused.exit_code == 6
    assert kubernetes.said() == []
