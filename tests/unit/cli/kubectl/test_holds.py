"""Before and after a word about a plan it is said why nothing will happen for now, and what to type about it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.policy import Approval, Policy, Rule
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.machinery.api import ApiError
from kafka_recovery.kube.recoveries.status import Phase
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import NAMESPACE, Incidents, SmallKubernetes

NOTE = "Note: nothing happens for now, approved or not: "
ALONE = "Note: an approval alone elects nobody: "
Stop = Callable[[Incidents, Plan], None]


def recovery(incidents: Incidents, plan: Plan) -> None:
    incidents.kubernetes.spec(RECOVERIES, "prod-1")["suspend"] = True


def cluster(incidents: Incidents, plan: Plan) -> None:
    incidents.kubernetes.spec(CLUSTERS, "prod")["suspend"] = True


def operator(incidents: Incidents, plan: Plan) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/kafka-recovery-operator"
    incidents.kubernetes.memory.objects[path] = {
        "metadata": {"name": "kafka-recovery-operator", "uid": "switch"},
        "data": {"suspend": "true"},
    }


def operator_elsewhere(incidents: Incidents, plan: Plan) -> None:
    incidents.tell("prod-1", Phase.HELD, Reason("Suspended", "ConfigMap ops/operator says suspend: true"), plan)


def no_cluster(incidents: Incidents, plan: Plan) -> None:
    del incidents.kubernetes.memory.objects[CLUSTERS.path(NAMESPACE, "prod")]


def observed(incidents: Incidents, plan: Plan) -> None:
    incidents.kubernetes.spec(CLUSTERS, "prod")["authority"] = "Observe"


def observing(incidents: Incidents, plan: Plan) -> None:
    incidents.tell("prod-1", Phase.AWAITING_APPROVAL, Reason("ObserveOnly", "authority is Observe"), plan)


STOPS: list[tuple[Stop, str]] = [
    (recovery, f"{NOTE}prod-1 is suspended; to let it go on: kubectl kafka-recovery unsuspend prod-1"),
    (cluster, f"{NOTE}cluster prod is suspended; to let it go on: kubectl kafka-recovery unsuspend --cluster prod"),
    (
        operator,
        f"{NOTE}the operator of namespace kafka is suspended; to let it go on: "
        "kubectl kafka-recovery unsuspend --operator",
    ),
    (operator_elsewhere, f"{NOTE}it is suspended: ConfigMap ops/operator says suspend: true"),
    (no_cluster, f"{NOTE}there is no WatchedCluster prod; create it"),
]
BOUNDS: list[tuple[Stop, str]] = [
    (observed, f"{ALONE}authority of cluster prod is Observe; raise its spec.authority"),
    (observing, f"{ALONE}authority of the operator is Observe; raise its --authority"),
]


@pytest.fixture
def plan(incidents: Incidents) -> Plan:
    incidents.cluster()
    return incidents.awaiting()


@pytest.mark.parametrize(("stop", "note"), STOPS + BOUNDS)
def test_who_approves_hears_before_and_after_why_nothing_will_happen(
    incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes, plan: Plan, stop: Stop, note: str
) -> None:
    stop(incidents, plan)

    done = plugin("approve", "prod-1", typed=digest(plan))

    assert done.exit_code == 0
    before, _, after = done.stderr.partition("approves nothing: ")
    assert [line for line in before.splitlines() if line.startswith("Note")] == [note]
    assert after == f"{note}\n"
    assert len(kubernetes.said()) == 1


@pytest.mark.parametrize(("stop", "note"), STOPS + BOUNDS)
def test_a_script_hears_it_beside_its_result(
    incidents: Incidents, plugin: Plugin, plan: Plan, stop: Stop, note: str
) -> None:
    stop(incidents, plan)

    done = plugin("approve", "prod-1", "--yes", "--plan", digest(plan), "-o", "json")

    assert (done.exit_code, done.stderr) == (0, f"{note}\n")


@pytest.mark.parametrize(("stop", "note"), STOPS)
def test_while_it_is_stopped_no_election_is_said_to_begin_at_once(
    incidents: Incidents, plugin: Plugin, stop: Stop, note: str
) -> None:
    incidents.cluster()
    stop(incidents, incidents.awaiting(policy=Policy((Rule("all", approval=Approval.AUTO),))))

    shown = " ".join(plugin("plan", "prod-1").stdout.split())

    why = note.removeprefix(NOTE).partition("; ")[0]
    assert f"WITHOUT anybody's yes, if authority is Automatic then, once this ends: {why}. 1 partition" in shown


@pytest.mark.parametrize(("stop", "note"), STOPS)
def test_a_refusal_is_heard_also_while_it_is_stopped(
    incidents: Incidents, plugin: Plugin, plan: Plan, stop: Stop, note: str
) -> None:
    stop(incidents, plan)

    done = plugin("refuse", "prod-1", "--reason", "no", "--yes")

    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"ann refuses plan {digest(plan)[:12]} of prod-1: it ends.\n")


@pytest.mark.parametrize("words", [("approve", "--yes"), ("refuse", "--reason", "no", "--yes")], ids=lambda w: w[0])
def test_where_nothing_stops_it_nothing_is_said(plugin: Plugin, plan: Plan, words: tuple[str, ...]) -> None:
    word, *options = words
    done = plugin(word, "prod-1", *options, *(["--plan", digest(plan)] if word == "approve" else []))

    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("path", ["/watchedclusters/", "/configmaps/kafka-recovery-operator"])
def test_what_a_person_may_not_read_keeps_nobody_from_approving(
    plugin: Plugin, kubernetes: SmallKubernetes, plan: Plan, path: str
) -> None:
    kubernetes.refuses[path] = ApiError(403, "Forbidden", 'User "ann" cannot get it')

    done = plugin("approve", "prod-1", "--yes", "--plan", digest(plan))

    assert (done.exit_code, done.stderr) == (0, "")
