"""status: of all namespaces, of some recoveries, and watched until the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.machinery.api import ApiError, Unanswered
from kafka_recovery.kube.recoveries.status import Known, Phase
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import CLUSTER_ID, NAMESPACE, Incidents, SmallKubernetes
from unit.cli.kubectl.test_standing import PLANNING

ELECTING = Reason("Electing", "wave 1 of 1 is elected")


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Iterator[object]], None]:
    """Between two looks the next thing happens; at the end of it the person presses Ctrl-C."""

    def happens(events: Iterator[object]) -> None:
        def pause(seconds: float) -> None:
            if next(events, KeyboardInterrupt) is KeyboardInterrupt:
                raise KeyboardInterrupt

        monkeypatch.setattr(time, "sleep", pause)

    return happens


def elsewhere(kubernetes: SmallKubernetes, **spec: object) -> None:
    """Another namespace has a cluster of the same name, and a recovery."""
    kubernetes.put(CLUSTERS, "prod", {"clusterId": CLUSTER_ID, "authority": "Approve"} | spec, {}, namespace="other")
    wanted = {"clusterRef": {"name": "prod"}, "clusterId": CLUSTER_ID, "scope": {"allOffline": True}}
    kubernetes.put(RECOVERIES, "prod-9", wanted, {"observedGeneration": -1}, namespace="other")


def test_who_does_not_know_the_namespace_asks_for_all(
    incidents: Incidents, kubernetes: SmallKubernetes, plugin: Plugin
) -> None:
    incidents.cluster()
    incidents.awaiting("prod-1")
    elsewhere(kubernetes, suspend=True)

    shown = plugin("status", "-A", "-n", "nowhere")

    assert shown.exit_code == 0, shown.output
    assert "other prod Approve ? ? ? suspended" in " ".join(shown.stdout.split())
    assert f"{NAMESPACE}      prod-1" in shown.stdout
    assert "you, to unsuspend cluster prod" in shown.stdout, "the cluster of its own namespace counts"
    assert shown.stdout.endswith("\nNext: kubectl kafka-recovery plan prod-1 --namespace kafka\n")


def test_labels_choose_recoveries_and_their_clusters(incidents: Incidents, plugin: Plugin) -> None:
    incidents.cluster("prod")
    incidents.cluster("test")
    incidents.opened("prod-1", PLANNING)
    incidents.kubernetes.memory.objects[RECOVERIES.path(NAMESPACE, "prod-1")]["metadata"]["labels"] = {"team": "orders"}
    incidents.opened("prod-2", PLANNING)

    shown = plugin("status", "-l", "team=orders").stdout

    assert "prod-1" in shown
    assert "prod-2" not in shown
    assert not [line for line in shown.splitlines() if line.startswith("test")]


def test_one_cluster_is_shown_with_its_recoveries_alone(incidents: Incidents, plugin: Plugin) -> None:
    incidents.cluster("prod")
    incidents.cluster("test")
    incidents.opened("prod-1", PLANNING)
    incidents.opened("test-1", PLANNING, clusterRef={"name": "test"})

    shown = plugin("status", "--cluster", "test").stdout

    assert "test-1" in shown
    assert "prod" not in shown
    assert "No WatchedCluster tset in namespace kafka." in plugin("status", "--cluster", "tset").stdout
    assert plugin("status", "prod-1", "--cluster", "prod").exit_code == 2


def test_wide_shows_of_each_recovery_what_it_may_lose_and_its_plan(incidents: Incidents, plugin: Plugin) -> None:
    plan = incidents.awaiting()

    wide = " ".join(plugin("status", "-o", "wide").stdout.split())

    assert "Offline Asked Refused Failed Loss" in wide
    assert f"Plan: {digest(plan)[:12]}" in wide
    assert "Message: the plan waits for a RecoveryApproval" in wide
    assert digest(plan)[:12] not in plugin("status").stdout
    assert plugin("status", "prod-1", "-o", "wide").stdout == plugin("status", "prod-1").stdout
    assert plugin("approve", "prod-1", "-o", "wide").exit_code == 2, "it is no list"


def test_a_name_is_looked_for_in_one_namespace(plugin: Plugin) -> None:
    assert "a NAME is one recovery" in plugin.refuses("status", "prod-1", "-A")


def test_a_recovery_is_watched_to_its_end(
    incidents: Incidents, plugin: Plugin, meanwhile: Callable[[Iterator[object]], None]
) -> None:
    plan = incidents.awaiting()

    def events() -> Iterator[object]:
        yield "nothing"
        incidents.tell("prod-1", Phase.ELECTING, ELECTING, plan)
        yield "the first wave"
        incidents.tell("prod-1", Phase.ENDED, Reason(End.RECOVERED, "all is well"), plan, end=End.RECOVERED)
        yield "the end"

    meanwhile(events())
    done = plugin("status", "prod-1", "--watch")

    assert done.exit_code == 0, done.output
    first_lines = [line for line in done.stdout.splitlines() if line.startswith("prod-1: ")]
    assert [line.split()[1] for line in first_lines] == ["AwaitingApproval", "Electing", "Recovered"]


def test_an_api_server_that_is_away_is_waited_for_and_a_refusal_is_not(
    incidents: Incidents,
    kubernetes: SmallKubernetes,
    plugin: Plugin,
    meanwhile: Callable[[Iterator[object]], None],
) -> None:
    incidents.opened("prod-1", Known(Phase.PLANNING, Reason("Planning", "it looks"), total=1))

    def events() -> Iterator[object]:
        kubernetes.refuses["partitionrecoveries"] = Unanswered(0, "Unanswered", "https://api: refused", "/")
        yield "away"
        kubernetes.refuses["partitionrecoveries"] = ApiError(403, "Forbidden", "ann may not", "/")
        yield "taken away"

    meanwhile(events())
    ended = plugin("status", "-w")

    assert ended.exit_code == 6
    assert "the API server does not answer: https://api: refused" in ended.stderr
    assert "Error: you may not do this: ann may not" in ended.stderr
    assert ended.stdout.count("prod-1") == 1


def test_ctrl_c_ends_watching(
    incidents: Incidents, plugin: Plugin, meanwhile: Callable[[Iterator[object]], None]
) -> None:
    incidents.opened("prod-1", PLANNING)
    meanwhile(iter(["nothing"]))

    assert plugin("status", "-w").exit_code == 130
