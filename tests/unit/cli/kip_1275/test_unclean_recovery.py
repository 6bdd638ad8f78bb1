"""kafka-unclean-recovery keeps KIP-1275's promises, option for option."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_recovery.cli.kip_1275 import unclean_recovery
from kafka_recovery.cli.kip_1275.task import Task
from kafka_recovery.cluster.drivers import Driver
from kafka_recovery.domain.policy import Approval, CandidateOrder, RequiredAnswers
from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster

WITH_ALL_PROGRAMS = ("--version", "--install-completion", "--show-completion")
ALL, AUTOMATED = "--all-offline-partitions", "--automated-recovery"


def test_its_options_are_the_kip_s_and_no_others() -> None:
    shown = CliRunner().invoke(unclean_recovery.app, ["--help"]).stdout

    assert set(re.findall(r"^  (--[a-z-]+)", shown, re.M)) - set(WITH_ALL_PROGRAMS) == {
        "--bootstrap-server",
        "--command-config",
        "--recovery-duration-ms",
        "--recovery-election-attempts",
        "--show-replica-info",
        "--manual-recovery-output-file",
        "--automated-recovery",
        "--path-to-json-file",
        "--all-offline-partitions",
    }
    assert "default: 30000" in shown
    assert "default: 3;" in shown


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([ALL], "nothing to do is named; give at least one of --show-replica-info, --manual-recovery-output-file,"),
        ([AUTOMATED], "no partitions are named; give one of --path-to-json-file, --all-offline-partitions"),
        ([AUTOMATED, ALL, "--path-to-json-file", "p.json"], "--path-to-json-file and --all-offline-partitions exclude"),
        ([ALL, AUTOMATED, "--manual-recovery-output-file", "new.json"], "exclude each other"),
        ([ALL, "--manual-recovery-output-file", "/"], "/: exists already and is not overwritten"),
        ([AUTOMATED, "--path-to-json-file", "/nowhere.json"], "/nowhere.json: can't be read"),
        ([ALL, AUTOMATED, "--recovery-duration-ms", "0"], "--recovery-duration-ms"),
        ([ALL, AUTOMATED, "--recovery-duration-ms", "30s"], "--recovery-duration-ms"),
        ([ALL, AUTOMATED, "--recovery-election-attempts", "-1"], "--recovery-election-attempts"),
        ([ALL, AUTOMATED, "--no-automated-recovery"], "No such option"),
    ],
)
def test_a_command_line_that_is_not_right(cluster: SmallCluster, unclean: Run, words: list[str], problem: str) -> None:
    cluster.offline("orders-17", {2: 27})

    assert problem in unclean.refuses(*words)
    assert cluster.target is None
    assert cluster.changes == []


def test_show_replica_info_prints_the_table_and_changes_nothing(cluster: SmallCluster, unclean: Run) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})

    assert re.search(r"^orders-17 .* 2 .* 27 ", unclean.says(ALL, "--show-replica-info"), re.M)
    assert cluster.changes == []


def test_a_partition_that_does_not_exist_is_not_shown_as_if_all_were_well(
    cluster: SmallCluster, unclean: Run, tmp_path: Path
) -> None:
    cluster.offline("orders-17", {2: 27})
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions": [{"topic": "orders", "partitions": [17, 99]}]}')

    shown = unclean("--path-to-json-file", file, "--show-replica-info")

    assert shown.exit_code == 2
    assert "Error: orders-99 can't be looked at: UnknownTopicOrPartition" in shown.stderr
    assert "\norders-17 " in shown.stdout


def test_its_help_says_where_the_journal_is() -> None:
    shown = CliRunner().invoke(unclean_recovery.app, ["--help"]).stdout

    assert "journaled in ${XDG_STATE_HOME:-~/.local/state}/kafka-recovery" in " ".join(shown.split())


def test_the_manual_file_designates_the_best_leaders_and_nothing_is_elected(
    cluster: SmallCluster, unclean: Run, tmp_path: Path
) -> None:
    cluster.offline("foo-1", {2: 27, 3: 15})
    cluster.offline("foobar-2", {2: 1, 3: 15})
    out = tmp_path / "leaders.json"

    done = unclean(ALL, "--manual-recovery-output-file", out)
    again = unclean(ALL, "--manual-recovery-output-file", out)

    assert done.exit_code == 0
    assert json.loads(out.read_text()) == {
        "partitions": [
            {"topic": "foo", "partition": 1, "designatedLeader": 2},
            {"topic": "foobar", "partition": 2, "designatedLeader": 3},
        ]
    }
    assert again.exit_code == 2
    assert cluster.changes == []


def test_partitions_without_a_candidate_are_named_and_left_out_of_the_file(
    cluster: SmallCluster, unclean: Run, tmp_path: Path
) -> None:
    cluster.offline("orders-17", {2: None, 3: None})
    out = tmp_path / "leaders.json"

    assert "orders-17: NoCandidate" in unclean.refuses(ALL, "--manual-recovery-output-file", out, code=1)
    assert not out.exists()


def test_automated_recovery_elects_whoever_answered_and_asks_nobody(cluster: SmallCluster, unclean: Run) -> None:
    orders = cluster.offline("orders-17", {2: None, 3: 15})

    assert unclean.says(ALL, AUTOMATED) == "orders-17: broker 3 elected, log end 15\n"
    assert cluster.leader(orders) == 3
    assert cluster.assignment(orders) == (1, 2, 3)


def test_the_file_s_partitions_are_recovered_and_what_is_online_is_said_to_be(
    cluster: SmallCluster, unclean: Run, tmp_path: Path
) -> None:
    orders, left_alone = cluster.offline("orders-17", {2: 27}), cluster.offline("orders-18", {2: 27})
    cluster.online("orders-3", 2, 9)
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions": [{"topic": "orders", "partitions": [17, 3]}]}')

    done = unclean("--path-to-json-file", file, AUTOMATED)
    again = unclean("--path-to-json-file", file, AUTOMATED)

    assert done.exit_code == 0
    assert "orders-3: already online, broker 2 leads" in done.stdout
    assert cluster.leader(orders) == 2
    assert cluster.leader(left_alone) is None
    assert again.exit_code == 0
    assert again.stdout.count("already online") == 2
    assert cluster.changes.count("elect 2 for orders-17") == 1


def test_failures_go_to_stderr_one_line_each_and_the_others_are_recovered(
    cluster: SmallCluster, unclean: Run, tmp_path: Path
) -> None:
    orders = cluster.offline("orders-17", {2: 27})
    cluster.refuses.add(cluster.offline("pay-0", {2: 27}))
    file = tmp_path / "partitions.json"
    file.write_text(
        '{"partitions": [{"topic": "orders", "partitions": [17, 99]}, {"topic": "pay", "partitions": [0]}]}'
    )

    done = unclean("--path-to-json-file", file, AUTOMATED)

    assert done.exit_code == 1
    assert cluster.leader(orders) == 2
    assert done.stdout == "orders-17: broker 2 elected, log end 27\n"
    failures = [line for line in done.stderr.splitlines() if line.startswith(("orders-", "pay-"))]
    assert failures == [
        "orders-99: UnknownTopicOrPartition: no such partition, or the principal lacks DESCRIBE on the topic",
        "pay-0: ClusterAuthorizationFailed: the principal lacks ALTER",
    ]


def test_a_wave_in_which_one_fails_holds_up_no_partition_of_the_next(cluster: SmallCluster, unclean: Run) -> None:
    """The engine ends a plan at an election that does not verify; this tool does what it can."""
    first, *others = [cluster.offline(f"orders-{number:03}", {2: 27}) for number in range(60)]
    cluster.before_election = lambda ids: cluster.shorten(first, 2, 3)

    assert "orders-0: LeaderBehindPlan" in unclean.refuses(ALL, AUTOMATED, code=1)
    assert [cluster.leader(id) for id in others] == [2] * 59


def test_a_file_with_designated_leaders_belongs_to_another_tool(
    cluster: SmallCluster, unclean: Run, tmp_path: Path
) -> None:
    file = tmp_path / "leaders.json"
    file.write_text('{"partitions": [{"topic": "orders", "partition": 17, "designatedLeader": 3}]}')

    assert "designates leaders" in unclean.refuses("--path-to-json-file", file, AUTOMATED)


def test_retries_of_elections_are_the_driver_s_attempts_less_one(cluster: SmallCluster, unclean: Run) -> None:
    unclean(ALL, "--show-replica-info", "--recovery-election-attempts", 5)

    assert (cluster.target and cluster.target.election_attempts) == 6


def test_the_kip_s_own_election_is_held_where_brokers_have_it(cluster: SmallCluster, unclean: Run) -> None:
    unclean(ALL, "--show-replica-info")

    assert cluster.target
    assert cluster.target.kip_1275.driver is Driver.AUTO


@pytest.mark.parametrize(("duration", "attempts"), [(100, 1), (30_000, 10), (9_000, 3), (3_600_000, 10)])
def test_a_broker_has_the_whole_duration_to_answer_in(duration: int, attempts: int) -> None:
    task = Task(timedelta(milliseconds=duration), show=True, manual_file=None, automated=False, file=None)
    (rule,) = task.policy().rules

    assert rule.evidence.attempts == attempts
    assert rule.evidence.attempts * rule.evidence.deadline == task.duration
    assert rule.evidence.required_answers is RequiredAnswers.ANY
    assert rule.patience == task.duration / 3
    assert (rule.approval, rule.candidate_order) == (Approval.AUTO, CandidateOrder.EPOCH_FIRST)
