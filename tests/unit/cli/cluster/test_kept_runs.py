"""runs: what the journal on this machine knows of each run, and the commands that go on with it or undo it."""

from __future__ import annotations

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kafka_recovery.cli import main
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.recovery.local_storage import local_journal
from unit.cli.cluster.test_changing import begun
from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster
from unit.documents import document


def runs(*words: object) -> Result:
    """`kafka-recovery runs WORDS…`: it asks no cluster."""
    return CliRunner().invoke(main.app, ["runs", *map(str, words)])


def listed(*words: object) -> list[dict[str, Any]]:
    """As a program reads it."""
    found: list[dict[str, Any]] = document("runs", runs("--output", "json", *words).stdout)["runs"]
    return found


@pytest.fixture
def orders(cluster: SmallCluster) -> TopicPartition:
    return cluster.offline("orders-17", {2: 27, 3: 15})


@pytest.fixture
def interrupted(cluster: SmallCluster, recovery: Run, orders: TopicPartition, journal: Path, tmp_path: Path) -> str:
    """A run that ann approved and that died before its first wave; the beginning of its digest."""
    file = tmp_path / "plan.json"
    assert recovery("plan", "--all-offline-partitions", "--out", file).exit_code == 0
    begun(cluster, file, journal, "ann")
    return str(json.loads(file.read_text())["digest"])[:16]


def test_a_run_that_ended_is_finished_and_nothing_is_to_be_done_with_it(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, automatic: Path
) -> None:
    assert recovery("recover", "--all-offline-partitions", "--policy", automatic).exit_code == 0

    (run,) = listed()

    assert (run["state"], run["elections"], run["resume"], run["undo"]) == ("Finished", 1, None, None)
    assert (run["cluster"], run["madeAt"]) == (cluster.id, "2026-11-21T12:00:00Z")
    assert "To go on" not in runs().stdout


def test_a_plan_that_nobody_approved_is_no_run(recovery: Run, orders: TopicPartition) -> None:
    assert recovery("recover", "--all-offline-partitions").exit_code == 4

    assert runs().stdout == "The journal holds no run that began; `kafka-recovery plans` lists what was only planned.\n"


def test_of_an_interrupted_run_the_commands_stand_there_and_work(
    cluster: SmallCluster, orders: TopicPartition, interrupted: str, tmp_path: Path
) -> None:
    shown = runs()
    (go_on,) = [line for line in shown.stdout.splitlines() if line.startswith("To go on: ")]
    (run,) = listed()

    assert f"\n{interrupted}  Unfinished" in shown.stdout
    assert (run["run"], run["begun"]) == (interrupted, 0)
    assert go_on == f"To go on: {run['resume']}"
    done = CliRunner().invoke(main.app, shlex.split(run["resume"])[1:], obj=cluster.open)
    assert (done.exit_code, cluster.leader(orders)) == (0, 2)
    assert [each["state"] for each in listed()] == ["Finished"]


@pytest.mark.parametrize(
    ("ends", "state"),
    [({2: 15, 3: 27}, "OrdersAltered"), ({2: 27, 3: 15}, "Unfinished")],
    ids=["another order", "the order as it stands"],
)
def test_a_run_whose_wave_has_no_end_may_have_altered_the_orders_that_its_plan_alters(
    cluster: SmallCluster, recovery: Run, journal: Path, tmp_path: Path, ends: dict[int, int], state: str
) -> None:
    orders, file = cluster.offline("orders-17", ends), tmp_path / "plan.json"
    assert recovery("plan", "--all-offline-partitions", "--out", file).exit_code == 0
    begun(cluster, file, journal, "ann")
    with local_journal(journal, cluster.id) as kept:
        asyncio.run(kept.wave_started(str(json.loads(file.read_text())["digest"]), 1, [orders]))

    (run,) = listed()

    assert (run["state"], run["begun"]) == (state, 1)
    assert run["undo"] == run["resume"].replace(" resume ", " undo "), "it is the same cluster and journal"


@pytest.mark.parametrize("gone", [True, False])
def test_a_damaged_run_is_an_entry_that_says_what_is_wrong_and_hides_no_other(
    cluster: SmallCluster, recovery: Run, interrupted: str, journal: Path, automatic: Path, gone: bool
) -> None:
    cluster.offline("pay-0", {3: 4})
    other = recovery("recover", "--partition", "pay-0", "--policy", automatic)
    plan = journal / cluster.id / interrupted / "plan.json"
    (plan.parent / "finished.json").unlink(missing_ok=True)
    if gone:
        plan.unlink()
    else:
        plan.write_bytes(b"{}")

    shown = runs()
    found = {run["run"]: run for run in listed()}

    assert (other.exit_code, shown.exit_code, len(found)) == (0, 0, 2)
    assert found[interrupted]["state"] == "Damaged"
    assert found[interrupted]["why"].startswith("JournalDamaged: ")
    assert (found[interrupted]["elections"], found[interrupted]["resume"]) == (None, None)
    assert "plan.json" in shown.stdout
    assert "What to do:\n  JournalDamaged: " in shown.stdout


def test_the_commands_name_the_journal_that_was_looked_into(
    cluster: SmallCluster, interrupted: str, journal: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "another place"
    journal.rename(elsewhere)

    (run,) = listed("--journal", elsewhere)

    assert run["resume"].endswith(f" --expect-cluster-id {cluster.id} --journal '{elsewhere}'")


def test_where_there_is_no_journal_that_is_said() -> None:
    refused = runs()

    assert (refused.exit_code, "there is no journal" in refused.stderr) == (2, True)
