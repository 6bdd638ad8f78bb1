"""undo --records: what an operator altered is put back by a person who has its RecoveryRecords, and no operator."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from kafka_recovery.cli.cluster.operator_records import take_over
from kafka_recovery.cli.cluster.plan_files import read_plan
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.recovery.local_storage import local_journal
from kafka_recovery.recovery.ports import DamagedRun
from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster
from unit.kube.kubernetes_in_memory import KubernetesInMemory

NAMESPACE, NAME, UID = "kafka", "prod-1f0c9a2b7d", "4a3c0e0e-0d0a-4a75-a6c5-2f9be0ad3b1e"


@pytest.fixture
def orders(cluster: SmallCluster) -> TopicPartition:
    return cluster.offline("orders-17", {3: 15, 2: 27})


@pytest.fixture
def plan_file(orders: TopicPartition, recovery: Run, tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    assert recovery("plan", "--all-offline-partitions", "--out", path).exit_code == 0
    return path


@pytest.fixture
def printed(cluster: SmallCluster, orders: TopicPartition, plan_file: Path, tmp_path: Path) -> Path:
    """What kubectl prints of a run that ended in its first wave, with the order of `orders` altered."""
    api = KubernetesInMemory()
    api.put_recovery(NAMESPACE, NAME, UID)

    plan = read_plan(plan_file.read_text(), str(plan_file))

    async def begin() -> None:
        journal = RecordJournal(api, NAMESPACE, NAME, UID, cluster.id)
        digest = await journal.record(plan)
        await journal.approved(digest, "ann")
        await journal.wave_started(digest, 1, (orders,))
        await journal.wave_ended(digest, 1, ())

    asyncio.run(begin())
    cluster.alter(orders, plan.decisions[0].order)
    return write(tmp_path, list(api.records().values()))


def write(folder: Path, items: list[dict[str, Any]]) -> Path:
    path = folder / "journal.json"
    listed = [{"kind": "RecoveryRecord"} | each for each in items]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": listed}))
    return path


def test_the_order_that_an_operator_altered_is_put_back(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, printed: Path
) -> None:
    undone = recovery("undo", "--records", printed)

    assert undone.exit_code == 0, undone.output
    assert "1 unfinished run of the operator taken over" in undone.stderr
    assert cluster.assignment(orders) == (1, 3, 2)


def test_twice_is_harmless(recovery: Run, printed: Path) -> None:
    assert recovery("undo", "--records", printed).exit_code == 0
    assert "0 unfinished runs of the operator taken over" in recovery("undo", "--records", printed).stderr


def test_what_is_taken_over_can_be_undone_and_is_approved_by_nobody(
    cluster: SmallCluster, printed: Path, tmp_path: Path
) -> None:
    """Whoever may create RecoveryRecords could have written that somebody approved it."""

    async def taken_over() -> tuple[int, str | None]:
        with local_journal(tmp_path / "journal", cluster.id) as journal:
            await take_over(printed, journal, cluster.id)
            (run,) = await journal.unfinished()
            assert not isinstance(run, DamagedRun)
            return len(run.begun), await journal.approver(run.digest)

    assert asyncio.run(taken_over()) == (1, None)


def test_a_part_that_was_not_printed_is_missed_by_name(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, printed: Path, tmp_path: Path
) -> None:
    items = [each for each in json.loads(printed.read_text())["items"] if not each["metadata"]["name"].endswith("plan")]

    assert "-plan: it is missing" in recovery.refuses("undo", "--records", write(tmp_path, items))
    assert cluster.assignment(orders) != (1, 3, 2)


@pytest.mark.parametrize("text", ["", "[]", '{"items": 7}', '{"items": [{"kind": "Secret"}]}', "[" * 100_000])
def test_a_file_that_is_no_list_of_records_is_refused(recovery: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "journal.json"
    path.write_text(text)

    refused = recovery.refuses("undo", "--records", path)

    assert "is no list of RecoveryRecords; make it with kubectl get recoveryrecords" in refused


def test_a_record_that_tells_nothing_is_refused(recovery: Run, tmp_path: Path) -> None:
    refused = recovery.refuses("undo", "--records", write(tmp_path, [{"metadata": {"name": "empty"}, "spec": {}}]))

    assert "RecoveryRecord empty: it lacks 'recovery'" in refused


def test_an_empty_list_is_refused(recovery: Run, tmp_path: Path) -> None:
    assert "holds no RecoveryRecord" in recovery.refuses("undo", "--records", write(tmp_path, []))
