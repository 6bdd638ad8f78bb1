"""What a person may get wrong on the command line: one line that names it, exit code 2, and the cluster never asked."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_recovery.cli import main
from kafka_recovery.cli.terminal.inputs import journal_directory
from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster
from unit.processes import Forked

PLAN = ["plan", "--all-offline-partitions"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([*PLAN, "--partition", "a-1"], "--all-offline-partitions and --partition exclude each other"),
        (["recover"], "no partitions are named; give one of --all-offline-partitions, --partition, --path-to-json"),
        (
            ["recover", "--partition", "17"],
            "'17' is a number without its topic; write both as TOPIC-17, or give --topic",
        ),
        (["plan", "--topic", "orders"], "--topic orders names no partition; add its number, such as --partition 17"),
        (["recover", "--topic", "orders", "--partition", "orders-1"], "with --topic orders write --partition N"),
        (["plan", "--topic", "orders", "--partition", "01"], "--partition '01' is not a partition's number"),
        (["recover", "--topic", "a b", "--partition", "1"], "the topic's name has characters other than"),
        (["explain"], "no partition is named; explain takes one, as orders-17 or as --topic orders --partition 17"),
        (["explain", "a-1", "--topic", "a", "--partition", "1"], "2 partitions are named: a-1, a-1; explain takes one"),
        (
            ["plan", "--partition", "orders"],
            "'orders' is not a partition; write it as topic-index, for example",
        ),
        (["plan", "--partition", "a b-1"], "the topic's name has characters other than"),
        (["plan", "--partition", "..-1"], "the topic's name is reserved"),
        (["plan", "--partition", "orders-2147483648"], "its number is larger than 2147483647"),
        (["plan", "--partition", "orders-01"], "written with a leading zero; did you mean orders-1, or a partition"),
        (["recover", "--partition", "a-1", "--partition", "a-1"], "--partition a-1 is given twice"),
        (["plan", "--partition", "\x1b[31m-1"], "'\\x1b[31m-1' is not a partition"),
        ([*PLAN, "--policy", "/nowhere.yaml"], "/nowhere.yaml: can't be read: No such file or directory"),
        ([*PLAN, "--policy", "/"], "/: can't be read: Is a directory"),
        ([*PLAN, "--policy", "/dev/zero"], "has more than 1048576 bytes"),
        ([*PLAN, "--out", "/nowhere/plan.json"], "/nowhere/plan.json: its directory does not exist"),
        (["plan", "--path-to-json-file", "/nowhere.json"], "/nowhere.json: can't be read"),
        (["execute"], "no plan is named; give its FILE (kafka-recovery plan --out FILE writes one), or"),
        (["execute", "--yes"], "--yes says yes to a plan that was read: name it with --plan DIGEST"),
        (["execute", "--plan", "abc"], "--plan 'abc': not a plan's digest (64 hexadecimal digits"),
        (["execute", "--plan", "a" * 64, "--yes", "--policy", "/nowhere.yaml"], "/nowhere.yaml: can't be read"),
        (["execute", "/nowhere.json"], "/nowhere.json: can't be read"),
        (["explain", "orders-17", "--plan", "/nowhere.json"], "/nowhere.json: can't be read"),
    ],
)
def test_a_command_line_that_is_not_right(cluster: SmallCluster, recovery: Run, words: list[str], problem: str) -> None:
    refused = recovery(*words)

    assert refused.exit_code == 2
    assert refused.stderr.startswith("Error: ")
    assert problem in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert refused.stdout == ""
    assert cluster.target is None


@pytest.mark.parametrize(
    "words",
    [["plam"], ["plan", "--al-offline"], ["plan", "--output", "xml"], ["plan", "-q", "-v"], ["plan", "-v", "-q"]],
)
def test_a_word_nobody_knows(recovery: Run, words: list[str]) -> None:
    refused = recovery(*words)

    assert refused.exit_code == 2
    assert "Error: " in refused.stderr
    assert refused.stdout == ""


def test_why_no_broker_answers_can_be_looked_into() -> None:
    """-v is of its command alone: the next one in the same process tells nothing."""
    words = ["inspect", "--bootstrap-server", "127.0.0.1:1"]

    told, silent = CliRunner().invoke(main.app, [*words, "-v"]), CliRunner().invoke(main.app, words)

    assert (told.exit_code, silent.exit_code) == (3, 3)
    assert re.search(r" ms  127.0.0.1:1: connecting, in plaintext\n", told.stderr)
    assert re.search(r" ms  not connected: 127.0.0.1:1: connection refused\n", told.stderr)
    assert told.stdout == ""
    assert "connecting" not in silent.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--bootstrap-controller", "kafka-1"], "--bootstrap-controller: "),
        (["--controller-config", "reader.properties"], "--controller-config reader.properties: name controllers"),
        (["--bootstrap-controller", "c:1", "--controller-config", "/nowhere"], "/nowhere: No such file or directory"),
    ],
)
def test_controllers_that_cannot_be_asked_are_refused_before_anything_is_sent(words: list[str], problem: str) -> None:
    refused = CliRunner().invoke(main.app, [*PLAN, "--bootstrap-server", "kafka-1:9092", *words])

    assert refused.exit_code == 2
    assert problem in refused.stderr


@pytest.mark.parametrize("address", ["kafka-1:99999", "kafka-1:9092,kafka-2:0"])
def test_a_port_that_does_not_exist_is_said_to_be_what_is_wrong(address: str) -> None:
    refused = CliRunner().invoke(main.app, ["plan", "--partition", "a-1", "--bootstrap-server", address])

    assert refused.exit_code == 2
    bad = address.split(",")[-1]
    port = bad.split(":")[1]
    assert refused.stderr == (
        f"Error: --bootstrap-server: {bad!r}: there is no port {port}; write host:port with a port from 1 to 65535\n"
    )


def test_explain_wants_a_plan_or_a_cluster() -> None:
    refused = CliRunner().invoke(main.app, ["explain", "orders-17"])

    assert refused.exit_code == 2
    assert refused.stderr == (
        "Error: nothing to explain is named; give --plan FILE or --plan DIGEST, or --bootstrap-server to look now\n"
    )


def test_a_policy_s_problems_are_a_line_each(recovery: Run, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("rules:\n- name: a\n  tier: 99\n  aproval: x\n")

    refused = recovery.refuses(*PLAN, "--policy", policy)

    assert refused.splitlines() == [
        f"Error: {policy}:3: rules[0].tier: must be a whole number from 1 to 9 (got 99)",
        f"Error: {policy}:4: rules[0].aproval: is an unknown field; did you mean approval?",
    ]


def test_that_a_command_holds_no_pods_back_and_keeps_no_reasons_is_said_and_its_plan_promises_neither(
    cluster: SmallCluster, recovery: Run, tmp_path: Path
) -> None:
    cluster.offline("orders-17", {2: 27})
    policy = tmp_path / "policy.yaml"
    policy.write_text("holdBack: pods\nrequireReason: true\nrules: [{name: a}]\n")

    planned = recovery("plan", "--partition", "orders-17", "--policy", policy)

    assert f"{policy}: holdBack: pods has no effect here: only the operator holds Pods back." in planned.stderr
    assert f"{policy}: requireReason has no effect here: only the operator reads approvals" in planned.stderr
    assert "holdBack: pods" not in planned.stdout


def test_a_file_that_is_not_text(recovery: Run, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_bytes(b"rules: \xff")

    assert "is not UTF-8 text (byte 7)" in recovery(*PLAN, "--policy", policy).stderr


def test_a_byte_order_mark_is_no_part_of_a_file(cluster: SmallCluster, recovery: Run, tmp_path: Path) -> None:
    cluster.offline("orders-17", {2: 27})
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions": [{"topic": "orders", "partitions": [17]}]}', encoding="utf-8-sig")

    assert "This plan would elect broker 2" in recovery("plan", "--path-to-json-file", file).stdout


def test_a_file_that_powershell_wrote_gets_an_advice(recovery: Run, tmp_path: Path) -> None:
    file = tmp_path / "partitions.json"
    file.write_text("{}", encoding="utf-16")

    refused = recovery.refuses("plan", "--path-to-json-file", file)

    assert refused == f"Error: {file}: is UTF-16 text, as PowerShell writes it; save it as UTF-8\n"


@pytest.mark.parametrize("words", [["execute"], ["explain", "orders-17", "--plan"]])
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("# ours\nrules:\n- name: a\n  approval: AutoApprove\n", "is a policy; it is given with --policy"),
        ("apiVersion: kafka-recovery.dev/v1alpha1\nkind: RecoveryPolicy\n", "is a policy"),
        ('{"rules": [{"name": "a"}]}', "is a policy"),
        ('{"kind": "RecoveryReport", "outcomes": []}', "is the report of a recovery"),
        ('{"cluster": {}, "partitions": [], "missing": []}', "is evidence, as inspect shows it"),
    ],
)
def test_another_file_where_a_plan_is_wanted_is_called_by_its_name(
    cluster: SmallCluster, recovery: Run, tmp_path: Path, words: list[str], text: str, what: str
) -> None:
    file = tmp_path / "given"
    file.write_text(text)

    refused = recovery.refuses(*words, file)

    assert f"Error: {file}: {what}" in refused
    assert refused.count("\n") == 1
    assert cluster.target is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"kind": "RecoveryPlan"}', "is not a plan"),
        ('{"kind": "Other", "plan": {}}', "is not a plan"),
        ('{"formatVersion": 1, "kind": "RecoveryPlan", "plan": {}}', "evidence: Field required"),
        ('{"formatVersion": 1, "kind": "RecoveryPlan", "plan": 7}', "plan.json"),
        ('{"partitions": []}', "partitions: must be a list with at least one entry"),
        ('{"partitions": [{"topic": "a", "partitions": [0]}]}', "names partitions but no leaders; use recover"),
        ("{", "line 1, column 2: not JSON"),
        ("[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_file_that_can_t_be_executed(
    cluster: SmallCluster, recovery: Run, tmp_path: Path, text: str, problem: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)

    assert problem in recovery.refuses("execute", file)
    assert cluster.target is None


def test_a_plan_of_another_format_is_refused(cluster: SmallCluster, recovery: Run, tmp_path: Path) -> None:
    """A field may mean something else there."""
    cluster.offline("orders-17", {2: 27})
    file = tmp_path / "plan.json"
    assert recovery(*PLAN, "--out", file).exit_code == 0
    file.write_text(file.read_text().replace('"formatVersion": 1', '"formatVersion": 2', 1))

    assert "has formatVersion 2; this release reads 1: make a new plan" in recovery.refuses("execute", file)


def test_a_plan_that_was_edited_is_refused(cluster: SmallCluster, recovery: Run, tmp_path: Path) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})
    file = tmp_path / "plan.json"
    recovery(*PLAN, "--out", file)
    document = json.loads(file.read_text())
    document["plan"]["decisions"][0]["leader"] = 3
    file.write_text(json.dumps(document))

    refused = recovery.refuses("execute", file, "--plan", document["digest"], "--yes")

    assert "the plan was changed after it was made" in refused
    assert cluster.changes == []


def test_a_wrong_client_configuration_is_named_without_its_secrets(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-999\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="u" password="s3cr3t";\n'
    )

    refused = CliRunner().invoke(main.app, ["inspect", "--bootstrap-server", "k:1", "--command-config", str(config)])

    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"Error: {config}: sasl.mechanism")
    assert "s3cr3t" not in refused.output


def test_an_error_nobody_expected_shows_its_trace_but_no_secret_and_exits_with_70() -> None:
    program = (
        "import sys; from unit.cli.small_cluster import SmallCluster\n"
        "from kafka_recovery.cli import main; from kafka_recovery.cli.terminal import running\n"
        "password = 's3cr' + '3t'\n"
        "cluster = SmallCluster(); cluster.problem = ZeroDivisionError('a \\x1b[2Jbug')\n"
        "running.leave(lambda: main.app(obj=cluster.open))\n"
    )
    with Forked(program, "inspect", "--bootstrap-server", "kafka-1:9092") as process:
        shown, said = process.communicate(timeout=60)

    assert process.returncode == 70
    assert "Traceback" in said
    assert "ZeroDivisionError: a \\x1b[2Jbug" in said
    assert "\x1b" not in said
    assert "s3cr3t" not in said
    assert shown == ""


def test_a_reader_that_closes_the_pipe_early_is_no_error() -> None:
    program = (
        "from unit.cli.small_cluster import SmallCluster\n"
        "from kafka_recovery.cli import main; from kafka_recovery.cli.terminal import running\n"
        "cluster = SmallCluster()\n"
        "for number in range(3000): cluster.offline(f'orders-{number}', {2: 27})\n"
        "running.leave(lambda: main.app(obj=cluster.open))\n"
    )
    with Forked(program, "inspect", "--bootstrap-server", "kafka-1:9092", "--output", "json") as process:
        process.stdout.read(1)
        process.stdout.close()
        said = process.stderr.read()
        process.wait(timeout=60)

    assert process.returncode == 0
    assert said == "asking the brokers (deadline 5 s, 3 attempts)\n"


def test_the_journal_s_place_follows_the_xdg_specification(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")

    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert journal_directory(None) == Path("/var/state/kafka-recovery")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert journal_directory(None) == Path("/home/ann/.local/state/kafka-recovery")
    assert journal_directory(Path("here")) == Path("here")
