"""inspect, plan and explain: what a person sees before anything is changed, and that nothing is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from kafka_recovery.cli import main
from kafka_recovery.cli.kip_1275 import unclean_recovery
from kafka_recovery.cluster.drivers import Driver, Kip1275
from kafka_recovery.cluster.errors import AuthenticationFailed, ClusterUnavailable
from kafka_recovery.domain.reason import Reason
from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster
from unit.documents import document


def test_inspect_shows_every_offline_replica_as_its_own_broker_measures_it(
    cluster: SmallCluster, recovery: Run
) -> None:
    cluster.offline("orders-17", {2: 27, 3: None})
    cluster.online("users-0", 3, 5)

    shown = recovery("inspect")

    assert shown.exit_code == 0
    rows = [line.split() for line in shown.stdout.splitlines() if line.startswith("orders-17 ")]
    assert [row[2] for row in rows[:3]] == ["1", "2", "3"]
    assert "27" in rows[1]
    assert rows[2].count("?") == 3  # unknown, not zero
    assert "users-0" not in shown.stdout


def test_inspect_shows_where_logs_of_a_tiered_topic_begin_on_their_disks(cluster: SmallCluster, recovery: Run) -> None:
    cluster.tiered, cluster.local_starts = True, {2: 20}
    cluster.offline("orders-17", {2: 27, 3: 27})

    rows = [line for line in recovery("inspect").stdout.splitlines() if line.startswith("orders-17 ")]

    assert "0 (local 20)" in rows[1]
    assert "(local" not in rows[2]


def test_thousands_of_replicas_stay_aligned_and_harmless(cluster: SmallCluster, recovery: Run) -> None:
    cluster.racks = {2: "[red]\x1b[31m"}
    for index in range(300):
        cluster.offline(f"orders-{index}", {2: index})

    rows = [line for line in recovery("inspect").stdout.splitlines() if line.startswith(("Partition", "orders-"))]

    assert len(rows) == 1 + 600 + 1  # the last one is the sentence about broker 1
    assert {row.find("[red]\\x1b[31m") for row in rows[2:600:2]} == {rows[0].find("Rack")}


def test_inspect_of_a_healthy_cluster_says_so(recovery: Run) -> None:
    assert "no offline partitions" in recovery.says("inspect")


def test_a_plan_shows_verdicts_waves_loss_digest_and_what_to_type_next(cluster: SmallCluster, recovery: Run) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})
    cluster.offline("pay-0", {2: None, 3: 4})

    shown = recovery.says("plan", "--all-offline-partitions")

    for word in (
        "Elect",
        "Refuse",
        "LiveReplicaUnmeasured",
        "This plan would elect broker 2 on 1 partition, if it is approved.",
        "This plan elects nobody on the others: its verdict is Refuse on 1 partition.",
        "Waves: 1 (1 partition).",
        "Digest: ",
    ):
        assert word in shown
    command = "kafka-recovery plan --bootstrap-server kafka-1:9092 --all-offline-partitions --out plan.json"
    assert f"\nTHEN, IF YOU APPROVE (THIS ELECTS NOBODY YET): {command}\n" in shown
    assert f"\nNext: {command}\n" in shown


def test_where_a_plan_elects_nobody_the_command_that_looks_again_stands_below_it(
    cluster: SmallCluster, recovery: Run
) -> None:
    cluster.offline("pay-0", {2: None, 3: 4})

    shown = recovery.says("plan", "--partition", "pay-0")

    again = "kafka-recovery plan --bootstrap-server kafka-1:9092 --partition pay-0"
    assert f"\nNext: nothing to execute. To look again: {again}\n" in shown


def test_who_names_no_partition_sees_the_plan_of_all_that_are_offline(cluster: SmallCluster, recovery: Run) -> None:
    """To look costs nothing; to elect, they have to be named, and the command that is told next names them."""
    cluster.offline("orders-17", {2: 27, 3: 15})

    shown = recovery("plan")

    assert shown.exit_code == 0, shown.output
    assert "orders-17" in shown.stdout
    (following,) = [line for line in shown.stdout.splitlines() if line.startswith("Next: ")]
    assert " --all-offline-partitions " in following


@pytest.mark.parametrize("command", ["inspect", "plan", "explain"])
def test_topic_and_partition_name_what_kafka_s_own_tools_name_by_them(
    cluster: SmallCluster, recovery: Run, command: str
) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})
    cluster.offline("orders-18", {2: 27, 3: 15})

    shown = recovery(command, "--topic", "orders", "--partition", "17")

    assert shown.exit_code == 0, shown.output
    assert "orders-17" in shown.stdout
    assert "orders-18" not in shown.stdout


def test_the_next_command_names_partitions_as_they_were_typed(cluster: SmallCluster, recovery: Run) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})

    shown = recovery("plan", "--topic", "orders", "--partition", "17")

    assert " --topic orders --partition 17 --out plan.json" in shown.stdout.replace("\n", " ")


def test_who_wants_quiet_is_told_the_result_alone(cluster: SmallCluster, recovery: Run) -> None:
    """-q is of its command alone: the next one in the same process tells of its progress."""
    cluster.offline("orders-17", {2: 27, 3: 15})

    quiet, told = recovery("plan", "-q"), recovery("plan")

    assert quiet.stderr == ""
    assert "This plan would elect broker 2 on 1 partition" in quiet.stdout
    assert "asking the brokers" in told.stderr


def test_a_plan_file_is_what_json_shows_and_its_next_command_approves_it(
    cluster: SmallCluster, recovery: Run, tmp_path: Path
) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})
    out = tmp_path / "plan.json"

    as_json = document("plan", recovery("plan", "--partition", "orders-17", "--output", "json").stdout)
    as_yaml = yaml.safe_load(recovery("plan", "--partition", "orders-17", "--output", "yaml").stdout)
    shown = recovery("plan", "--partition", "orders-17", "--out", out)

    written = document("plan", out.read_text())
    assert written["kind"] == "RecoveryPlan"
    assert written["plan"]["decisions"] == as_json["plan"]["decisions"] == as_yaml["plan"]["decisions"]
    command = f"kafka-recovery execute {out} --bootstrap-server kafka-1:9092 --plan {written['digest']} --yes"
    assert command in shown.stdout
    assert cluster.changes == []


def test_a_plan_file_is_never_overwritten(cluster: SmallCluster, recovery: Run, tmp_path: Path) -> None:
    cluster.offline("orders-17", {2: 27})
    out = tmp_path / "plan.json"
    out.write_text("precious")

    refused = recovery.refuses("plan", "--all-offline-partitions", "--out", out)

    assert refused == f"Error: {out}: exists already and is not overwritten; choose another name\n"
    assert out.read_text() == "precious"
    assert cluster.target is None  # it did not even look


def test_explain_gives_rank_reason_and_loss_of_each_replica(cluster: SmallCluster, recovery: Run) -> None:
    cluster.racks = {2: "rack-b"}
    cluster.offline("orders-17", {2: 27, 3: 15})

    shown = recovery.says("explain", "orders-17")

    assert shown.startswith("orders-17: Elect broker 2 (rule default, LeastLoss)\n")
    for word in (
        "Rank",
        "rack-b",
        "chosen",
        "rejected",
        "Fenced",
        "Why: by LeastLoss",
        "Loss: Unknown",
        "What would change it:",
    ):
        assert word in shown


def test_explain_reads_a_plan_without_asking_the_cluster(cluster: SmallCluster, recovery: Run, tmp_path: Path) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})
    out = tmp_path / "plan.json"
    recovery("plan", "--all-offline-partitions", "--out", out)
    cluster.target = None

    shown = recovery("explain", "orders-17", "--plan", out, "--output", "json")
    other = recovery("explain", "orders-18", "--plan", out)

    assert document("explanation", shown.stdout)["leader"] == 2
    assert other.exit_code == 2
    assert "the plan does not hold orders-18" in other.stderr
    assert cluster.target is None


@pytest.mark.parametrize("command", [["inspect", "--partition"], ["plan", "--partition"], ["explain"]])
def test_a_partition_that_does_not_exist_is_bad_input(cluster: SmallCluster, recovery: Run, command: list[str]) -> None:
    cluster.offline("orders-17", {2: 27})

    refused = recovery.refuses(*command, "oders-17")

    assert "Error: oders-17 can't be looked at: UnknownTopicOrPartition: no such partition" in refused


def test_what_does_exist_is_shown_all_the_same_but_a_plan_without_the_rest_is_not_kept(
    cluster: SmallCluster, recovery: Run, tmp_path: Path
) -> None:
    cluster.offline("orders-17", {2: 27})
    out = tmp_path / "plan.json"

    refused = recovery("plan", "--partition", "orders-17", "--partition", "oders-18", "--out", out)

    assert refused.exit_code == 2
    assert "\n1 partition could not be found.\n" in refused.stdout
    assert "\nWhy not: UnknownTopicOrPartition; each is explained below.\n" in refused.stdout
    assert "Next:" not in refused.stdout
    assert f"Error: {out} was not written" in refused.stderr
    assert not out.exists()


def test_a_topic_we_may_not_see_is_the_cluster_s_refusal_not_a_mistyped_name(
    cluster: SmallCluster, recovery: Run
) -> None:
    cluster.gone = Reason("TopicAuthorizationFailed", "the principal lacks DESCRIBE on topic orders")

    for command in (["inspect", "--partition", "orders-17"], ["explain", "orders-17"]):
        assert "Error: orders-17 can't be looked at: TopicAuthorizationFailed" in recovery.refuses(*command, code=6)


def test_what_the_chosen_leader_visibly_lacks_stands_in_the_plan(
    cluster: SmallCluster, recovery: Run, tmp_path: Path
) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})
    cluster.offline("orders-18", {2: 27, 3: 15})
    leaders = tmp_path / "leaders.json"
    leaders.write_text('{"partitions": [{"topic": "orders", "partition": 17, "designatedLeader": 3}]}')

    chosen = recovery("plan", "--partition", "orders-18").stdout
    designated = recovery("plan", "--path-to-json-file", leaders).stdout

    assert "visibly" not in chosen
    assert "Warning" not in chosen
    assert "Unknown (visibly lacking 12 records)" in designated
    said = " ".join(designated.split())
    assert "Electing as planned may lose up to 12 records that broker 2 holds" in said
    assert (
        "While orders-17 has no leader, first of all copy its directory FROM broker 2 and broker 3 to a place" in said
    )
    assert "first of all copy" not in chosen
    better = "kafka-recovery plan --bootstrap-server kafka-1:9092 --partition orders-17\n"
    assert f"\nIN PLACE OF APPROVING: {better}" in designated
    assert f"\nIn place of executing it: {better}" in designated
    assert "--path-to-json-file" not in designated, "that one names broker 3"
    assert "place of" not in chosen.lower()
    assert (
        "DO NOT APPROVE. Broker 3 was named (designatedLeader or rankingRef) as leader of orders-17: by LeastLoss "
        "broker 2 is better, and holds 12 records that broker 3 lacks. See whether a plan that does not name broker 3 "
        "elects broker 2 (operator: refuse this recovery, then apply another one; none opens by itself)."
    ) in said


def test_names_and_messages_from_others_can_t_paint_on_the_terminal(cluster: SmallCluster, recovery: Run) -> None:
    cluster.racks = {2: "[bold red]\x1b]0;pwned\x07\u202e:smile:"}
    cluster.offline("orders-17", {2: 27})

    for command in (["inspect"], ["explain", "orders-17"]):
        shown = recovery(*command).stdout
        assert "[bold red]\\x1b]0;pwned\\x07\\u202e:smile:" in shown
        assert not any(char in shown for char in "\x1b\x07\u202e")


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_machine_readable_output_is_all_there_is_on_stdout(cluster: SmallCluster, recovery: Run, output: str) -> None:
    cluster.racks = {2: "\x1b[31m\u202e"}
    cluster.offline("orders-17", {2: 27})

    shown = recovery("inspect", "--output", output)

    evidence = document("evidence", shown.stdout) if output == "json" else yaml.safe_load(shown.stdout)
    assert evidence["cluster"]["brokers"][1]["rack"] == "\x1b[31m\u202e"
    assert shown.stdout.isascii()
    assert "\x1b" not in shown.stdout
    assert "asking the brokers" in shown.stderr


def test_a_cluster_that_does_not_answer_is_an_error_of_its_own(cluster: SmallCluster, recovery: Run) -> None:
    cluster.problem = ClusterUnavailable({"kafka-1:9092": Reason("BrokerUnreachable", "connection \x1b[31mrefused")})

    failed = recovery("inspect")

    assert failed.exit_code == 3
    assert failed.stdout == ""
    assert "Error: none of 1 brokers answered:\n  kafka-1:9092: connection \\x1b[31mrefused\n" in failed.stderr


@pytest.mark.parametrize(
    ("codes", "exit_code"),
    [
        (("AuthenticationFailed", "AuthenticationFailed"), 6),
        (("AuthenticationFailed", "TlsFailed"), 6),
        (("AuthenticationFailed", "BrokerUnreachable"), 3),
        ((), 3),
    ],
)
def test_where_no_broker_lets_us_in_trying_again_is_not_what_the_exit_code_says(
    cluster: SmallCluster, recovery: Run, codes: tuple[str, ...], exit_code: int
) -> None:
    cluster.problem = ClusterUnavailable({f"kafka-{i}:9092": Reason(code, "no") for i, code in enumerate(codes)})

    assert recovery("inspect").exit_code == exit_code


def test_one_broker_that_refuses_the_login_is_not_one_that_is_away(cluster: SmallCluster, recovery: Run) -> None:
    cluster.problem = AuthenticationFailed("kafka-1:9092", "PLAIN refused user ann")

    assert recovery("inspect").exit_code == 6


def test_how_leaders_are_designated_is_told_to_the_cluster_and_to_the_next_command(
    cluster: SmallCluster, recovery: Run
) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})
    plain = recovery("plan", "--all-offline-partitions")
    assert cluster.target
    assert cluster.target.kip_1275 == Kip1275(Driver.AUTO, None)
    assert "--driver" not in plain.stdout

    chosen = ("--driver", "designated", "--replica-log-info-api-key", "94")
    shown = recovery("plan", "--all-offline-partitions", *chosen)

    assert cluster.target.kip_1275 == Kip1275(Driver.DESIGNATED, 94)
    assert " ".join(chosen) in shown.stdout


def test_the_number_of_another_request_is_refused(cluster: SmallCluster, recovery: Run) -> None:
    refused = recovery("inspect", "--replica-log-info-api-key", 43)

    assert refused.exit_code == 2
    assert cluster.target is None


def test_the_connection_may_come_from_the_environment(
    cluster: SmallCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """So that it is not typed with every command; the next command names it all the same, for whoever it is sent to."""
    cluster.offline("orders-17", {2: 27, 3: 15})
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=PLAINTEXT\n")
    monkeypatch.setenv("KAFKA_RECOVERY_BOOTSTRAP_SERVER", "kafka-2:9092")
    monkeypatch.setenv("KAFKA_RECOVERY_COMMAND_CONFIG", str(config))

    shown = CliRunner().invoke(main.app, ["plan", "--all-offline-partitions"], obj=cluster.open)

    assert shown.exit_code == 0, shown.output
    assert f"--bootstrap-server kafka-2:9092 --command-config {config}" in shown.stdout
    for program, words in ((main.app, ["plan"]), (unclean_recovery.app, [])):
        told = CliRunner().invoke(program, [*words, "--help"]).stdout
        assert "KAFKA_RECOVERY_BOOTSTRAP_SERVER" in told
        assert "KAFKA_RECOVERY_COMMAND_CONFIG" in told


def test_a_program_learns_by_the_exit_code_whether_a_plan_leaves_partitions_offline(
    cluster: SmallCluster, recovery: Run
) -> None:
    asked = ("plan", "--all-offline-partitions", "--exit-code")
    assert recovery(*asked).exit_code == 0, "nothing is offline"
    cluster.offline("orders-17", {2: 27, 3: 15})
    assert recovery(*asked).exit_code == 0
    cluster.offline("users-0", {2: None, 3: None})
    assert recovery(*asked).exit_code == 1
    assert recovery("plan", "--all-offline-partitions").exit_code == 0, "a person reads it"


def test_many_partitions_of_which_a_person_named_the_leaders_are_planned_again_without_naming_each(
    cluster: SmallCluster, recovery: Run, tmp_path: Path
) -> None:
    numbers, leaders = range(17, 26), tmp_path / "leaders.json"
    for number in numbers:
        cluster.offline(f"orders-{number}", {2: 27, 3: 15})
    wanted = [{"topic": "orders", "partition": number, "designatedLeader": 3} for number in numbers]
    leaders.write_text(json.dumps({"partitions": wanted}))

    shown = recovery("plan", "--path-to-json-file", leaders).stdout

    better = "kafka-recovery plan --bootstrap-server kafka-1:9092 --all-offline-partitions\n"
    assert f"\nIn place of executing it: {better}" in shown
