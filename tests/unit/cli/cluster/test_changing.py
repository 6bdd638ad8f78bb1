"""execute, recover, resume and undo: who has to say yes, what is done then, and what the exit code says."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console, RenderableType

from kafka_recovery.cli.cluster.approvals import ApprovedDigest
from kafka_recovery.cli.cluster.changing import Site, conclude
from kafka_recovery.cli.cluster.plan_files import read_plan
from kafka_recovery.cli.cluster.wiring import Target
from kafka_recovery.cli.terminal.exit_codes import ExitCode
from kafka_recovery.cli.terminal.render import Output
from kafka_recovery.cli.terminal.signals import Interrupts
from kafka_recovery.cli.terminal.tables import report_table
from kafka_recovery.domain.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from kafka_recovery.domain.outcome import Outcome, PartitionOutcome, Report
from kafka_recovery.domain.plan import Plan
from kafka_recovery.domain.reason import Reason
from kafka_recovery.formats.documents import digest, read
from kafka_recovery.recovery.journal_files import FileJournal
from kafka_recovery.recovery.local_storage import local_journal
from kafka_recovery.recovery.ports import JournalUnwritable
from kafka_recovery.recovery.timing import Timing
from unit.cli.conftest import Run
from unit.cli.small_cluster import SmallCluster
from unit.documents import document


@pytest.fixture
def orders(cluster: SmallCluster) -> TopicPartition:
    return cluster.offline("orders-17", {2: 27, 3: 15})


@pytest.fixture
def plan_file(orders: TopicPartition, recovery: Run, tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    assert recovery("plan", "--all-offline-partitions", "--out", path).exit_code == 0
    return path


def digest_of(plan_file: Path) -> str:
    return str(json.loads(plan_file.read_text())["digest"])


def test_an_approved_plan_is_executed_and_the_order_restored(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, plan_file: Path
) -> None:
    done = recovery("execute", plan_file, "--plan", digest_of(plan_file), "--yes")

    assert done.exit_code == 0
    assert cluster.leader(orders) == 2
    assert cluster.assignment(orders) == (1, 2, 3)
    assert "orders-17  Recovered  2       8      27" in done.stdout
    planned = " ".join(done.stdout.split())
    assert f"When plan {digest_of(plan_file)[:12]} was made: Electing as planned may lose" in planned
    assert "wave 1 of 1: 1 partition" in done.stderr
    assert (
        "DO NOT START BROKER 1 YET, NOR LET ANYTHING START IT: "
        "it may hold records that the new leaders lack. Before broker 1 is started, copy "
        "its directory of orders-17: on joining, it deletes every record that the leader lacks. "
        "1. Copy its directories of orders-17 on broker 1, to a place outside log.dirs. 2. Start broker 1 " in planned
    )
    assert "Before a broker is started that was away" not in done.stderr, "it is named"


def test_the_end_of_a_run_says_who_is_not_to_lead_a_tiered_topic(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, tmp_path: Path
) -> None:
    cluster.tiered, path = True, tmp_path / "tiered.json"
    shown = recovery("plan", "--all-offline-partitions", "--out", path)
    done = recovery("execute", path, "--plan", digest_of(path), "--yes")

    assert "Tier deleted below a moved log start" in " ".join(shown.stdout.split())
    warning = "TIERED TOPIC: do not let broker 1 lead orders-17 before you know that its log start is no later"
    assert warning in " ".join(done.stdout.split())


def test_a_plan_nobody_approved_is_not_executed(cluster: SmallCluster, recovery: Run, plan_file: Path) -> None:
    refused = recovery.refuses("execute", plan_file, code=4)

    command = f"kafka-recovery execute {plan_file} --plan {digest_of(plan_file)} --yes --bootstrap-server kafka-1:9092"
    assert refused == f"Error: {plan_file} needs approval. Once you have read it: {command}\n"
    assert cluster.changes == []


def test_another_plan_s_approval_is_not_this_one_s(cluster: SmallCluster, recovery: Run, plan_file: Path) -> None:
    refused = recovery.refuses("execute", plan_file, "--plan", "0" * 64, "--yes", code=4)

    assert f"--plan names {'0' * 64}, another plan" in refused
    assert cluster.changes == []


def test_to_name_a_plan_is_no_yes_to_it(
    cluster: SmallCluster, recovery: Run, plan_file: Path, orders: TopicPartition
) -> None:
    """Of a file and of the journal alike; the command that is told says it."""
    of_file = recovery("execute", plan_file, "--plan", digest_of(plan_file))
    (kept,) = document("report", recovery("recover", "--all-offline-partitions", "--output", "json").stdout)[
        "unapproved"
    ]
    named = kept["digest"]
    of_journal = recovery("execute", "--plan", named)

    assert (of_file.exit_code, of_journal.exit_code) == (4, 4)
    assert of_file.stderr.startswith(f"Error: {plan_file} needs approval. Once you have read it: ")
    command = f"kafka-recovery execute --plan {named} --yes --bootstrap-server kafka-1:9092"
    assert of_journal.stderr.startswith(f"Error: plan {named} needs approval. Once you have read it: {command}")
    assert cluster.leader(orders) is None
    assert cluster.changes == []


def test_a_yes_names_the_plan_that_was_read(cluster: SmallCluster, recovery: Run, plan_file: Path) -> None:
    refused = recovery.refuses("execute", plan_file, "--yes")

    assert refused == "Error: --yes says yes to a plan that was read: name it with --plan DIGEST\n"
    assert cluster.changes == []


def test_a_plan_that_its_policy_approves_needs_nobody(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, automatic: Path, tmp_path: Path
) -> None:
    path = tmp_path / "plan.json"
    shown = recovery("plan", "--all-offline-partitions", "--policy", automatic, "--out", path)

    done = recovery("execute", path)

    assert "--yes" not in shown.stdout
    said = " ".join(shown.stdout.split())
    assert "WITHOUT anybody's yes, once you execute this plan, and not before. To stop that: press" in said
    assert f"TO CARRY IT OUT: kafka-recovery execute {path} --bootstrap-server kafka-1:9092 " in said
    assert done.exit_code == 0
    assert cluster.leader(orders) == 2


MIXED = """
rules:
- name: payments
  topics: {names: [payments]}
- name: everything
  approval: AutoApprove
"""


def test_off_a_terminal_what_needs_no_approval_begins_and_the_log_says_so(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, tmp_path: Path
) -> None:
    payments = cluster.offline("payments-0", {2: 27, 3: 15})
    policy = tmp_path / "mixed.yaml"
    policy.write_text(MIXED)

    done = recovery("recover", "--all-offline-partitions", "--policy", policy)

    said = " ".join(done.stderr.split())
    assert "UNASKED: leaders of orders-17 are elected WITHOUT anybody's yes, now. To stop that: " in said
    assert (cluster.leader(orders), cluster.leader(payments)) == (2, None)


@pytest.mark.parametrize("how", ["recover", "a file", "the journal"])
def test_a_plan_that_opens_with_not_to_approve_it_ends_with_what_to_do_first(
    cluster: SmallCluster, recovery: Run, tmp_path: Path, how: str
) -> None:
    cluster.offline("orders-17", {2: 0})
    path = tmp_path / "plan.json"
    if how == "a file":
        recovery("plan", "--all-offline-partitions", "--out", path)
        named, refused = f"{path} --plan {digest_of(path)}", recovery("execute", path)
    else:
        recovered = recovery("recover", "--all-offline-partitions", "--output", "json")
        named = f"--plan {json.loads(recovered.stdout)['unapproved'][0]['digest']}"
        refused = recovered if how == "recover" else recovery("execute", *named.split())

    *_, first, last = refused.stderr.replace(" Only if no other", "\nOnly if no other").splitlines()
    assert refused.exit_code == 4
    assert "DO NOT APPROVE. Broker 2 is EMPTY: it holds no record of orders-17." in first
    assert first.endswith("can start with its own disk.")
    assert last.startswith(
        f"Only if no other copy is left: kafka-recovery execute {named} --yes --bootstrap-server kafka-1"
    )
    assert "To approve exactly this plan" not in refused.stderr
    assert "Once you have read it" not in refused.stderr


def test_that_a_plan_was_stopped_is_not_told_of_elections_that_were_held_unasked(
    cluster: SmallCluster, recovery: Run, tmp_path: Path
) -> None:
    cluster.offline("orders-17", {2: 0})
    cluster.offline("payments-0", {2: 27, 3: 15})
    policy = tmp_path / "mixed.yaml"
    policy.write_text(MIXED)

    done = recovery("recover", "--all-offline-partitions", "--policy", policy, "--output", "json")

    assert document("report", done.stdout)["unapproved"][0]["stop"] == []
    assert done.stderr.splitlines()[-1].startswith("To approve exactly this plan: kafka-recovery execute --plan ")


def test_a_plan_is_executed_under_the_policy_it_was_made_under(
    cluster: SmallCluster, recovery: Run, plan_file: Path, automatic: Path
) -> None:
    refused = recovery.refuses("execute", plan_file, "--plan", digest_of(plan_file), "--yes", "--policy", automatic)

    assert f"--policy {automatic} is not the policy the plan was made under" in refused
    assert cluster.changes == []


def test_a_plan_for_another_cluster_is_refused(cluster: SmallCluster, recovery: Run, plan_file: Path) -> None:
    cluster.id = "another"

    refused = recovery.refuses("execute", plan_file, "--plan", digest_of(plan_file), "--yes")

    assert "belongs to cluster another, expected lk3uXe8CSIqRTHM1qPHJFw" in refused
    assert cluster.changes == []


def test_a_plan_ends_once(cluster: SmallCluster, recovery: Run, plan_file: Path) -> None:
    recovery("execute", plan_file, "--plan", digest_of(plan_file), "--yes")
    cluster.offline("orders-17", {2: 27, 3: 15})

    again = recovery.refuses("execute", plan_file, "--plan", digest_of(plan_file), "--yes")

    assert "has been executed to its end" in again
    assert len(cluster.changes) == 2


def test_without_a_terminal_recover_asks_for_the_command_that_approves(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition
) -> None:
    refused = recovery("recover", "--all-offline-partitions")

    assert refused.exit_code == 4
    assert cluster.changes == []
    found = re.search(
        r"kafka-recovery (execute --plan ([0-9a-f]{64}) --yes) --bootstrap-server kafka-1:9092\n", refused.stderr
    )
    assert found
    assert f"Digest: {found[2]}" in refused.stderr  # the plan itself stands above, for whoever reads the log

    done = recovery(*found[1].split())

    assert done.exit_code == 0
    assert cluster.leader(orders) == 2


@pytest.mark.parametrize("program", ["kafka-recovery", "kafka-unclean-recovery"])
def test_who_wants_quiet_hears_of_no_wave(
    cluster: SmallCluster, recovery: Run, unclean: Run, automatic: Path, program: str
) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})

    if program == "kafka-recovery":
        done = recovery("recover", "--all-offline-partitions", "--policy", automatic, "-q")
    else:
        done = unclean("--all-offline-partitions", "--automated-recovery", "-q")

    assert done.exit_code == 0, done.output
    assert "wave" not in done.stderr
    assert "orders-17" in done.stdout


@pytest.mark.parametrize(("form", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_a_program_learns_what_to_have_approved_and_where_it_lies(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, form: str, load: Callable[[str], Any]
) -> None:
    refused = recovery("recover", "--all-offline-partitions", "--output", form)

    assert refused.exit_code == 4
    (lacking,) = load(refused.stdout)["unapproved"]
    plan = read(Plan, Path(lacking["file"]).read_bytes(), "the plan")
    assert lacking["digest"] == digest(plan)
    done = recovery(*shlex.split(lacking["command"])[1:5], "--output", form)

    assert (done.exit_code, load(done.stdout)["unapproved"]) == (0, [])
    assert cluster.leader(orders) == 2


@pytest.mark.parametrize("approve", [[], ["--plan", "0" * 64, "--yes"]])
def test_a_program_learns_the_digest_of_a_plan_file_as_well(recovery: Run, plan_file: Path, approve: list[str]) -> None:
    refused = recovery("execute", plan_file, *approve, "--output", "json")

    assert refused.exit_code == 4
    (lacking,) = document("report", refused.stdout)["unapproved"]
    assert (lacking["digest"], lacking["file"]) == (digest_of(plan_file), str(plan_file))


def test_a_resumed_run_that_lacks_its_approval_names_its_plan(
    cluster: SmallCluster, recovery: Run, plan_file: Path, journal: Path
) -> None:
    begun(cluster, plan_file, journal, None)

    refused = recovery("resume", "--output", "json")

    assert refused.exit_code == 4
    assert [plan["digest"] for plan in document("report", refused.stdout)["unapproved"]] == [digest_of(plan_file)]


def test_a_leader_that_answers_is_counted_whatever_its_outcome_is_called(
    orders: TopicPartition,
) -> None:
    """Somebody else's election came first; what is behind the plan is no recovery, but it does lead."""
    shorter = PartitionOutcome(
        orders, Outcome.FAILED, Reason("LeaderBehindPlan", "15 of 27"), BrokerId(3), LeaderEpoch(8), Offset(15)
    )
    silent = PartitionOutcome(
        TopicPartition("pay", 0), Outcome.FAILED, Reason("LeaderUnresponsive", "by the metadata only"), BrokerId(2)
    )

    assert shown(report_table(Report((shorter, silent)))).endswith(
        "Partitions: 0 of 2 recovered, 2 failed; 1 without a leader that was seen to answer\n"
        "Elected uncleanly: none. 2 failed or are unknown: look who leads them.\n"
        "1 of 2 partitions have a leader that answers; 1 of them not as planned, see above.\n"
    )


async def test_only_the_plan_that_was_read_is_approved(plan_file: Path) -> None:
    """Whatever plan the engine comes to make."""
    plan, digest = read_plan(plan_file.read_text(), str(plan_file)), digest_of(plan_file)
    asked = ApprovedDigest("0" * 64)

    assert await asked.granted(plan, digest) is None
    assert asked.missing == [digest]
    assert await ApprovedDigest(digest).granted(plan, digest)


def test_a_leader_whose_order_is_not_restored_makes_the_exit_code_1(orders: TopicPartition) -> None:
    led = PartitionOutcome(
        orders, Outcome.RECOVERED, None, BrokerId(2), LeaderEpoch(8), Offset(27), order_restored=False
    )
    site = Site(None, Target("kafka-1:9092"), None, Output.TABLE, Interrupts())

    assert conclude(site, Report((led,)), []) == ExitCode.NOT_RECOVERED


@pytest.mark.parametrize(
    ("outcome", "told"), [(Outcome.FAILED, True), (Outcome.IN_DOUBT, True), (Outcome.REFUSED, False)], ids=str
)
def test_whose_directories_to_copy_is_said_wherever_somebody_may_lead(
    orders: TopicPartition, capsys: pytest.CaptureFixture[str], outcome: Outcome, told: bool
) -> None:
    ended = PartitionOutcome(orders, outcome, Reason("LogShorter", "the leader's log is shorter than planned"))

    conclude(Site(None, Target("kafka-1:9092"), None, Output.TABLE, Interrupts()), Report((ended,)), [])

    assert ("Before a broker is started that was away" in capsys.readouterr().err.replace("\n", " ")) is told


def test_leaders_that_a_person_designated_are_elected_once_approved(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, automatic: Path, tmp_path: Path
) -> None:
    file = tmp_path / "leaders.json"
    file.write_text('{"partitions": [{"topic": "orders", "partition": 17, "designatedLeader": 3}]}')

    asked = recovery("execute", file)
    digest_alone = recovery("execute", file, "--plan", "0" * 64, "--yes")
    done = recovery("execute", file, "--policy", automatic)

    assert asked.exit_code == 4
    assert digest_alone.exit_code == 2
    assert f"kafka-recovery plan --path-to-json-file {file} --out plan.json" in digest_alone.stderr
    assert done.exit_code == 0
    assert cluster.leader(orders) == 3


def test_two_recoveries_of_one_cluster_exclude_each_other(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, automatic: Path, journal: Path
) -> None:
    with local_journal(journal, cluster.id):
        refused = recovery("recover", "--all-offline-partitions", "--policy", automatic)

    assert refused.exit_code == 5
    assert "Error: another run" in refused.stderr
    assert cluster.changes == []


def test_a_journal_that_can_t_be_written_stops_everything_before_it_begins(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, automatic: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")

    refused = recovery.refuses("recover", "--all-offline-partitions", "--policy", automatic, "--journal", file, code=5)

    assert "Error: the journal can't be written" in refused
    assert cluster.changes == []


def test_a_run_that_was_cut_short_is_resumed(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, plan_file: Path, journal: Path
) -> None:
    begun(cluster, plan_file, journal, "ann")

    done = recovery("resume")
    again = recovery("resume")

    assert done.exit_code == 0
    assert cluster.leader(orders) == 2
    assert again.exit_code == 0
    assert "Nothing to do" in again.stdout


def test_a_stricter_policy_of_now_makes_a_resumed_run_ask(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, automatic: Path, tmp_path: Path, journal: Path
) -> None:
    file, strict = tmp_path / "plan.json", tmp_path / "strict.yaml"
    recovery("plan", "--all-offline-partitions", "--policy", automatic, "--out", file)
    strict.write_text("rules: [{name: everything, approval: ManualApprove}]")
    begun(cluster, file, journal, None)

    refused = recovery.refuses("resume", "--policy", strict, code=4)

    assert f"kafka-recovery execute --plan {digest_of(file)} --yes" in refused
    assert cluster.leader(orders) is None


def test_a_run_that_was_cut_short_is_undone(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, plan_file: Path, journal: Path
) -> None:
    begun(cluster, plan_file, journal, "ann")

    undone = recovery("undo")
    again = recovery("undo", "--output", "json")

    assert undone.exit_code == 0
    assert "orders-17  restored" in undone.stdout
    assert cluster.leader(orders) is None
    assert json.loads(again.stdout)["outcomes"] == []


def test_what_became_of_partitions_is_told_whatever_ends_the_run(
    recovery: Run, orders: TopicPartition, automatic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(self: FileJournal, *facts: object) -> None:
        raise JournalUnwritable("the journal can't be written: free some space")

    monkeypatch.setattr(FileJournal, "wave_ended", full)

    ended = recovery("recover", "--all-offline-partitions", "--policy", automatic)

    assert ended.exit_code == 5
    assert re.search(r"orders-17\s+Recovered", ended.stdout)
    assert "free some space" in ended.stderr
    assert "To go on: kafka-recovery resume" in ended.stderr


def test_a_damaged_run_is_told_by_every_command_that_changes_something(
    cluster: SmallCluster, recovery: Run, orders: TopicPartition, automatic: Path, plan_file: Path, journal: Path
) -> None:
    begun(cluster, plan_file, journal, "ann")
    (directory,) = (journal / cluster.id).glob("*/")
    (directory / "plan.json").write_bytes(b"{}")

    commands = (
        recovery("recover", "--all-offline-partitions", "--policy", automatic),
        recovery("resume"),
        recovery("undo"),
    )

    for told in commands:
        assert f"then move {directory} away" in told.stderr
    assert [told.exit_code for told in commands] == [1, 5, 5]
    assert cluster.leader(orders) is None


def test_a_cluster_that_goes_away_in_the_middle_can_be_gone_on_with(
    cluster: SmallCluster,
    recovery: Run,
    orders: TopicPartition,
    automatic: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brief = timedelta(milliseconds=1)
    impatient = partial(Timing, verify=brief, verify_each=brief, rpc=brief, look=brief)
    monkeypatch.setattr("kafka_recovery.recovery.engine.Timing", impatient)

    def vanish(partitions: list[str]) -> None:
        cluster.vanished = Reason("BrokerUnreachable", "connection refused")

    cluster.before_election = vanish

    failed = recovery("recover", "--all-offline-partitions", "--policy", automatic)

    assert failed.exit_code == 1
    assert "InDoubt" in failed.stdout
    assert "To try again: kafka-recovery undo --bootstrap-server kafka-1:9092" in failed.stderr
    assert "none of 1 brokers answered" in failed.stdout


def shown(table: RenderableType) -> str:
    """As in a file."""
    console = Console(width=200, file=io.StringIO())
    with console.capture() as captured:
        console.print(table)
    return captured.get()


def begun(cluster: SmallCluster, plan_file: Path, journal: Path, by: str | None) -> None:
    """As a run leaves it that was killed before its first wave."""

    async def begin() -> None:
        plan = read_plan(plan_file.read_text(), str(plan_file))
        with local_journal(journal, cluster.id) as kept:
            await kept.record(plan)
            await kept.approved(digest(plan), by)

    asyncio.run(begin())


@pytest.mark.parametrize("words", [["execute", "plan.json"], ["recover", "--path-to-json-file", "leaders.json"]])
def test_a_plan_beside_which_a_better_one_can_be_had_is_given_no_command_that_approves_it(
    cluster: SmallCluster, recovery: Run, tmp_path: Path, words: list[str]
) -> None:
    cluster.offline("orders-17", {2: 27, 3: 15})
    leaders, plan = tmp_path / "leaders.json", tmp_path / "plan.json"
    leaders.write_text('{"partitions": [{"topic": "orders", "partition": 17, "designatedLeader": 3}]}')
    recovery("plan", "--path-to-json-file", leaders, "--out", plan)

    asked = recovery(*({"plan.json": plan, "leaders.json": leaders}.get(word, word) for word in words))

    told = " ".join(asked.stderr.split())
    assert asked.exit_code == 4
    assert "DO NOT APPROVE. Broker 3 was named" in told
    assert "--yes" not in told
    assert "To approve exactly this plan" not in told
