"""suspend, unsuspend and abort: a person's wish lies where the operator looks, and nothing else is touched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest

from kafka_recovery.domain.outcome import End
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest
from kafka_recovery.kube.recoveries.status import Known, Phase
from kafka_recovery.kube.resources.kinds import CLUSTERS, RECOVERIES
from kafka_recovery.kube.resources.operator_switch import switch_path
from unit.cli.kubectl.conftest import Plugin
from unit.cli.kubectl.person import CLUSTER_ID, NAMESPACE, Incidents, SmallKubernetes

PLANNING = Known(Phase.PLANNING, Reason("Planning", "every replica is being asked"))
SWITCH = switch_path((NAMESPACE, "kafka-recovery-operator"))
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kafka/leases/kafka-recovery-operator"


@pytest.fixture
def at_each_look(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """What happens while abort waits, instead of a second."""

    def set_up(happens: Callable[[], object]) -> None:
        monkeypatch.setattr("time.sleep", lambda seconds: happens())

    return set_up


def test_a_recovery_is_suspended_and_goes_on(incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    incidents.opened("prod-1", PLANNING)

    assert plugin.says("suspend", "prod-1").startswith("PartitionRecovery prod-1 is suspended. No further wave begins")
    assert kubernetes.spec(RECOVERIES, "prod-1")["suspend"] is True
    assert plugin("suspend", "prod-1").stderr == "PartitionRecovery prod-1 is suspended already\n"
    assert plugin("unsuspend", "prod-1").exit_code == 0
    assert kubernetes.spec(RECOVERIES, "prod-1")["suspend"] is False


def test_a_cluster_is_suspended(incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    incidents.cluster("prod")

    shown = json.loads(plugin("suspend", "--cluster", "prod", "-o", "json").stdout)

    assert shown["spec"]["suspend"] is True
    assert kubernetes.spec(CLUSTERS, "prod")["suspend"] is True


def test_the_whole_operator_is_suspended_also_where_its_record_is_missing(
    plugin: Plugin, kubernetes: SmallKubernetes
) -> None:
    kubernetes.memory._keep(LEASE, {"metadata": {"name": "kafka-recovery-operator", "uid": "lease"}})

    assert plugin.says("suspend", "--operator").startswith("The operator of namespace kafka is suspended.")
    assert kubernetes.memory.objects[SWITCH]["data"] == {"suspend": "true"}
    kubernetes.memory.objects[SWITCH]["data"]["other"] = "kept"
    assert plugin("unsuspend", "--operator").exit_code == 0
    assert kubernetes.memory.objects[SWITCH]["data"] == {"suspend": "false", "other": "kept"}


def test_where_no_operator_is_it_is_not_said_that_one_is_suspended(plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    """Who forgot --namespace must not believe that all is stopped; an operator without a Lease obeys all the same."""
    done = plugin("suspend", "--operator")

    assert done.exit_code == 0
    assert "BUT NO OPERATOR HAS ITS LEASE THERE" in done.stdout + done.stderr
    assert "is suspended" not in done.stdout
    assert kubernetes.memory.objects[SWITCH]["data"] == {"suspend": "true"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "nothing is named; give the NAME of a recovery, --cluster NAME, or --operator for the whole operator"),
        (["prod-1", "--operator"], "NAME and --operator exclude each other; give one of them"),
        (["--cluster", "a", "--operator"], "--cluster and --operator exclude each other; give one of them"),
        (["--cluster", "A"], "'A' can't be the name of a WatchedCluster: small letters, digits, dashes and dots"),
    ],
)
def test_what_to_suspend_is_said_once(plugin: Plugin, words: list[str], problem: str) -> None:
    for command in ("suspend", "unsuspend"):
        assert plugin.refuses(command, *words) == f"Error: {problem}\n"


def test_abort_asks_first(incidents: Incidents, plugin: Plugin, kubernetes: SmallKubernetes) -> None:
    incidents.opened("prod-1", PLANNING)

    no = plugin.refuses("abort", "prod-1", typed="n\n", code=4)

    assert "Abort prod-1 (Planning)? It can't be taken back; new leaders stay. [y/N] " in no
    assert "abort" not in kubernetes.spec(RECOVERIES, "prod-1")
    assert plugin("abort", "prod-1", typed="yes\n").exit_code == 0
    assert kubernetes.spec(RECOVERIES, "prod-1")["abort"] is True


def test_a_script_that_aborts_says_that_it_means_it(incidents: Incidents, plugin: Plugin) -> None:
    incidents.opened("prod-1", PLANNING)

    refused = plugin.refuses("abort", "prod-1", code=4)

    assert refused == "Error: there is no terminal to ask at; to do it without being asked, add --yes\n"
    assert plugin("abort", "prod-1", "--yes").exit_code == 0
    assert incidents.kubernetes.spec(RECOVERIES, "prod-1")["abort"] is True


def test_what_has_finished_is_not_aborted(incidents: Incidents, plugin: Plugin) -> None:
    incidents.opened("prod-1", Known(Phase.ENDED, Reason("Recovered", ""), end=End.RECOVERED))

    assert "prod-1 has finished: Recovered; there is nothing to abort" in plugin.refuses("abort", "prod-1", "--yes")


def test_abort_waits_on_demand_for_the_end(
    incidents: Incidents,
    plugin: Plugin,
    kubernetes: SmallKubernetes,
    at_each_look: Callable[[Callable[[], object]], None],
) -> None:
    incidents.opened("prod-1", PLANNING)
    restoring = Reason("Aborted", "orders are being restored")
    to_come: Iterator[tuple[Phase, End | None]] = iter(
        [(Phase.RESTORING, None), (Phase.RESTORING, None), (Phase.ENDED, End.ABORTED)]
    )

    def goes_on() -> None:
        phase, end = next(to_come)
        incidents.tell("prod-1", phase, restoring, end=end)

    at_each_look(goes_on)

    done = plugin("abort", "prod-1", "--wait", "--yes")

    assert done.exit_code == 0
    assert kubernetes.spec(RECOVERIES, "prod-1")["abort"] is True
    assert done.stderr.count("prod-1: Aborted: orders are being restored\n") == 1
    assert done.stdout.startswith("prod-1 has finished: Aborted. Assignment orders are restored; new leaders stay.")


def test_undo_of_a_finished_recovery_changes_nothing(incidents: Incidents, plugin: Plugin) -> None:
    incidents.opened("prod-1", Known(Phase.ENDED, Reason("Recovered", ""), end=End.RECOVERED))

    assert "prod-1 has finished: Recovered. Assignment orders are restored" in plugin.says("abort", "prod-1", "--wait")
    assert "abort" not in incidents.kubernetes.spec(RECOVERIES, "prod-1")


def test_undo_that_lasts_too_long_says_that_the_operator_goes_on(
    incidents: Incidents, plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    incidents.opened("prod-1", PLANNING)
    seconds = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr("time.sleep", lambda seconds: None)

    left = plugin.refuses("abort", "prod-1", "--wait", "--yes", "--timeout", "5", code=1)

    assert "prod-1 has not finished yet; the operator goes on. To look: kubectl kafka-recovery status" in left


def begun(incidents: Incidents, name: str = "prod-1") -> Plan:
    """A run in the middle of which the recovery was removed by force."""
    plan = incidents.plan()
    uid = incidents.opened(name, PLANNING)
    journal = incidents.journal(name, uid)

    async def run() -> None:
        made = await journal.record(plan)
        await journal.approved(made, "ann")
        await journal.wave_started(made, 1, plan.waves[0])

    asyncio.run(run())
    del incidents.kubernetes.memory.objects[RECOVERIES.path(NAMESPACE, name)]
    return plan


def test_undo_of_a_recovery_that_is_gone_shows_what_the_operator_will_restore(
    incidents: Incidents, plugin: Plugin
) -> None:
    incidents.cluster()
    plan = begun(incidents)
    begun(incidents, "prod-2")

    shown = plugin("abort", "prod-1", "--wait")

    assert shown.exit_code == 1
    text = " ".join(shown.stdout.split())
    assert text.startswith("PartitionRecovery prod-1 is gone, but its journal tells of an unfinished run:")
    assert f"plan {digest(plan)[:12]} of cluster {CLUSTER_ID}, partitions: 1; the operator restores it" in text
    assert text.count("plan ") == 1
    (orphan,) = json.loads(plugin("abort", "prod-1", "--wait", "-o", "json").stdout)["orphaned"]
    assert (orphan["plan"], orphan["watched"]) == (digest(plan), True)


def test_an_orphan_that_no_operator_can_know_wants_its_cluster_back(incidents: Incidents, plugin: Plugin) -> None:
    begun(incidents)

    shown = plugin("abort", "prod-1", "--wait")

    assert shown.exit_code == 1
    assert "no WatchedCluster has this clusterId; apply one" in " ".join(shown.stdout.split())


def test_undo_of_what_never_was_is_a_wrong_name(plugin: Plugin) -> None:
    refused = plugin.refuses("abort", "prod-9", "--wait")

    assert refused.startswith("Error: there is no PartitionRecovery prod-9 in namespace kafka; ")


def test_a_recovery_that_goes_away_while_undo_waits_is_done(
    incidents: Incidents,
    plugin: Plugin,
    kubernetes: SmallKubernetes,
    at_each_look: Callable[[Callable[[], object]], None],
) -> None:
    incidents.opened("prod-1", PLANNING)
    at_each_look(lambda: kubernetes.memory.objects.pop(RECOVERIES.path(NAMESPACE, "prod-1")))

    assert "prod-1 is gone, and left no unfinished run" in plugin.says("abort", "prod-1", "--wait", "--yes")
