"""docs/how-to/acls.md on Kafka's StandardAuthorizer: what a principal can do without each of them, and what it hears.

Everything goes through the command line and a --command-config file, as with Kafka's own tools.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokers.conftest import GUARDED, Command
from brokers.forked import Running
from brokers.site import DESIGNATING, go_on, halted, halting, recovery
from testbed.access import Acl
from testbed.cluster import RealKafka
from testbed.metadata import PartitionState
from testbed.security import Credentials, Mechanism
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers
GROUP = "guarded"

TOOL = "kafka-recovery"
SURVIVORS = {2: 27, 3: 15}
BEST_BY_EPOCH, BEST_BY_LENGTH = 3, 2
ORIGINAL = (1, 2, 3)
PASSWORD = 'correct "horse" =\\battery'
TOPIC, CLUSTER = ("topic", "*"), ("cluster", "kafka-cluster")
EVERYTHING = {
    "describe": (*TOPIC, "describe"),
    "read": (*TOPIC, "read"),
    "configs": (*TOPIC, "describe_configs"),
    "identity": (*CLUSTER, "describe_configs"),
    "cluster": (*CLUSTER, "describe"),
    "alter": (*CLUSTER, "alter"),
    "action": (*CLUSTER, "cluster_action"),
}
"""The table of docs/how-to/acls.md, by a short name."""

PRINCIPALS = {
    "recovers": {"describe", "read", "configs", "identity", "cluster", "alter"},
    "looks": {"describe", "read", "configs", "identity", "cluster"},
    "implied": {"read", "configs", "alter"},
    "no-read": {"describe", "configs", "cluster", "alter"},
    "no-topic": {"cluster", "alter"},
    "no-configs": {"describe", "read", "cluster", "alter"},
    "no-cluster": {"describe", "read", "configs"},
    "robbed": {"describe", "read", "configs", "cluster", "alter"},
    "at-controllers": {"action"},
}
"""Who has which ACLs. READ implies DESCRIBE, ALTER implies DESCRIBE: so those who lack DESCRIBE lack these too."""
ROBBED_OF = [Acl("User:robbed", *EVERYTHING[acl]) for acl in ("describe", "read", "configs")]

LIMITS = "limits: {brokersDownPercent: 100}\n"
AUTOMATIC = LIMITS + "rules: [{name: everything, approval: AutoApprove, candidateOrder: EpochFirst}]\n"
LONGEST = LIMITS + "rules: [{name: everything, approval: AutoApprove, candidateOrder: LongestLog}]\n"


@pytest.fixture(scope="module")
def guarded(warm: WarmKafka) -> Iterator[RealKafka]:
    """Offline partitions: number 0 is only looked at, each test that elects has another one for itself."""
    with warm.lent(**GUARDED) as kafka:
        kafka.grant(
            *(Acl(f"User:{name}", *EVERYTHING[acl]) for name, acls in PRINCIPALS.items() for acl in sorted(acls))
        )
        for name in PRINCIPALS:
            kafka.add_scram_user(name, PASSWORD)
        kafka.offline_partition("orders", survivors=SURVIVORS, partitions=8, min_insync_replicas=1)
        yield kafka


Typed = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def as_user(guarded: RealKafka, command: Command, tmp_path: Path) -> Typed:
    """`as_user("looks", "plan", …)`: a command of that principal."""
    (tmp_path / "automatic.yaml").write_text(AUTOMATIC)
    (tmp_path / "longest.yaml").write_text(LONGEST)

    def typed(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        who = Credentials(Mechanism.SCRAM, name, PASSWORD)
        where = ("--bootstrap-server", guarded.bootstrap_for(Mechanism.SCRAM))
        done = command(TOOL, *words, *where, "--command-config", str(guarded.client_properties(who)))
        assert_no_secret(done, tmp_path)
        return done

    return typed


def assert_no_secret(done: subprocess.CompletedProcess[str], folder: Path, secret: str = PASSWORD) -> None:
    """Neither said nor kept, neither as it is nor as JSON or a properties file would write it."""
    kept = {str(path): path.read_text() for path in folder.rglob("*") if path.is_file()}
    for where, text in {"stdout": done.stdout, "stderr": done.stderr, **kept}.items():
        for form in (secret, json.dumps(secret)[1:-1], secret.replace("\\", "\\\\")):
            assert form not in text, f"the password is in {where}"


def state(kafka: RealKafka, partition: int) -> PartitionState:
    return kafka.describe("orders")[partition]


def decision_of(planned: subprocess.CompletedProcess[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The only decision, and the evidence about its partition."""
    assert planned.returncode == 0, planned.stderr
    plan = json.loads(planned.stdout)["plan"]
    return plan["decisions"][0], plan["evidence"]["partitions"][0]


def outcome_of(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    (outcome,) = json.loads(done.stdout)["outcomes"]
    return dict(outcome)


PLAN = ("plan", "--partition", "orders-0", "--output", "json")


def recover(partition: int, policy: Path) -> tuple[str, ...]:
    return ("recover", "--partition", f"orders-{partition}", "--policy", str(policy), "--output", "json")


def test_with_all_of_them_it_recovers(guarded: RealKafka, as_user: Typed, tmp_path: Path) -> None:
    done = as_user("recovers", *recover(1, tmp_path / "automatic.yaml"))

    assert done.returncode == 0, done.stderr
    assert outcome_of(done)["leader"] == BEST_BY_EPOCH
    assert (state(guarded, 1).leader, state(guarded, 1).replicas) == (BEST_BY_EPOCH, ORIGINAL)
    assert guarded.leader_answers("orders", 1, BEST_BY_EPOCH)
    assert list((tmp_path / "state").rglob("plan.json")), "what was searched for the password holds the journal"


def test_read_and_alter_imply_describe(guarded: RealKafka, as_user: Typed, tmp_path: Path) -> None:
    done = as_user("implied", *recover(2, tmp_path / "automatic.yaml"))

    assert done.returncode == 0, done.stderr
    assert (state(guarded, 2).leader, state(guarded, 2).replicas) == (BEST_BY_EPOCH, ORIGINAL)


class TestWithoutAlterOnTheCluster:
    def test_everything_is_seen_and_planned(self, as_user: Typed) -> None:
        inspected = as_user("looks", "inspect", "--partition", "orders-0", "--output", "json")
        decision, evidence = decision_of(as_user("looks", *PLAN))

        assert inspected.returncode == 0, inspected.stderr
        ends = {replica["broker"]: replica["log"] and replica["log"]["end"] for replica in evidence["replicas"]}
        assert ends == {1: None, **SURVIVORS}
        assert evidence["reassignment_known"]
        assert evidence["min_isr"]["value"] == 1
        assert (decision["verdict"], decision["leader"]) == ("Elect", BEST_BY_EPOCH)

    def test_nothing_can_be_elected_and_no_order_is_touched(
        self, guarded: RealKafka, as_user: Typed, tmp_path: Path
    ) -> None:
        before = state(guarded, 3)
        refused = as_user("looks", *recover(3, tmp_path / "automatic.yaml"))

        assert refused.returncode == 1, refused.stderr
        outcome = outcome_of(refused)
        assert (outcome["outcome"], outcome["order_restored"]) == ("Refused", True)
        assert "the principal lacks ALTER on the cluster" in outcome["reason"]["message"]
        assert "Request" not in outcome["reason"]["message"], "the broker's own text is a dump of the request"
        assert state(guarded, 3) == before


class TestWithoutReadOnTheTopic:
    def test_epoch_first_ranks_nobody_and_names_it(self, guarded: RealKafka, as_user: Typed, tmp_path: Path) -> None:
        before = state(guarded, 4)
        decision, evidence = decision_of(as_user("no-read", *PLAN))
        refused = as_user("no-read", *recover(4, tmp_path / "automatic.yaml"))

        assert decision["verdict"] == "Refuse"
        rejected = {rejection["broker"]: rejection["reason"]["message"] for rejection in decision["rejections"]}
        assert "READ on topic orders" in rejected[2]
        assert "READ on topic orders" in rejected[3]
        assert {r["broker"]: r["log"]["epochs"] for r in evidence["replicas"] if r["log"]} == {2: None, 3: None}
        assert refused.returncode == 1
        assert state(guarded, 4) == before

    def test_longest_log_still_ranks_by_log_end(self, guarded: RealKafka, as_user: Typed, tmp_path: Path) -> None:
        done = as_user("no-read", *recover(5, tmp_path / "longest.yaml"))

        assert done.returncode == 0, done.stderr
        assert outcome_of(done)["leader"] == BEST_BY_LENGTH
        assert (state(guarded, 5).leader, state(guarded, 5).replicas) == (BEST_BY_LENGTH, ORIGINAL)


def test_without_describe_on_the_topic_a_partition_is_refused_and_the_acl_named(
    guarded: RealKafka, as_user: Typed, tmp_path: Path
) -> None:
    before = state(guarded, 0)
    refused = as_user("no-topic", *recover(0, tmp_path / "automatic.yaml"))
    all_offline = as_user("no-topic", "inspect", "--all-offline-partitions")

    assert refused.returncode == 1, refused.stderr
    assert "lacks DESCRIBE on topic orders" in outcome_of(refused)["reason"]["message"]
    assert "no offline partitions" in all_offline.stdout
    assert state(guarded, 0) == before


def test_without_describe_configs_the_minimum_isr_is_unknown_and_nothing_else(as_user: Typed) -> None:
    decision, evidence = decision_of(as_user("no-configs", *PLAN))

    assert (evidence["min_isr"], evidence["unclean_election_enabled"], evidence["tiered"]) == (None, None, None)
    assert (decision["verdict"], decision["leader"]) == ("Elect", BEST_BY_EPOCH)


def test_without_describe_on_the_cluster_every_partition_is_refused(
    guarded: RealKafka, as_user: Typed, tmp_path: Path
) -> None:
    """A reassignment can't be excluded."""
    before = state(guarded, 0)
    refused = as_user("no-cluster", *recover(0, tmp_path / "automatic.yaml"))

    assert refused.returncode == 1, refused.stderr
    outcome = outcome_of(refused)
    assert outcome["reason"]["code"] == "AnswerIncomplete"
    assert "did not say whether" in outcome["reason"]["message"]
    assert "needs the DESCRIBE permission on the cluster" in outcome["reason"]["message"]
    assert state(guarded, 0) == before


class TestTopicRightsTakenAwayInTheMiddle:
    """Whoever keeps ACLs in Git may replace them at any moment: away as an election is sent, and back some time on."""

    @staticmethod
    @contextmanager
    def robbed(guarded: RealKafka, folder: Path, partition: int, steps: str, **timing: float) -> Iterator[Running]:
        """Its run, which goes on without them."""
        (folder / "automatic.yaml").write_text(AUTOMATIC)
        words = (*recover(partition, folder / "automatic.yaml"), *TestTopicRightsTakenAwayInTheMiddle.reach(guarded))
        with halting(steps, *words, "--journal", folder / "journal", timing=timing) as run:
            halted(run)
            guarded.revoke(*ROBBED_OF)
            go_on(run)
            yield run

    @staticmethod
    def reach(guarded: RealKafka) -> tuple[str, ...]:
        config = guarded.client_properties(Credentials(Mechanism.SCRAM, "robbed", PASSWORD))
        return "--bootstrap-server", guarded.bootstrap_for(Mechanism.SCRAM), "--command-config", str(config)

    def test_while_they_are_away_nothing_is_concluded_and_once_they_are_back_the_order_is_restored(
        self, guarded: RealKafka, tmp_path: Path
    ) -> None:
        with self.robbed(guarded, tmp_path, 6, "before elect,after leaders") as run:
            halted(run)
            go_on(run)
            halted(run)
            blind, facts = state(guarded, 6), {path.name for path in tmp_path.rglob("wave-*")}
            guarded.grant(*ROBBED_OF)
            go_on(run, times=99)
            shown, said = run.communicate()

        assert (blind.leader, blind.replicas, facts) == (BEST_BY_EPOCH, DESIGNATING, {"wave-0001-started.json"})
        assert run.returncode == 0, said
        report = json.loads("".join(line for line in shown.splitlines() if not line.startswith("halted")))
        (outcome,) = report["outcomes"]
        assert (outcome["outcome"], outcome["order_restored"], outcome["warnings"]) == ("Recovered", True, [])
        assert (state(guarded, 6).leader, state(guarded, 6).replicas) == (BEST_BY_EPOCH, ORIGINAL)

    def test_where_they_stay_away_it_says_what_it_does_not_know_and_resume_restores_the_order(
        self, guarded: RealKafka, tmp_path: Path
    ) -> None:
        resume = ("resume", *self.reach(guarded), "--journal", tmp_path / "journal", "--output", "json")
        with self.robbed(guarded, tmp_path, 7, "before elect", verify=1, rpc=1, look=0.2) as run:
            shown, said = run.communicate()
        too_early = recovery(*resume)
        blind = state(guarded, 7)
        guarded.grant(*ROBBED_OF)
        resumed = recovery(*resume)

        assert (run.returncode, too_early.returncode, resumed.returncode) == (1, 1, 0)
        assert (blind.leader, blind.replicas) == (BEST_BY_EPOCH, DESIGNATING)
        for outcome in (json.loads(shown)["outcomes"][0], outcome_of(too_early)):
            assert (outcome["outcome"], outcome["order_restored"]) == ("InDoubt", None)
            assert "lacks DESCRIBE on topic orders" in outcome["reason"]["message"]
        assert "some assignment orders are not restored yet" in said
        assert (outcome_of(resumed)["outcome"], outcome_of(resumed)["order_restored"]) == ("Recovered", True)
        assert (state(guarded, 7).leader, state(guarded, 7).replicas) == (BEST_BY_EPOCH, ORIGINAL)


def test_who_is_not_let_in_hears_a_sentence_and_leaves_no_journal(
    guarded: RealKafka, command: Command, tmp_path: Path
) -> None:
    """The sentences of other doors that stay shut: test_security.py."""
    secret = "hunter2-is-wrong"
    config = guarded.client_properties(Credentials(Mechanism.SCRAM, "recovers", secret))
    server = guarded.address(2, Mechanism.SCRAM)

    words = ("--all-offline-partitions", "--bootstrap-server", server, "--command-config", str(config))
    failed = command(TOOL, "recover", *words)

    assert (failed.returncode, failed.stdout) == (6, ""), failed.stderr
    assert "Traceback" not in failed.stderr
    assert f"{server}: SCRAM-SHA-512 refused user recovers: wrong user or password" in failed.stderr
    assert_no_secret(failed, tmp_path / "state", secret)
    assert not (tmp_path / "state").exists()


def explained(guarded: RealKafka, command: Command, tmp_path: Path, at_controllers: Credentials) -> str:
    """What a principal that may look at the brokers hears, with another login at the controller."""
    looks = guarded.client_properties(Credentials(Mechanism.SCRAM, "looks", PASSWORD))
    brokers = ("--bootstrap-server", guarded.bootstrap_for(Mechanism.SCRAM), "--command-config", str(looks))
    login = ("--controller-config", str(guarded.client_properties(at_controllers)))
    where = (*brokers, "--bootstrap-controller", guarded.guarded_controller_address(Mechanism.SCRAM), *login)
    done = command(TOOL, "explain", "orders-0", *where)
    assert_no_secret(done, tmp_path)
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


def test_with_cluster_action_at_the_controllers_the_history_is_read(
    guarded: RealKafka, command: Command, tmp_path: Path
) -> None:
    told = explained(guarded, command, tmp_path, Credentials(Mechanism.SCRAM, "at-controllers", PASSWORD))

    assert "a history without unclean election: one happened since all replicas were in sync" in told, told


def test_without_cluster_action_at_the_controllers_nothing_is_proven_and_the_right_is_named(
    guarded: RealKafka, command: Command, tmp_path: Path
) -> None:
    """The one that may do everything else."""
    told = explained(guarded, command, tmp_path, Credentials(Mechanism.SCRAM, "recovers", PASSWORD))

    assert "Loss: Unknown" in told
    assert "CLUSTER_ACTION on the cluster (at the controllers)" in told, told


def test_a_wrong_password_at_the_controllers_is_told_and_keeps_nobody_from_looking(
    guarded: RealKafka, command: Command, tmp_path: Path
) -> None:
    told = explained(guarded, command, tmp_path, Credentials(Mechanism.SCRAM, "at-controllers", "not the password"))

    assert "Loss: Unknown" in told
    assert guarded.guarded_controller_address(Mechanism.SCRAM) in told, told
