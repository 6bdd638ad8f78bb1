"""A journal found in the field is judged by what needs no true logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from kafka_recovery.domain.ids import BrokerId
from kafka_recovery.domain.loss_class import LossClass
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.plan import Plan
from kafka_recovery.formats.documents import InvalidDocument
from kafka_recovery.kube.journal.record_journal import RecordJournal
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.local_storage import local_journal
from kafka_recovery.simulator.__main__ import main
from kafka_recovery.simulator.histories.field import judge_journal
from kafka_recovery.simulator.histories.history import happen
from kafka_recovery.simulator.histories.scenario_files import load_scenario
from simulation.lagging import LAGGING
from unit.kube.kubernetes_in_memory import KubernetesInMemory


@pytest.fixture(scope="module")
def run() -> tuple[Plan, PartitionOutcome]:
    """What an engine planned in a history, and what became of it."""
    story = happen(load_scenario(LAGGING, "lagging.yaml")).story
    return next(story.plans())[1], story.concluded[0].outcome


async def keep(journal: FileJournal | RecordJournal, plan: Plan, outcome: PartitionOutcome) -> None:
    """That run, from its plan to its end."""
    digest = await journal.record(plan)
    await journal.approved(digest, "ann")
    await journal.wave_started(digest, 1, tuple(plan.elections))
    await journal.wave_ended(digest, 1, (outcome,))
    await journal.finished(digest)


def kept(folder: Path, plan: Plan, outcome: PartitionOutcome) -> Path:
    """The journal of that run."""
    with local_journal(folder, "cluster") as journal:
        asyncio.run(keep(journal, plan, outcome))
    return folder


def exported(plan: Plan, outcome: PartitionOutcome) -> dict[str, Any]:
    """The same run in an operator's journal, as `kubectl get recoveryrecords` prints it."""
    api = KubernetesInMemory()
    api.put_recovery("kafka", "prod", "4a3c0e0e-0d0a-4a75-a6c5-2f9be0ad3b1e")
    journal = RecordJournal(api, "kafka", "prod", "4a3c0e0e-0d0a-4a75-a6c5-2f9be0ad3b1e", plan.cluster_id)
    asyncio.run(keep(journal, plan, outcome))
    items = [{"kind": "RecoveryRecord"} | record for record in api.records().values()]
    listed: dict[str, Any] = json.loads(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return listed


def found(folder: Path) -> set[str]:
    return {finding.invariant for finding in judge_journal(folder).findings}


def test_an_honest_runs_journal_breaks_no_promise(tmp_path: Path, run: tuple[Plan, PartitionOutcome]) -> None:
    verdict = judge_journal(kept(tmp_path, *run))

    assert verdict.findings == ()
    examined = {name for name, count in verdict.examined.items() if count}
    assert {"best_first", "limits_hold", "facts_in_their_order", "outcomes_fit_the_plan"} <= examined


def test_another_leader_than_planned_is_not_recovered(tmp_path: Path, run: tuple[Plan, PartitionOutcome]) -> None:
    plan, outcome = run
    assert outcome.outcome is Outcome.RECOVERED

    assert found(kept(tmp_path, plan, replace(outcome, leader=BrokerId(2)))) == {"outcomes_fit_the_plan"}


def test_a_plan_that_says_lossless_has_a_number_and_a_proof(tmp_path: Path, run: tuple[Plan, PartitionOutcome]) -> None:
    plan, outcome = run
    boasting = [
        d if d.loss is None else replace(d, loss=replace(d.loss, loss_class=LossClass.LOSSLESS)) for d in plan.decisions
    ]

    assert found(kept(tmp_path, replace(plan, decisions=tuple(boasting)), outcome)) == {
        "class_has_its_number",
        "class_is_proven",
    }


def test_a_worse_candidate_is_found(tmp_path: Path, run: tuple[Plan, PartitionOutcome]) -> None:
    plan, outcome = run
    others = {decision.id: decision.ranking[1] for decision in plan.decisions if decision.leader is not None}
    worse = [replace(d, leader=others[d.id], order=(others[d.id], d.order[0], *d.order[2:])) for d in plan.decisions]

    assert "best_first" in found(kept(tmp_path, replace(plan, decisions=tuple(worse)), outcome))


def test_a_wave_that_never_ended_is_not_finished(tmp_path: Path, run: tuple[Plan, PartitionOutcome]) -> None:
    folder = kept(tmp_path, *run)
    next(folder.rglob("wave-0001-ended.json")).unlink()

    assert found(folder) == {"finished_is_finished"}


def test_a_wave_without_its_beginning_is_found(tmp_path: Path, run: tuple[Plan, PartitionOutcome]) -> None:
    folder = kept(tmp_path, *run)
    next(folder.rglob("wave-0001-started.json")).unlink()

    assert found(folder) == {"facts_in_their_order"}


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump])
def test_what_kubectl_prints_of_an_operators_journal_is_judged_as_a_folder_is(
    tmp_path: Path, run: tuple[Plan, PartitionOutcome], write: Callable[[object], str]
) -> None:
    plan, outcome = run
    honest, lying = tmp_path / "honest", tmp_path / "lying"
    honest.write_text(write(exported(plan, outcome)))
    lying.write_text(write(exported(plan, replace(outcome, leader=BrokerId(2)))))

    verdict = judge_journal(honest)

    assert (verdict.findings, verdict.examined) == ((), judge_journal(kept(tmp_path / "folder", *run)).examined)
    assert found(lying) == {"outcomes_fit_the_plan"}


def test_a_wave_whose_end_was_not_exported_is_found(tmp_path: Path, run: tuple[Plan, PartitionOutcome]) -> None:
    listed = exported(*run)
    listed["items"] = [item for item in listed["items"] if item["spec"]["fact"] != "wave-0001-ended"]
    (tmp_path / "records").write_text(json.dumps(listed))

    assert found(tmp_path / "records") == {"finished_is_finished"}


def test_a_plan_of_several_records_needs_them_all(
    tmp_path: Path, run: tuple[Plan, PartitionOutcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_recovery.kube.journal.packed.LARGEST_PIECE", 500)
    monkeypatch.setattr("kafka_recovery.kube.journal.contents.is_crowded", lambda *_: False)
    listed, file = exported(*run), tmp_path / "records"
    file.write_text(json.dumps(listed))
    assert found(file) == set()

    part = next(item for item in listed["items"] if item["spec"]["fact"] == "part")
    listed["items"].remove(part)
    file.write_text(json.dumps(listed))
    with pytest.raises(InvalidDocument, match=f"it is not whole: .*{part['metadata']['name']}"):
        judge_journal(file)


@pytest.mark.parametrize("text", ["", "items: 7", '{"items": [{"kind": "Secret"}]}', "{", "a: *b", "[" * 100_000])
def test_a_file_that_is_no_list_of_records_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "records").write_text(text)

    with pytest.raises(InvalidDocument, match="is no"):
        judge_journal(tmp_path / "records")


def test_the_command_says_what_it_found(
    tmp_path: Path, run: tuple[Plan, PartitionOutcome], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(kept(tmp_path / "honest", *run))]) == 0
    assert capsys.readouterr().out.startswith("0 findings\n\npromise")
    assert main(["judge", str(tmp_path / "nothing")]) == 2
    assert "holds no plan" in capsys.readouterr().err
