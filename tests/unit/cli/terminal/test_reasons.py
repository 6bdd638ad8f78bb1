"""Hundreds of partitions with the same trouble: said once, counted, and no progress lost on the way."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from kafka_recovery.cli.cluster.progress import PlainLines, ProgressBar, watching
from kafka_recovery.cli.terminal.options import Quiet
from kafka_recovery.cli.terminal.reasons import what_to_do
from kafka_recovery.domain.ids import TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.catalogue import catalogue
from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster

ROOT = Path(__file__).parents[4]


def refused(index: int, code: str = "NoCandidate") -> PartitionOutcome:
    id = TopicPartition("orders", index)
    return PartitionOutcome(id, Outcome.REFUSED, Reason(code, f"none of the replicas of {id} may lead"))


def test_reasons_that_differ_by_the_partition_s_name_only_are_one_sentence(
    cluster: SmallCluster, recovery: Run
) -> None:
    for index in range(300):
        cluster.offline(f"orders-{index}", {})

    shown = recovery("plan", "--all-offline-partitions").stdout

    assert shown.count("NoCandidate: none of ") == 1
    assert "\norders-0 and 299 more: NoCandidate: none of the 1 replicas of orders-0 may lead." in shown


def test_of_many_different_sentences_with_one_code_the_first_are_shown_and_the_others_counted(
    cluster: SmallCluster, recovery: Run
) -> None:
    for broker in range(2, 12):
        cluster.offline(f"orders-{broker}", {broker: None, 20: 5})

    shown = recovery("plan", "--all-offline-partitions").stdout

    assert shown.count("LiveReplicaUnmeasured: broker") == 3
    assert "… and 7 more with LiveReplicaUnmeasured; --output json shows all of them\n" in shown


def test_what_to_do_is_told_once_for_each_reason_with_where_the_docs_have_it() -> None:
    silent = ("LiveReplicaUnmeasured", "broker 3 did not answer")
    told = list(what_to_do([silent, ("NoCandidate", "none may lead"), silent, ("AsExpected", "all is well")]))

    assert told == [
        "What to do:",
        f"  LiveReplicaUnmeasured: {catalogue()['LiveReplicaUnmeasured'].do} "
        "More: docs/reference.md#livereplicaunmeasured",
        f"  NoCandidate: {catalogue()['NoCandidate'].do} More: docs/reference.md#nocandidate",
    ]


def test_every_name_that_is_linked_to_is_a_heading_of_the_reference() -> None:
    headings = re.findall(r"^#### `(\w+)`$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    assert {code.lower() for code in catalogue()} <= {heading.lower() for heading in headings}


def test_a_refusal_in_a_plan_is_followed_by_what_to_do(cluster: SmallCluster, recovery: Run) -> None:
    for index in range(3):
        cluster.offline(f"orders-{index}", {})

    shown = recovery("plan", "--all-offline-partitions").stdout

    assert shown.count("NoCandidate: See whether each of its brokers runs, and reaches the controllers.") == 1


def test_a_log_tells_the_first_refusals_and_counts_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainLines() as lines:
        for index in range(300):
            lines.concluded(refused(index))
        lines.concluded(refused(300, "NoRule"))
        lines.wave_started(1, 1, 5)
        lines.concluded(refused(301))

    said = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in said] == [
        *("orders-0", "orders-1", "orders-2", "orders-300"),
        "… and 297 more",
        "wave 1 of 1",
        "… and 1 more",
    ]
    assert said[4] == "… and 297 more: Refused (NoCandidate); the result names them"


def test_the_bar_counts_each_partition_once_whatever_became_of_it() -> None:
    with ProgressBar() as bar:
        bar.wave_started(1, 1, 3)  # of a resumed run: no plan was made
        before = bar.counted
        bar.concluded(refused(1))
        bar.concluded(refused(2))
        bar.concluded(PartitionOutcome(TopicPartition("orders", 2), Outcome.RECOVERED))

        assert before == (0, 3)
        assert bar.counted == (2, 3)


def test_the_bar_s_whole_is_every_partition_of_the_plan(
    cluster: SmallCluster, recovery: Run, monkeypatch: pytest.MonkeyPatch, automatic: object
) -> None:
    bar = ProgressBar()
    monkeypatch.setattr("kafka_recovery.cli.cluster.changing.watching", lambda: bar)
    cluster.offline("orders-1", {2: 27})
    cluster.offline("orders-2", {})
    cluster.online("orders-3", 2, 9)
    words = [word for index in (1, 2, 3, 4) for word in ("--partition", f"orders-{index}")]

    recovery("recover", *words, "--policy", automatic)

    assert bar.counted == (4, 4)


@pytest.mark.parametrize(("typed", "shows"), [([], ProgressBar), (["-q"], PlainLines)])
def test_who_wants_quiet_sees_no_bar_at_a_terminal(
    typed: list[str], shows: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, shown = typer.Typer(), list[object]()

    @app.command()
    def recover(quiet: Quiet = False) -> None:
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        shown.append(watching())

    assert CliRunner().invoke(app, typed).exit_code == 0
    assert [type(each) for each in shown] == [shows]
