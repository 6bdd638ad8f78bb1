"""Both commands on one real cluster, typed as a person would, with what they print pasted into the next one."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from brokers.conftest import PROXIED, Command
from brokers.forked import running, until_said
from testbed.cluster import RealKafka
from testbed.metadata import PartitionState
from testbed.scenarios import OfflineTopic
from testbed.warm import WarmKafka
from unit.documents import fitting

pytestmark = pytest.mark.brokers
GROUP = "proxied"

TOOL, KIP_TOOL = "kafka-recovery", "kafka-unclean-recovery"
SURVIVORS = {2: 27, 3: 15}
"""Broker 2 wrote more, broker 3 led later."""
BEST = 3
ORIGINAL = (1, 2, 3)
MANY = range(10, 65)
"""Partitions for two waves of the KIP's tool; each of the others belongs to one test."""
AUTOMATIC = "limits: {brokersDownPercent: 100}\nrules: [{name: everything, approval: AutoApprove}]\n"


class Site:
    """A divergent cluster and its offline partitions."""

    def __init__(self, kafka: RealKafka, orders: OfflineTopic) -> None:
        self.kafka, self.orders = kafka, orders
        self.reach = ("--bootstrap-server", kafka.bootstrap)

    def state(self, partition: int) -> PartitionState:
        return self.kafka.describe("orders")[partition]

    def is_recovered(self, partition: int) -> bool:
        """Led by the best replica, in the original order, with every record that it held."""
        state = self.state(partition)
        return (
            (state.leader, state.replicas) == (BEST, ORIGINAL)
            and self.kafka.leader_answers("orders", partition, BEST)
            and self.kafka.consume("orders", partition) == list(self.orders[partition].held[BEST])
        )


@pytest.fixture(scope="module")
def site(warm: WarmKafka) -> Iterator[Site]:
    with warm.lent(**PROXIED) as kafka:
        yield Site(kafka, kafka.offline_partition("orders", survivors=SURVIVORS, partitions=MANY.stop))


@pytest.fixture
def automatic(tmp_path: Path) -> str:
    (tmp_path / "automatic.yaml").write_text(AUTOMATIC)
    return str(tmp_path / "automatic.yaml")


def on(partition: int) -> tuple[str, str]:
    return ("--partition", f"orders-{partition}")


def partition_file(path: Path, *partitions: int, **others: Sequence[int]) -> str:
    """The KIP's file for partitions of orders, and of other topics."""
    entries = [{"topic": topic, "partitions": list(p)} for topic, p in {"orders": partitions, **others}.items()]
    path.write_text(json.dumps({"partitions": entries}))
    return str(path)


def pasted(command: Command, printed: str, before: str) -> subprocess.CompletedProcess[str]:
    """Run the command line that was printed after these words."""
    (line,) = [line for line in printed.splitlines() if before in line]
    return command(*shlex.split(line.split(before)[1]))


def test_an_incident_from_the_first_look_to_the_last(site: Site, command: Command, tmp_path: Path) -> None:
    """inspect, explain, plan, execute as the plan says; then nothing is left to resume or to undo."""
    plan = str(tmp_path / "my plan.json")
    before = site.state(0)

    inspected = command(TOOL, "inspect", *site.reach, *on(0))
    explained = command(TOOL, "explain", "orders-0", *site.reach)
    planned = command(TOOL, "plan", *site.reach, *on(0), "--out", plan)
    explained_again = command(TOOL, "explain", "orders-0", "--plan", plan)
    untouched = site.state(0)
    executed = pasted(command, planned.stdout, "Next: ")

    assert [done.returncode for done in (inspected, explained, planned, explained_again)] == [0, 0, 0, 0]
    assert re.search(r"orders-0 +\d+ +2 .* 27 ", inspected.stdout)
    assert re.search(r"orders-0 +\d+ +3 .* 15 ", inspected.stdout)
    assert "orders-0: Elect broker 3 (rule default, LeastLoss)" in explained.stdout
    assert "orders-0: Elect broker 3 (rule default, LeastLoss)" in explained_again.stdout
    assert "This plan would elect broker " in planned.stdout
    assert untouched == before
    assert executed.returncode == 0, executed.stderr
    assert "1 of 1 partitions have a leader that answers." in executed.stdout
    assert site.is_recovered(0)

    resumed = command(TOOL, "resume", *site.reach)
    undone = command(TOOL, "undo", *site.reach)
    again = pasted(command, planned.stdout, "Next: ")

    assert (resumed.returncode, undone.returncode) == (0, 0)
    assert "Nothing to undo" in undone.stdout
    assert again.returncode == 2
    assert "has been executed to its end; make a new plan" in again.stderr
    assert site.is_recovered(0)


def test_recover_asks_for_approval_and_says_how_to_give_it(site: Site, command: Command) -> None:
    before = site.state(1)

    asked = command(TOOL, "recover", *site.reach, *on(1))
    untouched = site.state(1)
    approved = pasted(command, asked.stderr, "To approve exactly this plan: ")

    assert asked.returncode == 4, asked.stderr
    assert untouched == before
    assert approved.returncode == 0, approved.stderr
    assert site.is_recovered(1)


@pytest.mark.parametrize(("form", "load"), [("json", json.loads), ("yaml", yaml.safe_load)], ids=["json", "yaml"])
def test_programs_read_every_result_and_nothing_else_on_stdout(
    form: str, load: Callable[[str], Any], site: Site, command: Command, automatic: str
) -> None:
    partition = {"json": 2, "yaml": 3}[form]
    id, output = ["orders", partition], ("--output", form)

    evidence = fitting("evidence", load(command(TOOL, "inspect", *site.reach, *on(partition), *output).stdout))
    plan = fitting("plan", load(command(TOOL, "plan", *site.reach, *on(partition), *output).stdout))
    explained = load(command(TOOL, "explain", f"orders-{partition}", *site.reach, *output).stdout)
    recovered = load(command(TOOL, "recover", *site.reach, *on(partition), "--policy", automatic, *output).stdout)
    explanation, report = fitting("explanation", explained), fitting("report", recovered)
    nothing = [load(command(TOOL, name, *site.reach, *output).stdout) for name in ("resume", "undo")]

    assert [found["id"] for found in evidence["partitions"]] == [id]
    assert (plan["kind"], [made["leader"] for made in plan["plan"]["decisions"]]) == ("RecoveryPlan", [BEST])
    assert (explanation["id"], explanation["leader"]) == (id, BEST)
    assert report["kind"] == "RecoveryReport"
    assert [(done["id"], done["outcome"], done["leader"]) for done in report["outcomes"]] == [(id, "Recovered", BEST)]
    assert [left["outcomes"] for left in nothing] == [[], []]
    assert site.is_recovered(partition)


def test_only_the_plan_that_was_read_is_executed(site: Site, command: Command, tmp_path: Path) -> None:
    """Another digest, a changed file, a file whose digest was changed with it: approval holds for one plan."""
    before = site.state(4)
    sound, tampered, forged = (tmp_path / name for name in ("sound.json", "tampered.json", "forged.json"))
    assert command(TOOL, "plan", *site.reach, *on(4), "--out", str(sound)).returncode == 0
    document = json.loads(sound.read_text())
    approved = document["digest"]
    document["plan"]["decisions"][0] |= {"leader": 2, "order": [2, 3, 1]}
    tampered.write_text(json.dumps(document))
    found = re.search("[0-9a-f]{64}", command(TOOL, "execute", str(tampered), *site.reach).stderr)
    assert found
    forged.write_text(json.dumps(document | {"digest": found[0]}))

    def execute(file: Path, *words: str) -> tuple[int, str]:
        done = command(TOOL, "execute", str(file), *site.reach, *words)
        return done.returncode, done.stderr

    unapproved, wrong = execute(sound), execute(sound, "--plan", "0" * 64, "--yes")
    changed, replaced = execute(tampered, "--plan", approved, "--yes"), execute(forged, "--plan", approved, "--yes")

    assert (unapproved[0], wrong[0], changed[0], replaced[0]) == (4, 4, 2, 4)
    assert f"--plan names {'0' * 64}, another plan" in wrong[1]
    assert "the plan was changed after it was made" in changed[1]
    assert f"has the digest {found[0]}; --plan names {approved}, another plan" in replaced[1]
    assert site.state(4) == before
    assert execute(sound, "--plan", approved, "--yes")[0] == 0
    assert site.is_recovered(4)


def test_leaders_that_the_kip_s_tool_designates_are_executed_as_they_stand(
    site: Site, command: Command, tmp_path: Path, automatic: str
) -> None:
    leaders = tmp_path / "leaders.json"
    words = ("--path-to-json-file", partition_file(tmp_path / "partitions.json", 5, 6))
    written = command(KIP_TOOL, *site.reach, *words, "--manual-recovery-output-file", str(leaders))
    designated = json.loads(leaders.read_text())
    untouched = [site.state(partition).leader for partition in (5, 6)]
    designated["partitions"][1]["designatedLeader"] = 2
    leaders.write_text(json.dumps(designated))

    unasked = command(TOOL, "execute", str(leaders), *site.reach)
    executed = command(TOOL, "execute", str(leaders), *site.reach, "--policy", automatic)

    assert written.returncode == 0, written.stderr
    assert designated["partitions"][0] == {"topic": "orders", "partition": 5, "designatedLeader": BEST}
    assert untouched == [None, None]
    assert unasked.returncode == 4
    assert executed.returncode == 0, executed.stderr
    assert site.is_recovered(5)
    assert (site.state(6).leader, site.state(6).replicas) == (2, ORIGINAL)


class TestTheToolOfTheKip:
    def test_it_shows_recovers_and_counts_what_is_online_already_as_success(
        self, site: Site, command: Command, tmp_path: Path
    ) -> None:
        file = partition_file(tmp_path / "partitions.json", 7)
        words = (KIP_TOOL, *site.reach, "--path-to-json-file", file)

        first = command(*words, "--automated-recovery", "--show-replica-info")
        again = command(*words, "--automated-recovery")
        nothing_to_write = command(*words, "--manual-recovery-output-file", str(tmp_path / "leaders.json"))

        assert first.returncode == 0, first.stderr
        assert re.search(r"orders-7 +\d+ +2 .* 27 ", first.stdout)
        assert f"orders-7: broker {BEST} elected, log end 15" in first.stdout
        assert (again.returncode, again.stdout) == (0, f"orders-7: already online, broker {BEST} leads\n")
        assert nothing_to_write.returncode == 0
        assert "orders-7: already online" in nothing_to_write.stderr
        assert not (tmp_path / "leaders.json").exists()
        assert site.is_recovered(7)

    def test_a_cluster_that_is_not_there_is_named(self, command: Command) -> None:
        words = ("--automated-recovery", "--all-offline-partitions", "--recovery-duration-ms", "1000")
        failed = command(KIP_TOOL, "--bootstrap-server", "127.0.0.1:1", *words)

        assert (failed.returncode, failed.stdout) == (3, "")
        assert "127.0.0.1:1: connection refused" in failed.stderr

    def test_sigterm_ends_it_in_good_order_and_the_next_run_does_the_rest(
        self, site: Site, command: Command, tmp_path: Path
    ) -> None:
        file = partition_file(tmp_path / "partitions.json", *MANY)
        words = (*site.reach, "--path-to-json-file", file, "--automated-recovery")
        state_home = {"XDG_STATE_HOME": str(tmp_path / "state")}  # where `command` keeps its journals
        with running(KIP_TOOL, *words, environment=state_home) as process:
            until_said(process.stderr, "wave 1 of 2")
            process.process.send_signal(signal.SIGTERM)
            shown, rest = process.communicate()
        states = site.kafka.describe("orders")
        led = [partition for partition in MANY if states[partition].leader is not None]

        assert process.returncode == 128 + signal.SIGTERM, rest
        assert len(led) == 50
        assert all(f"orders-{partition}: broker" in shown for partition in led)
        assert {states[partition].replicas for partition in MANY} == {ORIGINAL}

        finished = command(KIP_TOOL, *words)

        assert finished.returncode == 0, finished.stderr
        # The 50 that the run before elected are told as elected too: none of them was online by itself.
        assert finished.stdout.count("elected, log end") == len(MANY)
        assert {site.state(partition).leader for partition in (MANY.start, MANY.stop - 1)} == {BEST}
