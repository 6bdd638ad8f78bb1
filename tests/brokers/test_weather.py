"""Bad weather between us and a real cluster, and on our own disk: what it costs, what is said, what is left alone."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokers.conftest import PROXIED, Command
from testbed.cluster import RealKafka
from testbed.faults import HUGE, BlackHole, Garbage, Proxy, Server
from testbed.metadata import PartitionState
from testbed.warm import WarmKafka

pytestmark = pytest.mark.brokers
GROUP = "proxied"

SURVIVORS = {2: 27, 3: 15}
"""Broker 3 has the later epoch; broker 2, whose proxy makes the weather, the longer log."""
FOUL, BEST = 2, 3
ORIGINAL = (1, 2, 3)
DEADLINE, ATTEMPTS = 2, 2
START = 12
"""Seconds in which a program starts, also where others work."""
TOOL = "kafka-recovery"
POLICY = f"""
limits: {{{{brokersDownPercent: 100}}}}
rules:
- name: everything
  approval: AutoApprove
  candidateOrder: {{order}}
  evidence: {{{{deadline: {DEADLINE}s, attempts: {ATTEMPTS}, requiredAnswers: {{required}}}}}}
"""


@pytest.fixture(scope="module")
def stormy(warm: WarmKafka) -> Iterator[RealKafka]:
    """Offline partitions: most tests only look at number 0; those that recover one have it for themselves."""
    with warm.lent(**PROXIED) as kafka:
        kafka.offline_partition("orders", survivors=SURVIVORS, partitions=8)
        yield kafka


@pytest.fixture
def strict(tmp_path: Path) -> Path:
    """Whoever lives has to answer."""
    return written(tmp_path / "strict.yaml", POLICY.format(order="EpochFirst", required="All"))


@pytest.fixture
def lenient(tmp_path: Path) -> Path:
    """One answer will do."""
    return written(tmp_path / "lenient.yaml", POLICY.format(order="EpochFirst", required="Any"))


@pytest.fixture
def longest(tmp_path: Path) -> Path:
    """The broker behind the proxy is the best."""
    return written(tmp_path / "longest.yaml", POLICY.format(order="LongestLog", required="All"))


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def at(kafka: RealKafka, partition: int = 0) -> list[str]:
    """Where and which, for the command line."""
    return ["--bootstrap-server", kafka.bootstrap, "--partition", f"orders-{partition}"]


def state(kafka: RealKafka, partition: int) -> PartitionState:
    return kafka.describe("orders")[partition]


@contextmanager
def instead(proxy: Proxy, server: Server) -> Iterator[None]:
    """Somebody else answers at the broker's address."""
    real, proxy._target = proxy._target, ("127.0.0.1", server.port)
    proxy.cut()
    proxy.restore()
    try:
        with server:
            yield
    finally:
        proxy._target = real


@contextmanager
def stalled(proxy: Proxy) -> Iterator[None]:
    proxy.stall()
    yield


@contextmanager
def deaf(proxy: Proxy) -> Iterator[None]:
    proxy.drop_answers()
    yield


@contextmanager
def cut(proxy: Proxy) -> Iterator[None]:
    proxy.cut()
    yield


WEATHER: dict[str, tuple[Callable[[Proxy], Any], str]] = {
    "accepts and never answers": (lambda proxy: instead(proxy, BlackHole()), "within 2s"),
    "stands still": (stalled, "within 2s"),
    "answers get lost": (deaf, "within 2s"),
    "hangs up": (cut, "before it answered"),
    "talks garbage": (lambda proxy: instead(proxy, Garbage(seed=7)), "was announced"),
    "announces two gigabytes": (
        lambda proxy: instead(proxy, Garbage(announced=HUGE)),
        f"of {HUGE} bytes was announced",
    ),
}
"""What may become of the broker behind the proxy, and what is said about it."""


@pytest.mark.parametrize("weather", WEATHER)
def test_a_broker_costs_nobody_s_answers_but_its_own(
    weather: str, stormy: RealKafka, command: Command, strict: Path
) -> None:
    befall, problem = WEATHER[weather]
    began = time.monotonic()
    with befall(stormy.proxy(FOUL)):
        looked = command(TOOL, "plan", *at(stormy), "--policy", str(strict), "--output", "json")
    took = time.monotonic() - began
    stormy.proxy(FOUL).restore()

    assert looked.returncode == 0, looked.stderr
    document = json.loads(looked.stdout)["plan"]
    replicas = {replica["broker"]: replica for replica in document["evidence"]["partitions"][0]["replicas"]}
    assert replicas[BEST]["log"]["end"] == SURVIVORS[BEST]
    assert replicas[FOUL]["log"] is None
    assert problem in replicas[FOUL]["problem"]["message"]
    (decision,) = document["decisions"]
    assert (decision["verdict"], decision["reason"]["code"]) == ("Refuse", "LiveReplicaUnmeasured")
    assert f"broker {FOUL}" in decision["reason"]["message"]
    assert took < (ATTEMPTS + 1) * DEADLINE + START


def test_a_silent_broker_does_not_stop_who_may_do_without_it(
    stormy: RealKafka, command: Command, lenient: Path
) -> None:
    began = time.monotonic()
    with instead(stormy.proxy(FOUL), BlackHole()):
        done = command(TOOL, "recover", *at(stormy, 1), "--policy", str(lenient))
    took = time.monotonic() - began
    stormy.proxy(FOUL).restore()

    assert done.returncode == 0, done.stderr
    assert took < 30, "an election has 20 s for its answer; none of that is spent on a broker that has nothing to say"
    assert (state(stormy, 1).leader, state(stormy, 1).replicas) == (BEST, ORIGINAL)


def test_a_broker_that_answers_just_in_time_is_measured_and_elected(
    stormy: RealKafka, command: Command, longest: Path
) -> None:
    """All its answers, one after the other, come within the deadline."""
    stormy.proxy(FOUL).delay(DEADLINE * 0.1)
    done = command(TOOL, "recover", *at(stormy, 2), "--policy", str(longest), "--output", "json")
    stormy.proxy(FOUL).restore()

    assert done.returncode == 0, done.stderr
    (outcome,) = json.loads(done.stdout)["outcomes"]
    assert (outcome["outcome"], outcome["leader"], outcome["log_end"]) == ("Recovered", FOUL, SURVIVORS[FOUL])
    assert state(stormy, 2).replicas == ORIGINAL


def test_a_broker_that_answers_too_late_is_unknown_and_not_empty(
    stormy: RealKafka, command: Command, longest: Path
) -> None:
    stormy.proxy(FOUL).delay(DEADLINE * 1.2)
    looked = command(TOOL, "plan", *at(stormy), "--policy", str(longest), "--output", "json")
    stormy.proxy(FOUL).restore()

    assert looked.returncode == 0, looked.stderr
    (decision,) = json.loads(looked.stdout)["plan"]["decisions"]
    assert decision["verdict"] == "Refuse"
    assert f"broker {FOUL} counts as alive, but its log was not measured" in decision["reason"]["message"]


class TestBootstrap:
    def test_addresses_that_do_not_answer_cost_little_while_one_does(
        self, stormy: RealKafka, command: Command, strict: Path
    ) -> None:
        with BlackHole() as hole, Garbage() as garbage:
            wrong = f"127.0.0.1:1,no-such-host.invalid:9092,{hole.address},{garbage.address}"
            servers = f"{wrong},{stormy.address(BEST)}"
            words = ("--bootstrap-server", servers, "--partition", "orders-0", "--policy", str(strict))
            began = time.monotonic()
            looked = command(TOOL, "plan", *words)
            took = time.monotonic() - began

        assert looked.returncode == 0, looked.stderr
        assert "This plan would elect broker " in looked.stdout
        assert took < DEADLINE + START

    def test_where_nobody_answers_each_address_is_named_with_its_reason(self, command: Command, strict: Path) -> None:
        with BlackHole() as hole:
            swallows = hole.address
            servers = f"127.0.0.1:1,no-such-host.invalid:9092,{swallows}"
            words = ("--bootstrap-server", servers, "--all-offline-partitions", "--policy", str(strict))
            failed = command(TOOL, "recover", *words)

        assert (failed.returncode, failed.stdout) == (3, "")
        assert "none of 3 brokers answered" in failed.stderr
        assert "127.0.0.1:1: connection refused" in failed.stderr
        assert "no-such-host.invalid:9092: the name no-such-host.invalid can't be resolved" in failed.stderr
        assert f"{swallows} did not" in failed.stderr

    @pytest.mark.parametrize(
        ("announced", "seed"), [(None, 1), (None, 2), (0, 1), (12, 1), (512, 1), (512, 2), (HUGE, 1)]
    )
    def test_no_garbage_is_taken_for_kafka(
        self, announced: int | None, seed: int, command: Command, strict: Path
    ) -> None:
        with Garbage(seed, announced) as garbage:
            address = garbage.address
            words = ("--bootstrap-server", address, "--all-offline-partitions", "--policy", str(strict))
            failed = command(TOOL, "inspect", *words)

        assert (failed.returncode, failed.stdout) == (3, "")
        assert address in failed.stderr
        assert "Traceback" not in failed.stderr

    def test_another_cluster_than_expected_is_left_alone(
        self, stormy: RealKafka, command: Command, lenient: Path
    ) -> None:
        before = state(stormy, 0)
        words = (*at(stormy), "--policy", str(lenient), "--expect-cluster-id", "AAAAAAAAAAAAAAAAAAAAAA")
        refused = command(TOOL, "recover", *words)

        assert (refused.returncode, refused.stdout) == (2, "")
        assert f"belongs to cluster {stormy.cluster_id}, expected AAAAAAAAAAAAAAAAAAAAAA" in refused.stderr
        assert state(stormy, 0) == before


def test_partitions_that_do_not_exist_are_named_and_hold_up_no_other(
    stormy: RealKafka, command: Command, strict: Path, tmp_path: Path
) -> None:
    entries = [{"topic": "orders", "partitions": [3, 99]}, {"topic": "oders", "partitions": [0]}]
    file = written(tmp_path / "partitions.json", json.dumps({"partitions": entries}))
    words = ("--bootstrap-server", stormy.bootstrap, "--path-to-json-file", str(file), "--policy", str(strict))
    done = command(TOOL, "recover", *words, "--output", "json")

    assert done.returncode == 1, done.stderr
    outcomes = {"-".join(map(str, outcome["id"])): outcome for outcome in json.loads(done.stdout)["outcomes"]}
    assert {id: outcome["outcome"] for id, outcome in outcomes.items()} == {
        "orders-3": "Recovered",
        "orders-99": "Refused",
        "oders-0": "Refused",
    }
    assert "topic orders has no partition 99" in outcomes["orders-99"]["reason"]["message"]
    assert "topic oders" in outcomes["oders-0"]["reason"]["message"]


class TestJournal:
    """Nothing may change in Kafka that could not be written down before."""

    def test_a_disk_that_is_full_before_the_plan_is_whole_stops_everything_and_leaves_no_half_of_it(
        self, stormy: RealKafka, lenient: Path, tmp_path: Path
    ) -> None:
        before = state(stormy, 5)
        words = ["recover", *at(stormy, 5), "--policy", str(lenient), "--journal", str(tmp_path / "journal")]
        full = with_files_of_at_most(1024, *words)
        left = state(stormy, 5)
        half = list((tmp_path / "journal").glob("*/*/plan.json"))
        roomy = with_files_of_at_most(resource.RLIM_INFINITY, *words)

        assert full.returncode == 5
        assert "Refused" in full.stdout
        assert "the journal can't be written at" in full.stderr
        assert left == before
        assert not half
        assert roomy.returncode == 0, roomy.stderr

    def test_a_disk_that_is_full_before_the_first_wave_leaves_everything_as_it_was(
        self, stormy: RealKafka, command: Command, lenient: Path, tmp_path: Path
    ) -> None:
        before = state(stormy, 6)
        plan, blocked = planned(stormy, 6, command, lenient, tmp_path, "wave-0001-started.json")
        words = (TOOL, "execute", str(plan), "--bootstrap-server", stormy.bootstrap)
        failed = command(*words, "--journal", str(tmp_path / "journal"))
        left = state(stormy, 6)
        blocked.rmdir()
        resumed = command(*words, "--journal", str(tmp_path / "journal"))

        assert failed.returncode == 5
        assert "orders-6: JournalUnwritable" in failed.stdout
        assert left == before
        assert resumed.returncode == 0, resumed.stderr
        assert (state(stormy, 6).leader, state(stormy, 6).replicas) == (BEST, ORIGINAL)

    def test_a_disk_that_is_full_after_the_wave_leaves_no_order_altered(
        self, stormy: RealKafka, command: Command, lenient: Path, tmp_path: Path
    ) -> None:
        plan, _ = planned(stormy, 7, command, lenient, tmp_path, "wave-0001-ended.json")
        words = (TOOL, "execute", str(plan), "--bootstrap-server", stormy.bootstrap)
        failed = command(*words, "--journal", str(tmp_path / "journal"))

        assert failed.returncode == 5
        assert "1 of 1 partitions have a leader that answers." in failed.stdout
        assert "To go on: kafka-recovery resume" in failed.stderr
        assert (state(stormy, 7).leader, state(stormy, 7).replicas) == (BEST, ORIGINAL)


def planned(
    kafka: RealKafka, partition: int, command: Command, policy: Path, folder: Path, unwritable: str
) -> tuple[Path, Path]:
    """A plan file, and what stands in the way of one fact in its journal."""
    plan = folder / "plan.json"
    made = command(TOOL, "plan", *at(kafka, partition), "--policy", str(policy), "--out", str(plan))
    assert made.returncode == 0, made.stderr
    digest = json.loads(plan.read_text())["digest"]
    in_the_way = folder / "journal" / kafka.cluster_id / digest[:16] / f".{unwritable}.partial"
    in_the_way.mkdir(parents=True)
    return plan, in_the_way


def with_files_of_at_most(size: int, *words: str) -> subprocess.CompletedProcess[str]:
    """The command as on a full disk: no file grows beyond so many bytes."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))"
    program = f"{limit}; from kafka_recovery.cli.main import main; main()"
    command = [sys.executable, "-B", "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
